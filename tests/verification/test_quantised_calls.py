"""Calls of quantised models whose faults coarse outputs hide, behind layers whose kernels round otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization

import regraft
from regraft.ir import Graph, ModelError, Operator, TensorData
from regraft.verification.rounded_values import compare_unrounded
from regraft.verification.runners.runs import Unrounded

from ..quantised_engines import quantising_for

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*quantiz"),
    pytest.mark.skipif("qnnpack" not in torch.backends.quantized.supported_engines, reason="no QNNPACK"),
]

IMAGES = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """Quantise for QNNPACK, which rounds biases to integers, so that some codes differ from the target's."""
    with quantising_for("qnnpack"):
        yield


class Block(nn.Module):
    """Two convolutions and their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
        self.sum = nn.quantized.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        return self.sum.add(x, self.b(x))


class Coarse(nn.Module):
    """Layers whose values hardly move the outputs, of which one is far larger than what they add to it."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.stem, self.block, self.conv = nn.Conv2d(4, 8, 3, groups=4), Block(), nn.Conv2d(8, 8, 1)
        self.f = nn.Linear(8, 3)
        with torch.no_grad():
            self.f.weight *= 0.01
            self.f.bias[0] = 50.0

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(self.block(self.stem(self.quant(x))))
        return self.dequant(self.f(x.mean([2, 3])))


def load(engine: str = "qnnpack") -> Graph:
    """Return the coarse net, quantised for some kernels."""
    torch.backends.quantized.engine = engine
    net = Coarse().eval()
    net.qconfig = quantization.get_default_qconfig(engine)  # type: ignore[assignment]
    quantization.prepare(net, inplace=True)
    net(IMAGES)
    return regraft.load(quantization.convert(net, inplace=True), (IMAGES,))


def quantising(graph: Graph, call: str) -> Operator:
    """Return the operator that quantises what a call gives."""
    names = graph.modules.call_names()
    found = [n for n in graph.operators() if n.qualified_name == "QuantizeLinear" and n.call is not None]
    return next(n for n in found if names[n.call] == call)


def change_operand(call: str, index: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., None]:
    """Return a function that changes a number by which a call quantises."""

    def apply(graph: Graph) -> None:
        node = quantising(graph, call)
        held = graph.node(graph.operands(node.key)[index].node)  # type: ignore[union-attr]
        old = held.data.numpy()  # type: ignore[union-attr]
        new = np.asarray(change(old), old.dtype)
        graph.set_operand(node.key, index, graph.add_constant(TensorData.of(new)))

    return apply


def change_bias(graph: Graph) -> None:
    """Change one bias by three steps."""
    bias = next(p for p in graph.parameters() if p.name == "block.b.bias")
    new = bias.data.numpy().copy()
    step = graph.node(graph.operands(quantising(graph, "block.b#1").key)[1].node)  # type: ignore[union-attr]
    new[5] += 3 * step.data.numpy()  # type: ignore[union-attr]
    bias.data = TensorData.of(new)


FAULTS: dict[str, tuple[Callable[[Graph], None], str]] = {
    "a bias": (change_bias, "block.b#1"),
    "a zero point": (change_operand("conv#1", 2, lambda zero: zero + 1), "conv#1"),
    "a scale": (change_operand("conv#1", 1, lambda scale: scale * 1.02), "conv#1"),
    "the scale of a sum": (change_operand("block#1", 1, lambda scale: scale * 1.02), "block#1"),
}


@pytest.mark.parametrize("to", ["torch", "onnx"])
def test_codes_that_kernels_round_to_the_other_side_are_right(to: str, tmp_path: Path) -> None:
    """ONNX Runtime's fused kernels saturate sums on some processors, where outputs do not show it."""
    graph, path = load(), tmp_path / ("net.onnx" if to == "onnx" else "net")
    regraft.save(regraft.rewrite(graph, to=to), path, to=to)
    report = regraft.verify(graph, path)
    assert report.passed, report
    assert all(row.passed for row in report.modules if row.class_name != "Identity")
    reasons = {row.call: row.reason for row in report.modules}
    assert "behind the source's own values" in reasons["conv#1"]  # else nothing here is to be told apart


@pytest.mark.parametrize("fault", FAULTS)
def test_a_call_that_is_wrong_alone_is_found_behind_other_codes(fault: str, tmp_path: Path) -> None:
    apply, call = FAULTS[fault]
    graph = load()
    rewritten = regraft.rewrite(graph, to="torch").graph
    apply(rewritten)
    regraft.save(rewritten, tmp_path / "net", to="torch")
    report = regraft.verify(graph, tmp_path / "net")
    assert all(row.passed for row in report.outputs)  # they do not show it
    assert not report.passed
    assert report.first_divergence == call
    wrong = {row.call for row in report.modules if row.passed is False}
    assert wrong <= {call, "block#1"}, report


def test_an_output_that_rounded_biases_decide_is_no_fault(tmp_path: Path) -> None:
    """QNNPACK rounds biases to integers, which moves few codes by one, and one in 9 elements of an output."""
    first, second = [nn.Conv2d(3, 8, 3), nn.ReLU()], [nn.Conv2d(8, 8, 3, stride=2), nn.ReLU()]
    net = nn.Sequential(quantization.QuantStub(), *first, *second, nn.Flatten(), nn.Linear(288, 9)).eval()
    net.append(quantization.DeQuantStub())
    quantization.fuse_modules(net, [["1", "2"], ["3", "4"]], inplace=True)
    observers = quantization.default_observer, quantization.default_weight_observer
    net.qconfig = quantization.QConfig(*observers)  # type: ignore[assignment]
    quantization.prepare(net, inplace=True)
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for moved in range(3):
        net(images + 0.1 * moved)
    graph = regraft.load(quantization.convert(net, inplace=True), (images,))
    regraft.save(regraft.rewrite(graph, to="torch"), tmp_path / "net", to="torch")
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report
    assert any("rounding decides" in row.reason for row in report.outputs)


def test_a_scale_of_a_written_file_that_moves_nothing_is_found(tmp_path: Path) -> None:
    graph, path = load("fbgemm"), tmp_path / "net.onnx"  # with scales of channels, as parameters
    regraft.save(regraft.rewrite(graph), path)
    model = onnx.load(path)
    held = next(t for t in model.graph.initializer if t.name == "f.weight_scale")
    scales = onnx.numpy_helper.to_array(held).copy()
    scales *= np.float32(1.0001)
    held.CopyFrom(onnx.numpy_helper.from_array(scales, held.name))
    onnx.save(model, path)
    report = regraft.verify(graph, path)
    assert all(row.passed for row in report.outputs)
    assert report.structure is not None
    assert [row.target for row in report.structure.values] == ["f.weight_scale"]
    assert not report.passed


def test_packed_layers_that_were_drawn_apart_are_refused_with_advice() -> None:
    first = load()
    torch.manual_seed(1)
    second = load().origin.model
    with pytest.raises(ModelError, match=r"E702 torch holds `.*` packed for its kernels") as found:
        regraft.verify(first, second, IMAGES)
    assert "before quantising them" in found.value.hint


@pytest.mark.parametrize(
    ("steps", "source", "target", "unit", "passed"),
    [
        ([1.5, 4.0], [2, 4], [1, 4], 0.0, True),  # a tie
        ([1.504, 4.0], [1, 4], [2, 4], 0.0, True),  # the source shows an error of its own
        ([1.51, 1.504], [2, 1], [1, 1], 0.0, True),  # and the target may have four times as much
        ([1.53, 1.504], [2, 1], [1, 1], 0.0, False),
        ([1.51, 4.0], [2, 4], [1, 4], 0.03, True),  # or round its bias to such a unit
        ([1.51, 4.0], [2, 4], [1, 4], 0.01, False),
        ([1.4, 4.0], [1, 4], [2, 4], 0.0, False),  # no rounding
        ([2.0, 4.0], [2, 4], [4, 4], 0.0, False),
        ([2.0, 4.0], [4, 4], [2, 4], 0.0, None),  # the source is not what it is read as
    ],
)
def test_integers_are_compared_by_what_was_rounded_to_them(
    steps: list[float], source: list[int], target: list[int], unit: float, passed: bool | None
) -> None:
    codes = (np.array(values, np.uint8) for values in (source, target))
    found = compare_unrounded(*codes, Unrounded(np.array(steps, np.float32), unit), 16)
    assert (None if found is None else found.passed) is passed
