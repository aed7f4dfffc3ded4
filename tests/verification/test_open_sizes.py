"""Open axes are compared at 1, at their first size and at another, alone and together."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from torch import nn

import regraft


class Inner(nn.Module):
    """All but the first and the last are cleared: of one or two there is no other."""

    def forward(self, x):
        kept = x.clone()
        kept[:, 1:-1] = 0
        return kept


class Differences(nn.Module):
    def forward(self, x):
        return x[:, 1:] - x[:, :-1]


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).mean((2, 3))


def file(text: str, path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}'), path)
    return path


INNER = """(float[N,T] x) => (float[N,U] y) {
    first = Slice(x, zero, one, axis) rest = Slice(x, last, end, axis) middle = Slice(x, one, last, axis)
    none = Sub(middle, middle) y = Concat<axis=1>(first, none, rest) }"""
RIGHT = """(float[N,T] x) => (float[N,T] y) {
    s = Shape<start=1>(x) n = Squeeze(s) places = Range(nought, n, step) more = Greater(places, nought)
    m = Sub(n, step) fewer = Less(places, m) inner = And(more, fewer) y = Where(inner, cleared, x) }"""
NUMBERS = {"zero": [0], "one": [1], "last": [-1], "end": [2**31], "axis": [1], "nought": 0, "step": 1}


@pytest.mark.parametrize(("text", "failing"), [(RIGHT, set()), (INNER, {"T=1"})])
def test_a_range_that_is_empty_at_one_size(text: str, failing: set[str], tmp_path: Path) -> None:
    path = file(text, tmp_path / "net.onnx")
    model = onnx.load(path)
    values = {name: np.array(value, np.int64) for name, value in NUMBERS.items()}
    for name, array in {**values, "cleared": np.zeros((), np.float32)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, path)
    graph = regraft.load(Inner(), (torch.randn(2, 6),), dynamic={"x": [0, 1]})
    (symbol,) = {d for node in graph.input_nodes() for d in node.type.shape} - {"N"}
    report = regraft.verify(graph, path)
    assert report.passed is (not failing), report.render()
    found = {row.case.split(", ")[1].replace(symbol, "T") for row in report.outputs if not row.passed}
    assert found == failing


def test_sizes_that_the_source_refuses_are_no_failures(tmp_path: Path) -> None:
    graph = regraft.load(Convolved().eval(), (torch.randn(2, 3, 8, 8),), dynamic={"x": [0, 2, 3]})
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx", to="onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()
    assert len(report.coverage.refused) == 4
    assert sum("does not run with" in note for note in report.notes) == 2
    assert sum("nor does it run with" in note for note in report.notes) == 1


@pytest.mark.parametrize("target", ["onnx", "mindspore"])
def test_results_without_elements_are_compared(target: str, tmp_path: Path) -> None:
    graph = regraft.load(Differences(), (torch.randn(2, 3, 4),), dynamic={"x": [0, 1]})
    out = tmp_path / ("net.onnx" if target == "onnx" else "net")
    regraft.save(regraft.rewrite(graph).graph, out, to=target)
    report = regraft.verify(graph, out)
    assert report.passed, report.render()
    assert {row.shape[1] for row in report.outputs} == {0, 2, 5}
