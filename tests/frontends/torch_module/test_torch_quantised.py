"""Quantised models: programs of decomposed operators, as torchao's PT2E flow gives them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers its operators
from torch import nn

import regraft
from regraft.ir import ModelError

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
        self.weight = nn.Parameter(torch.randn(8, 3, 3, 3))  # that of before, which nothing reads

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
    assert not next(p for p in graph.parameters() if p.name == "weight").trainable


@pytest.mark.parametrize("to", ["mindspore", "torch"])
@pytest.mark.parametrize("dequantise", [False, True])
def test_a_converted_module_is_arithmetic_in_source(to: str, dequantise: bool, tmp_path: Path) -> None:
    graph = regraft.load(Converted(), X)
    regraft.save(regraft.rewrite(graph, dequantise=dequantise), tmp_path / "net", to=to)
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report


class Layer(nn.Conv2d):
    """A layer that is given its weight, as an exported one is whose weight was quantised."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(x, weight, self.bias)


class Outside(nn.Module):
    """Integers in the root that have replaced the weight of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = Layer(3, 8, 3)
        self.register_buffer("_scale_0", torch.rand(8) / 100 + 0.001)
        self.register_buffer("_zero_point_0", torch.zeros(8, dtype=torch.int64))
        self.register_buffer("_frozen_param0", torch.randint(-127, 128, (8, 3, 3, 3), dtype=I8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = self._frozen_param0, self._scale_0, self._zero_point_0
        return self.conv(x, OPS.dequantize_per_channel(*given, 0, -127, 127, I8))


def test_dequantised_integers_take_the_name_of_the_weight_that_they_replaced(tmp_path: Path) -> None:
    net = Outside()
    graph = regraft.load(net, X)
    rewritten = regraft.rewrite(graph, dequantise=True)
    held = {p.name: p for p in rewritten.graph.parameters()}
    assert set(held) == {"conv.weight", "conv.bias"}
    assert held["conv.weight"].trainable
    wanted = net._frozen_param0.float() * net._scale_0.reshape(-1, 1, 1, 1)
    assert (held["conv.weight"].data.numpy() == wanted.numpy()).all()
    regraft.save(rewritten, tmp_path / "net", to="mindspore")
    assert "nn.Conv2d(" in (tmp_path / "net" / "model.py").read_text()
    assert regraft.verify(graph, tmp_path / "net").passed


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


class Bytes(torch.Tensor):
    """A weight as torchao's classes hold it: numbers of a byte, and the scales of groups of each row."""

    @staticmethod
    def __new__(cls, qdata, scale, act_quant_kwargs=None):
        return torch.Tensor._make_wrapper_subclass(cls, qdata.shape, dtype=scale.dtype)

    def __init__(self, qdata, scale, act_quant_kwargs=None):
        self.qdata, self.scale, self.act_quant_kwargs = qdata, scale, act_quant_kwargs

    def __tensor_flatten__(self):
        return ["qdata", "scale"], self.act_quant_kwargs

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["qdata"], parts["scale"], context)

    def dequantize(self):
        size = self.qdata.shape[-1] // self.scale.shape[-1]
        return OPS.dequantize_per_channel_group(self.qdata, self.scale, None, -8, 7, I8, size, torch.float32)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not nn.functional.linear:
            return super().__torch_function__(func, types, args, kwargs or {})
        x, weight, bias = args
        if weight.act_quant_kwargs is None:
            return func(x, weight.dequantize(), bias)
        scale = x.abs().amax(-1, keepdim=True) / 127.5
        codes = torch.clamp(torch.round(x * (1.0 / scale)), -128, 127).to(I8)
        y = torch._int_mm(codes, weight.qdata.t()).to(x.dtype) * scale
        return y * weight.scale.flatten() + bias

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(args[0].qdata, args[0].scale, args[0].act_quant_kwargs)
        raise NotImplementedError(func)


def weighed(low: int, groups: int, dynamic: bool = False) -> nn.Module:
    """Return two layers whose weights are of a class of their own, the second's a matrix of floats."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    codes = torch.randint(low, -low, (16, 32), dtype=I8)
    held = Bytes(codes, torch.rand(16, groups) / 100 + 0.001, {} if dynamic else None)
    net[0].weight = nn.Parameter(held, requires_grad=False)
    return net


@pytest.mark.parametrize(
    ("net", "kept"),
    [
        (weighed(-8, 4), onnx.TensorProto.INT4),
        (weighed(-128, 1, dynamic=True), onnx.TensorProto.INT8),
    ],
    ids=["weights by groups", "activations too"],
)
def test_weights_of_a_class_of_their_own_are_read(net: nn.Module, kept: int, tmp_path: Path) -> None:
    before = type(net[0]), list(net.state_dict())
    graph = regraft.load(net, ["4x32"])
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    assert kept in stored(tmp_path / "net.onnx").values()
    regraft.save(regraft.rewrite(graph, dequantise=True), tmp_path / "net", to="torch")
    for written in ("net.onnx", "net"):
        report = regraft.verify(graph, tmp_path / written)
        assert report.passed, report
    if kept == onnx.TensorProto.INT4:
        assert "nn.Linear(32, 16)" in (tmp_path / "net" / "model.py").read_text()  # with a weight of its own
    assert graph.origin.model is net
    assert (type(net[0]), list(net.state_dict())) == before


def test_products_of_bytes_are_exact() -> None:
    """In oneDNN for AVX2 they saturate: sums of two products exceed 16 bits."""
    from regraft.frontends.torch_module.export.evaluation_mode import plainly

    a, b = torch.full((2, 8), 255, dtype=U8), torch.full((8, 3), 127, dtype=I8)
    with plainly():
        assert (torch._int_mm(a, b) == 8 * 255 * 127).all()


def test_what_rounding_decides_is_no_fault(tmp_path: Path) -> None:
    """The largest element of each row lies in the middle of two codes, whatever it is."""
    net = weighed(-128, 1, dynamic=True)
    net = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), *net).eval()
    graph = regraft.load(net, ["4x32"])
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").passed
    model = onnx.load(tmp_path / "net.onnx")
    scale = next(i for i in model.graph.initializer if i.data_type == 1 and list(i.dims) in ([16], [16, 1]))
    array = onnx.numpy_helper.to_array(scale).copy()
    array.reshape(-1)[3] *= 1.02
    scale.CopyFrom(onnx.numpy_helper.from_array(array, scale.name))
    onnx.save(model, tmp_path / "net.onnx")
    assert not regraft.verify(graph, tmp_path / "net.onnx").passed


def test_observers_are_named() -> None:
    net = nn.Sequential(nn.Linear(4, 3)).eval()
    net.qconfig = torch.ao.quantization.get_default_qconfig("x86")
    with pytest.raises(
        ModelError, match="E104 expected a model after its quantisation, got one with 1 obs"
    ) as e:
        regraft.load(torch.ao.quantization.prepare(net), ["2x4"])
    assert "convert it first" in e.value.hint
