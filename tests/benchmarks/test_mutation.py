"""The mutation engine: what it plants, that it is the same every time, and that a sample of it is caught."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from regraft import verify
from regraft.benchmarks.mutation.equivalents import equivalence, unused
from regraft.benchmarks.mutation.judging import Judge, Outcome
from regraft.benchmarks.mutation.mutants import Mutant, sampled
from regraft.benchmarks.mutation.right_onnx import onnx_rewrites
from regraft.benchmarks.mutation.samples import Sample, labels
from regraft.benchmarks.mutation.sharing import shared_runs
from regraft.benchmarks.mutation.stored import key_of, known_survivors
from regraft.benchmarks.mutation.table import render, share
from regraft.benchmarks.mutation.values import weight_faults

BUDGET = 8
"""Mutants of a target that the tests try, of the hundreds that `make mutants` does."""

NETS = ["torch_vision.LeNet", "torch_text.HandAttention", "torch_recurrent.Stepwise", "mxnet.net.mlp"]
"""A convolutional net, a Transformer's attention, recurrent cells, a symbol."""


@pytest.fixture(scope="module", params=NETS)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return Sample(request.param, tmp_path_factory.mktemp("right"))


def outcomes(sample: Sample, target: str, scratch: Path) -> list[Outcome]:
    chosen = sampled(sample.mutants(target), 1, f"{sample.label} | {target}")
    chosen.sort(key=lambda m: zlib.crc32(m.name.encode()))
    with shared_runs():
        judge = Judge(sample, target, scratch)
        return [o for m in chosen[:BUDGET] if (o := judge.outcome(m)) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "graph", "mxnet"])
def test_no_fault_survives_that_was_caught_before(sample: Sample, target: str, tmp_path: Path) -> None:
    if target not in sample.targets:
        pytest.skip("not a target of that net")
    found = outcomes(sample, target, tmp_path)
    assert sum(o.verdict == "caught" for o in found) > len(found) / 4
    assert not [o for o in found if o.verdict == "crashed"]
    survivors = {key_of(o.to_json()) for o in found if o.verdict == "survived"}
    assert survivors <= known_survivors()


@pytest.mark.slow
def test_no_fault_in_mindspore_source_survives_that_was_caught_before(tmp_path: Path) -> None:
    (tmp_path / "right").mkdir()
    sample = Sample("torch_vision.LeNet", tmp_path / "right")
    found = outcomes(sample, "mindspore", tmp_path)
    assert sum(o.verdict == "caught" for o in found) > len(found) / 4
    assert {key_of(o.to_json()) for o in found if o.verdict == "survived"} <= known_survivors()


@pytest.mark.slow
def test_other_ways_to_write_the_same_onnx_file_are_equal(sample: Sample, tmp_path: Path) -> None:
    path = sample.written("onnx")
    assert isinstance(path, Path)
    with shared_runs():
        reports = {what: verify(sample.graph, build(tmp_path)) for what, build in onnx_rewrites(path)}
    assert len(reports) > 5
    wrong = {what: report.render(brief=True) for what, report in reports.items() if not report.passed}
    assert not wrong


def test_every_mutant_has_a_name_of_its_own_and_is_the_same_every_time(
    sample: Sample, tmp_path: Path
) -> None:
    first, second = (list(sample.mutants("onnx")) for _ in range(2))
    assert [m.name for m in first] == [m.name for m in second]
    chosen = sampled(first, 1, "seed")
    assert len({m.name for m in chosen}) == len(chosen)
    assert [m.name for m in chosen] == [m.name for m in sampled(second, 1, "seed")]
    path = chosen[0].build(tmp_path)
    assert isinstance(path, Path)
    before = path.read_bytes()
    again = sampled(second, 1, "seed")[0].build(tmp_path)
    assert isinstance(again, Path)
    assert again.read_bytes() == before


def test_every_mutant_of_a_file_is_another_file(tmp_path: Path) -> None:
    (tmp_path / "right").mkdir()
    sample = Sample("torch_vision.LeNet", tmp_path / "right")
    path = sample.written("onnx")
    assert isinstance(path, Path)
    right = onnx.load(path).SerializeToString(deterministic=True)
    for mutant in sample.mutants("onnx"):
        wrong = mutant.build(tmp_path)
        assert isinstance(wrong, Path)
        assert onnx.load(wrong).SerializeToString(deterministic=True) != right, mutant.name


def test_shared_runs_give_the_reports_of_runs_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "right").mkdir()
    sample = Sample("mxnet.net.mlp", tmp_path / "right")
    chosen = sampled(sample.mutants("onnx"), 1, "seed")[-6:]

    def reports() -> list[dict[str, object]]:
        return [verify(sample.graph, m.build(tmp_path)).to_json() for m in chosen]

    alone = reports()
    with shared_runs():
        assert reports() == alone
        assert reports() == alone


def test_a_sample_has_every_kind_and_no_more_of_each_than_asked() -> None:
    made = [Mutant(f"kind {i % 3}", f"place {i}", Path) for i in range(30)]
    assert Counter(m.kind for m in sampled(made, 2, "s")) == {"kind 0": 2, "kind 1": 2, "kind 2": 2}
    assert len(sampled(made, 0, "s")) == 30
    assert {m.name for m in sampled(made, 1, "s")} <= {m.name for m in sampled(made, 2, "s")}


def test_faults_of_a_weight_change_values_and_neither_shape_nor_type() -> None:
    array = np.arange(16, dtype=np.float32).reshape(4, 4) / 7
    found = dict(weight_faults("w", array))
    assert {"weight x 1.00001", "weight transposed", "weight through float16"} <= set(found)
    for kind, change in found.items():
        new = change(array)
        assert new.shape == array.shape, kind
        assert new.dtype == array.dtype, kind
        assert not np.array_equal(new, array), kind
    assert not list(weight_faults("w", np.zeros(3, np.float32)))


def test_equivalents_are_told_by_pattern_and_those_that_match_nothing_are_said() -> None:
    key = "torch_vision.MobileNetV3 | onnx | stride + 1 | Conv `block.3.fc2/Conv`: strides [1, 1] -> [2, 2]"
    assert "single pixel" in equivalence(key)
    assert not equivalence(key.replace("fc2", "stem"))
    assert len(unused([key])) == len(unused([])) - 1


def test_the_share_is_of_what_runs_and_is_another_function() -> None:
    verdicts = ["caught", "caught", "survived", "invalid", "faint", "equivalent"]
    assert share(Counter(verdicts)) == 2 / 3
    rows = [
        {"net": "n", "target": "onnx", "kind": "k", "place": str(i), "verdict": v}
        for i, v in enumerate(verdicts)
    ]
    assert "| n, onnx | 2 | 1 | 1 | 1 | 1 | 66.7% |" in render(rows)


def test_nets_of_all_kinds_are_there() -> None:
    assert set(NETS) <= set(labels())
    assert {label.partition(".")[0].partition("_")[0] for label in labels()} == {
        "torch",
        "mindspore",
        "mxnet",
    }
