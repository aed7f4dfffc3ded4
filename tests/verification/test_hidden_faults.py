"""Faults that the usual inputs hide: a slope, an epsilon, a maximum left out, values that are no numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import regraft
from regraft.verification import Report, compare, verify

nn = torch.nn
Change = Callable[[onnx.ModelProto], None]


class Leaky(nn.Module):
    """What enters the activation is mostly far above zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(6, 8), nn.LeakyReLU(0.01), nn.Linear(8, 3)
        with torch.no_grad():
            self.first.bias.add_(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.act(self.first(x)))


class Normed(nn.Module):
    """The variance is 10^7 times the epsilon."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.LayerNorm(16, eps=1e-7), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(x))


class FarNormed(Normed):
    """A normalisation of numbers beside which its epsilon is nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * 1000)


class Words(nn.Module):
    """The maximum over a text is above zero, whatever the words are, as long as they differ."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.conv, self.last = nn.Embedding(50, 6), nn.Conv1d(6, 8, 2), nn.Linear(8, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.table(words).transpose(1, 2))
        return self.last(torch.relu(x).amax(2))


class Filled(nn.Module):
    """A missing number counts as another one."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.where(torch.isnan(x), 0.5, x).clamp(-3, 3))


INPUTS = {
    Leaky: torch.randn(2, 6),
    Normed: torch.randn(2, 16),
    FarNormed: torch.randn(2, 16),
    Words: torch.randint(0, 50, (2, 30)),
    Filled: torch.randn(2, 6),
}


def attribute(op_type: str, name: str, factor: float) -> Change:
    """Multiply an attribute of every operator of a kind."""

    def change(model: onnx.ModelProto) -> None:
        found = [a for n in model.graph.node if n.op_type == op_type for a in n.attribute if a.name == name]
        assert found
        for each in found:
            each.f *= factor

    return change


def without_relu(model: onnx.ModelProto) -> None:
    """Take what enters the only Relu in its place."""
    (node,) = (n for n in model.graph.node if n.op_type == "Relu")
    for other in model.graph.node:
        other.input[:] = [node.input[0] if name == node.output[0] else name for name in other.input]
    model.graph.node.remove(node)


def another_filling(model: onnx.ModelProto) -> None:
    """Fill in 0.6 for 0.5."""
    (tensor,) = (t for t in model.graph.initializer if np.array_equal(numpy_helper.to_array(t), 0.5))
    tensor.CopyFrom(numpy_helper.from_array(np.array(0.6, np.float32), tensor.name))


def report(net: type[nn.Module], folder: Path, change: Change | None = None) -> Report:
    """The comparison of a net with the file written from it, changed."""
    torch.manual_seed(0)
    graph = regraft.load(net().eval(), INPUTS[net])
    path = folder / "net.onnx"
    regraft.save(graph, path, to="onnx")
    if change is not None:
        model = onnx.load(path)
        change(model)
        onnx.save(model, path)
    return verify(graph, path)


@pytest.mark.parametrize(
    ("net", "change", "shown_by"),
    [
        (Leaky, attribute("LeakyRelu", "alpha", 1.001), "made negative"),
        (Normed, attribute("LayerNormalization", "epsilon", 10), "made small"),
        (FarNormed, attribute("LayerNormalization", "epsilon", 0.5), "made small"),
        (Words, without_relu, "repeated"),
        (Filled, another_filling, "with NaN and infinities"),
    ],
)
def test_a_fault_that_usual_inputs_hide(
    net: type[nn.Module], change: Change, shown_by: str, tmp_path: Path
) -> None:
    found = report(net, tmp_path, change)
    assert not found.passed
    assert shown_by in found.render()


@pytest.mark.parametrize("net", INPUTS)
def test_the_right_file_is_equal(net: type[nn.Module], tmp_path: Path) -> None:
    assert report(net, tmp_path).passed


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_values_that_were_rounded_to_a_narrower_type_are_wrong_whatever_the_tolerance(name: str) -> None:
    source = np.random.default_rng(0).uniform(0.5, 1, 100).astype(np.float32)
    narrow = regraft.ir.numpy_dtype(name)
    loose = regraft.verification.Yardstick(ulps=2**17)
    assert compare(source, source * np.float32(1 + 2e-4), loose).passed
    found = compare(source, source.astype(narrow).astype(np.float32), loose)
    assert not found.passed
    assert name in found.reason


def test_a_function_that_ends_in_few_values_is_not_taken_for_rounded() -> None:
    source = np.random.default_rng(0).uniform(0.9998, 0.9999, 100).astype(np.float32)
    assert compare(source, np.ones_like(source), regraft.verification.Yardstick(ulps=2**12)).passed
