"""Tensors that are not the source's: where no input reaches them, and where others make up for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import regraft
from regraft.ir import TensorData


class Net(torch.nn.Module):
    """A bias, a folded normalisation, a transposed weight, and a hidden unit that no input wakes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.hidden = torch.nn.Linear(4, 5)
        self.out = torch.nn.Linear(5, 2)
        with torch.no_grad():
            self.hidden.bias[0] = -1e4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).mean((2, 3))
        return self.out(torch.relu(self.hidden(x)))


@pytest.fixture(scope="module")
def graph() -> regraft.Graph:
    torch.manual_seed(3)
    net = Net()
    with torch.no_grad():
        net.norm.running_mean.uniform_(-1, 1)
        net.norm.running_var.uniform_(0.5, 2)
    return regraft.load(net.eval(), [np.ones((2, 3, 6, 6), np.float32)])


@pytest.fixture
def written(graph: regraft.Graph, tmp_path: Path) -> Path:
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def change(path: Path, name: str, factor: object) -> None:
    """Multiply an initializer by something, by onnx itself."""
    model = onnx.load(path)
    tensor = next(t for t in model.graph.initializer if t.name == name)
    array = (numpy_helper.to_array(tensor) * factor).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(model, path)


def test_a_weight_that_no_input_reaches_is_a_difference(graph: regraft.Graph, written: Path) -> None:
    factor = np.ones((2, 5), np.float32)
    factor[:, 0] = 1.5  # of the hidden unit that is always 0
    change(written, "out.weight", factor)
    report = regraft.verify(graph, written)
    assert all(row.passed for row in report.outputs)
    assert not report.passed
    assert report.structure is not None
    (row,) = report.structure.values
    assert (row.source, row.target) == ("out.weight", "out.weight")
    assert report.summary().startswith("DIFFERENT in 1 tensor")


def test_weights_that_others_make_up_for_are_a_note(graph: regraft.Graph, written: Path) -> None:
    change(written, "out.weight", np.float32(2))
    change(written, "out.bias", np.float32(2))
    model = onnx.load(written)
    last = next(n for n in model.graph.node if model.graph.output[0].name in n.output)
    last.output[0] = "doubled"
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    model.graph.node.append(helper.make_node("Mul", ["doubled", "half"], [model.graph.output[0].name]))
    text = next(e for e in model.metadata_props if e.key == "regraft.calls")
    text.value = "{}"
    onnx.save(model, written)
    report = regraft.verify(graph, written)
    assert report.passed, report.render()
    assert any("makes up for it" in note for note in report.notes)


def halve(path: Path, op_type: str) -> None:
    """Multiply what the first operator of a type gives by a half, by onnx itself."""
    model = onnx.load(path)
    at, node = next((i, n) for i, n in enumerate(model.graph.node) if n.op_type == op_type)
    output, node.output[0] = node.output[0], "whole"
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    model.graph.node.insert(at + 1, helper.make_node("Mul", ["whole", "half"], [output]))
    onnx.save(model, path)


def test_so_are_those_that_took_a_normalisation_in(graph: regraft.Graph, written: Path) -> None:
    change(written, "conv.weight", np.float32(2))
    change(written, "conv.bias", np.float32(2))
    halve(written, "Conv")
    report = regraft.verify(graph, written)
    assert report.passed, report.render()
    assert any(
        "2 tensors are not the source's, and what reads them makes up" in note for note in report.notes
    )


def test_one_that_took_a_normalisation_in_and_reaches_no_output_is_a_difference(tmp_path: Path) -> None:
    net = Net().eval()
    with torch.no_grad():
        net.hidden.weight[:, 3] = 0  # nothing reads the last channel
    graph, path = regraft.load(net, [np.ones((2, 3, 6, 6), np.float32)]), tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, path)
    factor = np.ones((4, 1, 1, 1), np.float32)
    factor[3] = 1.5
    change(path, "conv.weight", factor)
    report = regraft.verify(graph, path)
    assert not report.passed
    assert report.structure is not None
    assert [row.target for row in report.structure.values] == ["conv.weight"]


def altered(graph: regraft.Graph, name: str, factor: object) -> regraft.Graph:
    """A copy of a graph in which one parameter has other values, as a wrong pass would leave it."""
    new = graph.copy()
    parameter = next(p for p in new.parameters() if p.declared == name)
    parameter.data = TensorData.of((parameter.data.numpy() * np.asarray(factor)).astype(np.float32))
    return new


@pytest.mark.parametrize("name", ["hidden.weight", "hidden.bias", "norm.running_mean", "out.bias"])
def test_a_weight_that_a_pass_left_a_little_off_is_a_difference(graph: regraft.Graph, name: str) -> None:
    rewritten = regraft.rewrite(graph).graph
    assert regraft.verify(graph, rewritten).passed
    report = regraft.verify(graph, altered(rewritten, name, 1.00001))
    assert report.structure is not None
    assert [row.source for row in report.structure.values] == [name]
    assert not report.passed


def test_what_a_pass_computed_is_excused_where_others_make_up_for_it_or_rounding_is_all(
    graph: regraft.Graph,
) -> None:
    rewritten = regraft.rewrite(graph).graph
    assert regraft.verify(graph, altered(rewritten, "out.weight", 1 + 2**-23)).passed
    variance = next(p for p in graph.parameters() if p.declared == "norm.running_var").data.numpy()
    wider = altered(rewritten, "norm.running_var", ((variance + 1e-5) * 4 - 1e-5) / variance)
    report = regraft.verify(graph, altered(wider, "norm.weight", 2))
    assert report.passed
    assert any("what reads them makes up for it" in note for note in report.notes)
