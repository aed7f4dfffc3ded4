"""Quantised models: programs of decomposed operators, as torchao's PT2E flow gives them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers its operators
from torch import nn

import regraft

OPS = torch.ops.quantized_decomposed
I8, U8 = torch.int8, torch.uint8


class Converted(nn.Module):
    """A layer as `convert_pt2e` leaves it: a frozen weight beside its scales, quantised activations.

    Args:
        dynamic: whether the scale of the activations is computed in every run.
    """

    def __init__(self, dynamic: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dynamic = dynamic
        self.register_buffer("_scale_0", torch.rand(8) / 100 + 0.001)
        self.register_buffer("_zero_point_0", torch.zeros(8, dtype=torch.int64))
        self.register_buffer("_frozen_param0", torch.randint(-127, 128, (8, 3, 3, 3), dtype=I8))
        self.bias = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = OPS.dequantize_per_channel(
            self._frozen_param0, self._scale_0, self._zero_point_0, 0, -127, 127, I8
        )
        if self.dynamic:
            scale, zero = OPS.choose_qparams.tensor(x, 0, 255, 1e-4, U8)
            codes = OPS.quantize_per_tensor.tensor(x, scale, zero, 0, 255, U8)
            x = OPS.dequantize_per_tensor.tensor(codes, scale, zero, 0, 255, U8)
        else:
            codes = OPS.quantize_per_tensor(x, 0.0279, 113, 0, 255, U8)
            x = OPS.dequantize_per_tensor(codes, 0.0279, 113, 0, 255, U8)
        return torch.relu(nn.functional.conv2d(x, weight, self.bias, padding=1))


X = (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)


def stored(path: Path) -> dict[str, int]:
    """Return the element type of every initializer of several axes."""
    return {i.name: i.data_type for i in onnx.load(path).graph.initializer if len(i.dims) > 1}


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_converted_module_keeps_its_bytes_in_onnx(dynamic: bool, tmp_path: Path) -> None:
    graph = regraft.load(Converted(dynamic), X)
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report
    assert set(stored(tmp_path / "net.onnx").values()) == {onnx.TensorProto.INT8}


@pytest.mark.parametrize("to", ["mindspore", "torch"])
@pytest.mark.parametrize("dequantise", [False, True])
def test_a_converted_module_is_arithmetic_in_source(to: str, dequantise: bool, tmp_path: Path) -> None:
    graph = regraft.load(Converted(), X)
    regraft.save(regraft.rewrite(graph, dequantise=dequantise), tmp_path / "net", to=to)
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report


def test_a_saved_program_is_read_without_running_it(tmp_path: Path) -> None:
    program = torch.export.export(Converted(), X)
    torch.export.save(program, tmp_path / "net.pt2")
    for given in (program, tmp_path / "net.pt2"):
        graph = regraft.load(given)
        regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx", force=True)
        assert regraft.verify(graph, tmp_path / "net.onnx").passed


@pytest.mark.parametrize("number", ["scale", "zero point", "axis"])
def test_a_wrong_number_is_found(number: str, tmp_path: Path) -> None:
    graph = regraft.load(Converted(), X)
    path = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph), path)
    model = onnx.load(path)
    values = {i.name: i for i in model.graph.initializer}
    quantise = next(n for n in model.graph.node if n.op_type == "QuantizeLinear")
    weight = next(n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in values)
    changed = {"scale": weight.input[1], "zero point": quantise.input[2], "axis": ""}[number]
    if changed:
        array = onnx.numpy_helper.to_array(values[changed]).copy()
        array.reshape(-1)[-1] = array.reshape(-1)[-1] * 1.02 if number == "scale" else 112
        values[changed].CopyFrom(onnx.numpy_helper.from_array(array, changed))
    else:
        array = onnx.numpy_helper.to_array(values[weight.input[1]])[::-1].copy()
        values[weight.input[1]].CopyFrom(onnx.numpy_helper.from_array(array, weight.input[1]))
    onnx.save(model, path)
    assert not regraft.verify(graph, path).passed
