"""Every net of `nets/` through load, rewrite, save and verify, against what its own framework computes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import regraft
from regraft.ir import parse, render, validate

from .catalogue import CASES, Arrays, Case, flat, imported

pytestmark = pytest.mark.slow  # seconds a net, and there are many

EXAMPLE, ANOTHER = 2, 3
"""The batch size that is traced, and one that nothing was told about."""

LOADED_TWICE = ("LeNet5", "ReusedCell", "Stepwise")
"""The nets of MindSpore that are compiled again, to see that the same comes of it."""

RUFF_RULES = "E,F,I,B,UP,W,C4,SIM,PIE"


class Sample:
    """A net, what it computes, and what regraft makes of it; each made once for all tests of the net."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.folder = folder
        self.net = case.build()
        self.batches = {n: case.inputs(n) for n in ((EXAMPLE,) if case.fixed_batch else (EXAMPLE, ANOTHER))}

    @cached_property
    def expected(self) -> dict[int, list[np.ndarray]]:
        """What a second, equal net computes: one that regraft never sees."""
        net = self.case.build()
        return {n: self.case.run(net, arrays) for n, arrays in self.batches.items()}

    @cached_property
    def before(self) -> list[object]:
        return state(self.case, self.net)

    @cached_property
    def graph(self) -> regraft.Graph:
        _ = self.before
        return regraft.load(self.net, self.batches[EXAMPLE])

    @cached_property
    def rewritten(self) -> regraft.Rewritten:
        return regraft.rewrite(self.graph, verify_each=True)

    @cached_property
    def onnx(self) -> Path:
        path = self.folder / "net.onnx"
        regraft.save(self.rewritten.graph, path)
        return path

    @cached_property
    def source(self) -> Path:
        regraft.save(self.rewritten.graph, self.folder / "net", to="mindspore")
        return self.folder / "net"


def state(case: Case, net: Any) -> list[object]:
    """Everything about a net that loading must leave alone: names, values, flags, hooks."""
    if case.framework == "torch":
        return [
            [(path, type(m), m.training, dict(m._forward_hooks)) for path, m in net.named_modules()],
            [
                (path, p.requires_grad, p.data_ptr(), p.numpy(force=True).tobytes())
                for path, p in net.named_parameters()
            ],
            [(path, b.numpy(force=True).tobytes()) for path, b in net.named_buffers()],
        ]
    return [
        [(path, type(c), c.training, c.phase, c.param_prefix) for path, c in net.cells_and_names()],
        [(path, p.name, p.requires_grad, p.asnumpy().tobytes()) for path, p in net.parameters_and_names()],
    ]


def close(expected: list[np.ndarray], got: list[np.ndarray]) -> None:
    """Float32 rounding of a few hundred additions; integers and booleans exactly."""
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype.kind == theirs.dtype.kind
        if theirs.dtype.kind == "f":
            scale = max(1.0, float(np.abs(theirs).max(initial=0)))
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5 * scale)
        else:
            np.testing.assert_array_equal(ours, theirs)


def run_onnx(path: Path, inputs: Arrays) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def emitted(folder: Path) -> Any:
    return imported(f"emitted_{uuid.uuid4().hex}", folder / "model.py")


def run_cell(net: Any, inputs: Arrays) -> list[np.ndarray]:
    import mindspore

    return flat(net(*(mindspore.Tensor(x.copy()) for x in inputs)))


@pytest.fixture(
    scope="class",
    params=[
        pytest.param(
            case,
            id=case.label,
            marks=[pytest.mark.xdist_group(case.label), *([pytest.mark.slow] if case.heavy else [])],
        )
        for case in CASES
    ],
)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return Sample(request.param, tmp_path_factory.mktemp("net"))


class TestNet:
    def test_loading_leaves_the_callers_net_as_it_was(self, sample: Sample) -> None:
        before = sample.before
        assert sample.graph.outputs
        assert state(sample.case, sample.net) == before
        for n, arrays in sample.batches.items():
            for got, expected in zip(sample.case.run(sample.net, arrays), sample.expected[n], strict=True):
                np.testing.assert_array_equal(got, expected)

    def test_the_batch_is_symbolic(self, sample: Sample) -> None:
        first = sample.graph.input_nodes()[0].types[0]
        assert first is not None
        assert first.is_static == bool(sample.case.fixed_batch)

    def test_text_form_round_trip(self, sample: Sample) -> None:
        for graph in (sample.graph, sample.rewritten.graph):
            text = render(graph)
            again = parse(text)
            validate(again)
            assert render(again) == text

    def test_loading_twice_gives_the_same_text(self, sample: Sample) -> None:
        if sample.case.framework == "mindspore" and sample.case.name not in LOADED_TWICE:
            pytest.skip("MindSpore compiles for seconds, so that only some of its nets are compiled twice")
        again = regraft.load(sample.case.build(), sample.batches[EXAMPLE])
        assert render(again) == render(sample.graph)

    def test_a_second_rewrite_changes_nothing(self, sample: Sample) -> None:
        before = render(sample.rewritten.graph)
        again = regraft.rewrite(sample.rewritten.graph)
        assert render(again.graph) == before
        assert [str(c) for c in again.changes if c.fixed] == []

    def test_parameters_have_unique_names_and_one_rename_each(self, sample: Sample) -> None:
        names = [p.name for p in sample.rewritten.graph.parameters()]
        assert len(set(names)) == len(names)
        assert {r.target for r in sample.rewritten.renames} == set(names)

    def test_onnx_outputs_equal_the_frameworks(self, sample: Sample) -> None:
        onnx.checker.check_model(str(sample.onnx), full_check=True)
        for n, arrays in sample.batches.items():
            close(sample.expected[n], run_onnx(sample.onnx, arrays))

    def test_emitted_source_is_clean(self, sample: Sample) -> None:
        ruff = [sys.executable, "-m", "ruff"]
        file = str(sample.source / "model.py")
        check = [*ruff, "check", "--isolated", "--select", RUFF_RULES, "--line-length", "110", file]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        check = [*ruff, "format", "--isolated", "--check", "--diff", file]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout

    def test_mindspore_outputs_equal_the_frameworks(self, sample: Sample) -> None:
        import mindspore as ms

        module, largest = emitted(sample.source), max(sample.batches)
        # a graph is compiled for each size: the one that nothing was told about, where there is one
        for mode, sizes in ((ms.PYNATIVE_MODE, [*sample.batches]), (ms.GRAPH_MODE, [largest])):
            net = module.build()
            ms.set_context(mode=mode)
            try:
                for n in sizes:
                    close(sample.expected[n], run_cell(net, sample.batches[n]))
            finally:
                ms.set_context(mode=ms.PYNATIVE_MODE)

    def test_checkpoint_holds_every_parameter_once_and_loads_strictly(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        import mindspore as ms

        net = emitted(sample.source).build()
        names = [p.name for p in net.get_parameters()]
        assert names == [path for path, _ in net.parameters_and_names()]
        kept = {p.name for p in sample.rewritten.graph.parameters()}
        if not names:
            assert not kept
            return
        stored = ms.load_checkpoint(str(sample.source / "model.ckpt"))
        assert sorted(stored) == sorted(names)
        assert len(set(names)) == len(names)
        if net.trainable_params():
            ms.nn.Adam(net.trainable_params())  # refuses duplicate names
        fewer = [{"name": name, "data": value} for name, value in stored.items()]
        fewer[-1] = {"name": "surplus", "data": fewer[-1]["data"]}
        ms.save_checkpoint(fewer, str(tmp_path / "fewer.ckpt"))
        with pytest.raises(ValueError, match="surplus"):
            emitted(sample.source).build(tmp_path / "fewer.ckpt")

    def test_build_without_a_checkpoint_draws_new_weights(self, sample: Sample) -> None:
        net = emitted(sample.source).build(checkpoint=None)
        outputs = run_cell(net, sample.batches[EXAMPLE])
        assert [o.shape for o in outputs] == [o.shape for o in sample.expected[EXAMPLE]]

    @pytest.mark.parametrize("target", ["onnx", "mindspore"])
    def test_verify_passes_and_fails_with_one_weight_perturbed(
        self, sample: Sample, target: str, tmp_path: Path
    ) -> None:
        """Each net passes in both targets, and fails in one of them, in turns."""
        path = sample.onnx if target == "onnx" else sample.source
        report = regraft.verify(sample.graph, path)
        assert report.passed, report.render()
        assert report.outputs
        compared = [row.call for row in report.modules if row.max_abs is not None]
        calls = [call for call in sample.graph.modules.calls() if call.module != 0]
        assert bool(compared) == bool(calls), report.render()
        if (CASES.index(sample.case) % 2 == 0) != (target == "onnx"):
            return
        weights = {
            p.name
            for p in sample.rewritten.graph.parameters()
            if p.data.dtype == "float32" and len(p.data.shape) > 1 and p.data.nbytes > 4
        }
        broken = (
            perturbed_onnx(path, tmp_path, weights) if target == "onnx" else perturbed_source(path, tmp_path)
        )
        if broken is None:
            assert not weights
            return
        report = regraft.verify(sample.graph, broken)
        assert not report.passed, report.render()
        assert bool(report.first_divergence) == bool(calls)


def noise(array: np.ndarray) -> np.ndarray:
    return (array + np.random.default_rng(0).normal(0, 0.1, array.shape)).astype(array.dtype)


def perturbed_onnx(path: Path, folder: Path, weights: set[str]) -> Path | None:
    """The model with noise on its first weight; edited by onnx itself, so that our own writer has no part."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(noise(array), tensor.name))
            onnx.save(model, folder / "broken.onnx")
            return folder / "broken.onnx"
    return None


def perturbed_source(path: Path, folder: Path) -> Path | None:
    """A copy of an emitted folder with noise on a weight of the checkpoint, by MindSpore itself."""
    import mindspore as ms

    if not (path / "model.ckpt").exists():
        return None
    if (path / "model.ckpt").stat().st_size == 0:  # a net without parameters
        return None
    stored = ms.load_checkpoint(str(path / "model.ckpt"))
    for name, value in stored.items():
        if value.ndim >= 2 and value.size > 1 and value.dtype == ms.float32:
            value.set_data(ms.Tensor(noise(value.asnumpy())))
            shutil.copytree(path, folder / "broken")
            rows = [{"name": key, "data": data} for key, data in stored.items()]
            ms.save_checkpoint(rows, str(folder / "broken" / "model.ckpt"))
            assert name in stored
            return folder / "broken"
    return None
