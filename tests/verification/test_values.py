"""Tensors of a target against the source's, to the bit, by what ``renames.json`` says of each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import regraft
from regraft.checkpoints.mapping import read_map
from regraft.verification.structure.values import compare_values


class Net(torch.nn.Module):
    """A convolution that takes its normalisation in, a tied one, and a Dense stored transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.twice = torch.nn.Conv2d(4, 4, 1, bias=False)
        self.again = torch.nn.Conv2d(4, 4, 1, bias=False)
        self.again.weight = self.twice.weight
        self.head = torch.nn.Linear(4, 5)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = self.again(torch.relu(self.twice(self.norm(self.conv(x)))))
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def graph() -> regraft.Graph:
    torch.manual_seed(0)
    return regraft.load(Net().eval(), ("2x3x6x6",))


@pytest.fixture
def written(graph: regraft.Graph, tmp_path: Path) -> Path:
    return regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")[0]


def change(path: Path, name: str, factor: float) -> None:
    model = onnx.load(path)
    tensor = next(t for t in model.graph.initializer if t.name == name)
    array = numpy_helper.to_array(tensor) * np.float32(factor)
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(model, path)


def test_what_was_written_holds_the_sources_tensors(graph: regraft.Graph, written: Path) -> None:
    structure = regraft.verify(graph, written).structure
    assert structure is not None
    assert structure.values == []
    assert structure.tensors == 5  # weight and bias that took the normalisation in, the tied one, the head's


@pytest.mark.parametrize("name", ["conv.weight", "conv.bias", "twice.weight", "head.weight", "head.bias"])
def test_a_millionth_is_a_difference(graph: regraft.Graph, written: Path, name: str) -> None:
    change(written, name, 1.000001)
    report = regraft.verify(graph, written)
    assert not report.passed
    assert report.differs
    assert report.structure is not None
    assert [row.target for row in report.structure.values] == [name]
    assert report.structure.values[0].max_relative == pytest.approx(1e-6, rel=0.2)
    assert "tensors that are not the source's: 1 of 5" in report.render()
    assert report.summary().startswith("DIFFERENT")


def test_without_a_map_the_outputs_decide(graph: regraft.Graph, written: Path) -> None:
    written.with_suffix(".renames.json").unlink()
    change(written, "head.bias", 1.0000002)
    report = regraft.verify(graph, written)
    assert report.structure is not None
    assert report.structure.tensors == 0
    assert report.passed


def test_a_tensor_of_another_shape_is_a_difference(graph: regraft.Graph, written: Path) -> None:
    from regraft.verification.runners.onnx_runner import OnnxRunner
    from regraft.verification.structure.sharing import Held

    held = OnnxRunner(written).held()
    other = np.zeros((7,), np.float32)
    held = [h if h.names != ("head.bias",) else Held(h.names, "float32", (7,), lambda: other) for h in held]
    rows, count = compare_values(graph, held, read_map(written.with_suffix(".renames.json")))
    assert count == 5
    assert [str(row) for row in rows] == ["`head.bias`: expected shape [5], got [7]"]


def test_emitted_source_holds_the_sources_tensors(graph: regraft.Graph, tmp_path: Path) -> None:
    regraft.save(regraft.rewrite(graph).graph, tmp_path, "mindspore", force=True)
    equal = regraft.verify(graph, tmp_path)
    assert equal.passed
    assert equal.structure is not None
    assert equal.structure.tensors == 9
    other = Net().eval()
    other.load_state_dict(graph.origin.model.state_dict())
    with torch.no_grad():
        other.norm.running_mean[2] += 1e-6
    report = regraft.verify(regraft.load(other, ("2x3x6x6",)), tmp_path)
    assert report.structure is not None
    assert [row.source for row in report.structure.values] == ["norm.running_mean"]
    assert not report.passed


def test_a_tie_that_was_asked_for_is_no_difference(tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4)).eval()
    graph = regraft.load(net, ("2x4",))
    tied = regraft.rewrite(graph, ["tie-weights:tie=0.weight+2.weight"])
    path = regraft.save(tied.graph, tmp_path / "tied.onnx", fold=False)[0]
    rows, count = compare_values(graph, held_of(path), read_map(path.with_suffix(".renames.json")))
    assert rows == []
    assert count == 3
    told = json.loads(path.with_suffix(".renames.json").read_text())["parameters"]
    assert any(row.get("tie") for row in told)


def held_of(path: Path):
    from regraft.verification.runners.onnx_runner import OnnxRunner

    return OnnxRunner(path).held()
