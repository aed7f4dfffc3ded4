"""What regraft must show (the README's claims), end to end through the command line and the API."""

import importlib.util
import json
import sys
import uuid
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

import regraft
from regraft.cli import main

from .corpora.mxnet.cases import cases

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def emitted(folder: Path) -> ModuleType:
    """Import an emitted ``model.py`` under a unique name, as MindSpore's compiler needs."""
    name = f"emitted_{uuid.uuid4().hex}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(*arguments: object) -> tuple[int, dict]:
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert result.exit_code in (0, 1, 2), result.output
    return result.exit_code, json.loads(result.stdout)


def example(name: str):
    """A class or factory of the examples, from the module that MindSpore and regraft know too."""
    from regraft.frontends.python_file import load_object

    return load_object(name)


# -- 1. the duplicate-name net -------------------------------------------------------------------------

DUPLICATE = f"{EXAMPLES / 'duplicate_names.py'}:DuplicateNames"
NEVER_RUN = f"{EXAMPLES / 'duplicate_names.py'}:NeverRun"


class TestDuplicateNames:
    def test_mindspore_refuses_the_original(self, tmp_path: Path) -> None:
        import mindspore as ms

        net = example(DUPLICATE)
        with pytest.raises(ValueError, match="already exists"):
            ms.nn.Adam(net.trainable_params())
        held = len(list(net.get_parameters()))
        ms.save_checkpoint(net, str(tmp_path / "lost.ckpt"))
        assert len(ms.load_checkpoint(str(tmp_path / "lost.ckpt"))) < held

    def test_check_names_every_conflict_without_inputs(self) -> None:
        code, document = run("check", DUPLICATE)
        assert code == 1
        conflicts = [f for f in document["findings"] if f["severity"] == "error"]
        net = example(DUPLICATE)
        names = [p.name for p in net.get_parameters()]
        twice = {n for n in names if names.count(n) > 1}
        assert twice
        text = json.dumps(conflicts)
        for name in twice:
            assert name in text
        for path, parameter in net.parameters_and_names():
            if parameter.name in twice:
                assert path in text
        assert "duplicate_names.py:" in text

    def test_rewrite_mends_it(self, tmp_path: Path) -> None:
        import mindspore as ms

        out = tmp_path / "out"
        code, document = run("rewrite", DUPLICATE, "--input", "2x3x16x16", "--to", "mindspore", "-o", out)
        assert code == 0
        assert document["verified"]["passed"]
        module = emitted(out)
        net = module.build()
        ms.nn.Adam(net.trainable_params())
        source = example(DUPLICATE)
        held = list(source.get_parameters())
        stored = ms.load_checkpoint(str(out / "model.ckpt"))
        assert len(stored) == len(held) == len({p.name for p in net.get_parameters()})

    def test_outputs_equal_the_originals(self, tmp_path: Path) -> None:
        import mindspore as ms

        source = example(DUPLICATE)
        x = ms.Tensor(np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32))
        names = [p.name for p in source.get_parameters()]
        graph = regraft.load(source, (x,))
        assert [p.name for p in source.get_parameters()] == names  # the caller's net is as it was
        regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
        source.set_train(False)
        expected = source(x).asnumpy()
        got = emitted(tmp_path / "out").build()(x).asnumpy()
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def test_groups_in_a_sequential_cell_never_run(self) -> None:
        code, document = run("check", NEVER_RUN, "--input", "2x3x16x16")
        assert code == 1
        assert any("never run" in f["message"] for f in document["findings"])


# -- 2. the reused-layer net ---------------------------------------------------------------------------

REUSED = f"{EXAMPLES / 'reused_layer.py'}:ReusedLayer"


class TestReusedLayer:
    def test_show_counts_once(self) -> None:
        _, document = run("show", REUSED, "--input", "2x3x64x64")
        assert document["used"] == 9536
        aliased = {m["path"]: m["aliases"] for m in document["modules"] if m["aliases"]}
        assert any("base.conv1" in aliases or path == "base.conv1" for path, aliases in aliased.items())
        assert any("never called" in note for m in document["modules"] for note in m["notes"])

    def test_emitted_source_has_one_of_each(self, tmp_path: Path) -> None:
        arguments = (REUSED, "--input", "2x3x64x64", "--to", "mindspore", "-o", tmp_path / "out")
        code, refused = run("rewrite", *arguments)
        assert (code, refused["error"]["code"]) == (2, "E003")  # most of what is trained is never called
        code, _ = run("rewrite", *arguments, "--allow-removal")
        assert code == 0
        text = (tmp_path / "out" / "model.py").read_text()
        assert text.count("nn.Conv2d(") == 1
        assert text.count("nn.BatchNorm2d(") == 1
        net = emitted(tmp_path / "out").build()
        assert sum(p.size for p in net.trainable_params()) == 9536


# -- 3. torch to MindSpore -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "spec"),
    [
        pytest.param(
            f"{EXAMPLES / 'resnet.py'}:resnet18", "2x3x64x64", marks=pytest.mark.slow, id="resnet18"
        ),
        pytest.param(f"{EXAMPLES / 'transformer.py'}:TransformerClassifier", "2x16:int64", id="transformer"),
    ],
)
@pytest.mark.parametrize("target", ["mindspore", "onnx"])
def test_torch_model(model: str, spec: str, target: str, tmp_path: Path) -> None:
    out = tmp_path / ("out.onnx" if target == "onnx" else "out")
    code, document = run("rewrite", model, "--input", spec, "--to", target, "-o", out)
    assert code == 0
    report = document["verified"]
    assert report["passed"]
    assert len([m for m in report["modules"] if m["max_abs"] is not None]) > 10


# -- 4. the conv default trap --------------------------------------------------------------------------


def test_convolution_keeps_torchs_padding(tmp_path: Path) -> None:
    import mindspore as ms
    import torch

    model = torch.nn.Conv2d(120, 240, 4)
    x = torch.randn(2, 120, 12, 12)
    graph = regraft.load(model, (x,))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    got = emitted(tmp_path / "out").build()(ms.Tensor(x.numpy())).asnumpy()
    assert got.shape == (2, 240, 9, 9)
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-4, atol=1e-4)
    assert ms.nn.Conv2d(120, 240, 4)(ms.Tensor(x.numpy())).shape == (2, 240, 12, 12)  # the trap


# -- 5. MXNet's weight sharing -------------------------------------------------------------------------

SHARED = EXAMPLES / "shared_weight-symbol.json"
KERNEL = np.repeat(np.array([1, 2, 3], np.float32), 3).reshape(1, 1, 3, 3)
TWIN = "tie-weights:twin=data+data2"


class TestSharedWeight:
    def twin(self) -> regraft.Rewritten:
        graph = regraft.load(SHARED, {"data": KERNEL})
        return regraft.rewrite(graph, [TWIN, "rename-parameters"])

    def test_one_parameter_in_the_graph(self) -> None:
        assert len(self.twin().graph.parameters()) == 1

    def test_onnx(self, tmp_path: Path) -> None:
        import onnx
        import onnxruntime

        regraft.save(self.twin().graph, tmp_path / "twin.onnx")
        model = onnx.load(tmp_path / "twin.onnx")
        assert sum(list(t.dims) == [1, 1, 3, 3] for t in model.graph.initializer) == 1
        session = onnxruntime.InferenceSession(tmp_path / "twin.onnx")
        outputs = session.run(None, {"data": KERNEL, "data2": KERNEL})
        assert [float(o.item()) for o in outputs] == [42.0, 42.0]

    def test_mxnet(self, tmp_path: Path) -> None:
        regraft.save(self.twin().graph, tmp_path / "twin", to="mxnet")
        file = next((tmp_path / "twin").glob("*-symbol.json"))
        symbol = json.loads(file.read_text())
        convolutions = [n for n in symbol["nodes"] if n["op"] == "Convolution"]
        assert len(convolutions) == 2
        assert len({tuple(n["inputs"][1]) for n in convolutions}) == 1  # the same node, not the same name
        again = regraft.load(file, {"data": KERNEL, "data2": KERNEL})
        assert len(again.parameters()) == 1

    def test_mindspore_trains_it_through_both_branches(self, tmp_path: Path) -> None:
        import mindspore as ms

        regraft.save(self.twin().graph, tmp_path / "twin", to="mindspore")
        net = emitted(tmp_path / "twin").build()
        x = ms.Tensor(KERNEL)
        assert [float(o.asnumpy().item()) for o in net(x, x)] == [42.0, 42.0]
        parameters = net.trainable_params()
        assert len(parameters) == 1
        optimizer = ms.nn.SGD(parameters, 0.01)
        loss = ms.value_and_grad(lambda a, b: sum(o.sum() for o in net(a, b)), None, parameters)
        _, gradients = loss(x, x)
        optimizer(gradients)
        after = float(net(x, x)[0].asnumpy().item())
        assert after == pytest.approx(41.16, abs=1e-4)  # two copies would give 41.58

    def test_command_line_keeps_one_parameter(self, tmp_path: Path) -> None:
        code, document = run(
            "rewrite",
            SHARED,
            "--input",
            "data=1x1x3x3",
            "--pass",
            TWIN,
            "--to",
            "mindspore",
            "-o",
            tmp_path / "out",
        )
        assert code == 0
        assert document["verified"]["passed"]


# -- 6. MXNet resnet18_v1 ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("target", ["mindspore", "onnx"])
def test_mxnet_resnet18_equals_what_mxnet_recorded(target: str, tmp_path: Path) -> None:
    recorded = cases("models")["zoo/resnet18_v1"]
    inputs = recorded.inputs()
    graph = regraft.load(recorded.write(tmp_path), inputs)
    rewritten = regraft.rewrite(graph).graph
    if target == "onnx":
        import onnxruntime

        regraft.save(rewritten, tmp_path / "out.onnx")
        outputs = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, inputs)
    else:
        import mindspore as ms

        regraft.save(rewritten, tmp_path / "out", to="mindspore")
        outputs = [emitted(tmp_path / "out").build()(ms.Tensor(inputs["data"])).asnumpy()]
    recorded.check(outputs)
