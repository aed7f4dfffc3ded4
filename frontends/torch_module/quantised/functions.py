"""torch's functions that quantise, and those of `torch.ops.quantized`, on stand-ins and unpacked weights."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..expansions.quantised import choose_qparams
from .packed import Packed
from .recurrent import define_layers
from .stand_in import (
    FUNCTIONS,
    OPERATORS,
    NoFormError,
    Quantised,
    Scale,
    is_stand_in,
    quantised_as_torch,
    real,
)


def _function(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(own: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(functions, own))
        return own

    return add


def _operator(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(own: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS.update(dict.fromkeys(names, own))
        return own

    return add


# -- tensors that become quantised ones -----------------------------------------------------------------


@_function(torch.quantize_per_tensor)
def _quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: torch.dtype) -> Any:  # noqa: A002
    if isinstance(input, (list, tuple)):
        each = zip(input, scale, zero_point, strict=True)
        return [Scale(s, z, dtype).quantise(x) for x, s, z in each]
    return Scale(scale, zero_point, dtype).quantise(input)


@_function(torch.quantize_per_channel)
def _quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> Any:  # noqa: A002
    return Scale(scales, zero_points, dtype, axis).quantise(input)


@_function(torch.quantize_per_tensor_dynamic)
def _quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> Any:  # noqa: A002
    low, high, stored = (-128, 127, torch.int8) if dtype == torch.qint8 else (0, 255, torch.uint8)
    if reduce_range:
        low, high = int(low / 2), high // 2
    scale, zero = choose_qparams(input, low, high, 0.0, stored)
    return Scale(scale, zero, dtype).quantise(input)


@_function(torch.dequantize, Tensor.dequantize)
def _dequantize(*args: Any) -> Any:
    """Return the floats of a tensor, which may be one of floats already, or of several."""
    x = args[0] if len(args) == 1 else args
    if isinstance(x, (list, tuple)):
        return [_dequantize(each) for each in x]
    return x.floats() if is_stand_in(x) else x.to(torch.float32)


# -- layers with weights --------------------------------------------------------------------------------


def _in_scale(y: Tensor, like: Quantised, scale: Any, zero: Any) -> Quantised:
    """Return a result in a scale, in the element type of an operand."""
    return Scale(scale, zero, like.by.dtype).quantise(y)


def _convolution(x: Tensor, packed: Packed) -> Tensor:
    weight, geometry = packed.weight(), packed.geometry
    assert geometry is not None
    axes = slice(weight.dim() - x.dim(), None)  # a layer on one axis holds its weight as one on two
    if axes.start:
        weight = weight.squeeze(2)
    sizes = [list(each)[axes] for each in geometry.sizes]
    stride, padding, dilation, output_padding = sizes
    moves = geometry.transposed, output_padding, geometry.groups
    return torch.convolution(x, weight, packed.bias(), stride, padding, dilation, *moves)


def _define_convolutions() -> None:
    def relu(y: Tensor) -> Tensor:
        return torch.relu(y)

    def plain(activation: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
        def conv(qx: Quantised, packed_weight: Packed, output_scale: Any, output_zero_point: Any) -> Any:
            y = activation(_convolution(qx.floats(), packed_weight))
            return _in_scale(y, qx, output_scale, output_zero_point)

        return conv

    def added(activation: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
        def conv(
            qx: Quantised,
            qaccum: Quantised,
            packed_weight: Packed,
            output_scale: Any,
            output_zero_point: Any,
        ) -> Any:
            y = activation(_convolution(qx.floats(), packed_weight) + qaccum.floats())
            return _in_scale(y, qx, output_scale, output_zero_point)

        return conv

    def dynamic(qx: Tensor, packed_weight: Packed, reduce_range: bool = False) -> Tensor:
        return _convolution(by_extremes(qx, packed_weight, reduce_range), packed_weight)

    for kind in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        OPERATORS[kind], OPERATORS[f"{kind}_relu"] = plain(lambda y: y), plain(relu)
        OPERATORS[f"{kind}_dynamic"] = dynamic
    OPERATORS["conv2d_add"], OPERATORS["conv2d_add_relu"] = added(lambda y: y), added(relu)


def _define_products() -> None:
    def plain(activation: Callable[..., Tensor]) -> Callable[..., Any]:
        def linear(
            X: Quantised,  # noqa: N803 - torch's names
            W_prepack: Packed,  # noqa: N803
            Y_scale_i: Any,  # noqa: N803
            Y_zero_point_i: Any,  # noqa: N803
            *further: Any,
        ) -> Any:
            y = functional.linear(X.floats(), W_prepack.weight(), W_prepack.bias())
            return _in_scale(activation(y, *further), X, Y_scale_i, Y_zero_point_i)

        return linear

    def dynamic(activation: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
        def linear(X: Tensor, W_prepack: Packed, reduce_range: bool = False) -> Tensor:  # noqa: N803
            return activation(dynamic_product(X, W_prepack, reduce_range))

        return linear

    def of_halves(activation: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
        def linear(X: Tensor, W_prepack: Packed) -> Tensor:  # noqa: N803
            return activation(functional.linear(X, W_prepack.weight(), W_prepack.bias()))

        return linear

    for suffix, activation in (("", lambda y: y), ("_relu", torch.relu)):
        OPERATORS[f"linear{suffix}"] = plain(activation)
        OPERATORS[f"linear{suffix}_dynamic"] = dynamic(activation)
        OPERATORS[f"linear{suffix}_dynamic_fp16"] = of_halves(activation)
    OPERATORS["linear_tanh"] = plain(torch.tanh)
    OPERATORS["linear_leaky_relu"] = plain(functional.leaky_relu)


def dynamic_product(x: Tensor, packed: Packed, reduce_range: bool) -> Tensor:
    """Return a product of floats that are quantised between their extremes."""
    return functional.linear(by_extremes(x, packed, reduce_range), packed.weight(), packed.bias())


def by_extremes(x: Tensor, packed: Packed, reduce_range: bool) -> Tensor:
    """Return floats as bytes between their smallest and their largest stand for them."""
    if packed.is_of_halves:
        return x
    high = 127 if packed.reduces_range(reduce_range) else 255
    least, most = torch.clamp(x.min(), max=0).double(), torch.clamp(x.max(), min=0).double()
    found = (most - least) / high
    found = torch.where(found == 0, 0.1, found)  # of zeros alone
    zero = torch.round(torch.clamp(-least / found, 0, high)).to(torch.float32)
    scale = found.to(torch.float32)
    # the kernels round the sum, to even, so that the zero point decides what lies in the middle
    codes = torch.clamp(torch.round(x * (1.0 / scale) + zero), 0, 255)
    return (codes - zero) * scale


@_operator("embedding_byte", "embedding_4bit")
def _embedding(weight: Packed, indices: Tensor, pruned_weights: bool = False) -> Tensor:
    del pruned_weights
    return weight.rows(indices)


@_operator("embedding_bag_byte", "embedding_bag_4bit")
def _embedding_bag(
    weight: Packed,
    indices: Tensor,
    offsets: Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    pruned_weights: bool = False,
    per_sample_weights: Tensor | None = None,
    compressed_indices_mapping: Tensor | None = None,
    include_last_offset: bool = False,
) -> Tensor:
    del scale_grad_by_freq, pruned_weights, mode  # torch adds up, whatever the mode
    if compressed_indices_mapping is not None:
        raise NoFormError("tables whose rows are left out")
    return functional.embedding_bag(
        indices,
        weight.weight(),
        offsets,
        mode="sum",
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
    )


# -- functions of quantised tensors ---------------------------------------------------------------------


def _define_sums_and_products() -> None:
    def of_two(name: str, function: Callable[..., Tensor]) -> Callable[..., Any]:
        def called(qa: Any, qb: Any, scale: Any = None, zero_point: Any = None) -> Any:
            if scale is None:  # of a number: torch keeps the integers, or their scale
                return quantised_as_torch(getattr(torch.ops.quantized, name), function, qa, qb)
            return _in_scale(function(real(qa), real(qb)), qa, scale, zero_point)

        return called

    for name, function in (("add", operator.add), ("mul", operator.mul), ("matmul", operator.matmul)):
        OPERATORS[name] = of_two(name, function)
        if name != "matmul":

            def rectified(a: Any, b: Any, function: Callable[..., Tensor] = function) -> Tensor:
                return torch.relu(function(a, b))

            OPERATORS[f"{name}_relu"] = of_two(f"{name}_relu", rectified)
            OPERATORS[f"{name}_scalar"] = of_two(f"{name}_scalar", function)
            OPERATORS[f"{name}_scalar_relu"] = of_two(f"{name}_scalar_relu", rectified)


@_operator("cat")
def _cat(qx: Sequence[Quantised], dim: int, scale: Any, zero_point: Any) -> Any:
    return _joined(lambda x: x, qx, dim, scale, zero_point)


@_operator("cat_relu")
def _cat_relu(qx: Sequence[Quantised], dim: int, scale: Any, zero_point: Any) -> Any:
    return _joined(torch.relu, qx, dim, scale, zero_point)


def _joined(
    then: Callable[[Tensor], Tensor], qx: Sequence[Quantised], dim: int, scale: Any, zero: Any
) -> Any:
    first = qx[0].by
    by = first if scale is None else Scale(scale, zero, first.dtype)
    return by.quantise(then(torch.cat([x.floats() for x in qx], dim)))


def _define_layers() -> None:
    """Define operators on one tensor, whose last arguments are the scale and zero point of the result."""

    def norm(x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, eps: float) -> Tensor:
        return functional.batch_norm(x, mean, var, weight, bias, eps=eps)

    def instance_norm(x: Tensor, weight: Any, bias: Any, eps: float) -> Tensor:
        return functional.instance_norm(x, weight=weight, bias=bias, eps=eps)

    def leaky_relu(x: Tensor, negative_slope: float, inplace: bool) -> Tensor:
        del inplace
        return functional.leaky_relu(x, negative_slope)

    def of(function: Callable[..., Tensor], names: str) -> Callable[..., Any]:
        order = [*names.split(), "output_scale", "output_zero_point"]

        def called(x: Quantised, *args: Any, **kwargs: Any) -> Any:
            *given, scale, zero = *args, *(kwargs[name] for name in order[len(args) :])
            return _in_scale(function(x.floats(), *map(real, given)), x, scale, zero)

        return called

    statistics = "weight bias mean var eps"
    for kind in ("", "1d", "2d", "3d"):
        OPERATORS[f"batch_norm{kind}"] = of(norm, statistics)
        OPERATORS[f"batch_norm{kind}_relu"] = of(lambda *given: torch.relu(norm(*given)), statistics)
    OPERATORS["layer_norm"] = of(functional.layer_norm, "normalized_shape weight bias eps")
    OPERATORS["group_norm"] = of(functional.group_norm, "num_groups weight bias eps")
    OPERATORS["instance_norm"] = of(instance_norm, "weight bias eps")
    OPERATORS["leaky_relu"] = of(leaky_relu, "negative_slope inplace")
    OPERATORS["hardswish"] = of(functional.hardswish, "")
    OPERATORS["sigmoid"] = of(torch.sigmoid, "")
    OPERATORS["softmax"] = of(functional.softmax, "dim")
    OPERATORS["prelu"] = of(functional.prelu, "weight")


@_operator("elu")
def _elu(
    self: Quantised,
    output_scale: Any,
    output_zero_point: Any,
    alpha: float = 1,
    scale: float = 1,
    input_scale: float = 1,
) -> Any:
    y = torch.ops.aten.elu(self.floats(), alpha, scale, input_scale)
    return _in_scale(y, self, output_scale, output_zero_point)


@_operator("celu")
def _celu(self: Quantised, output_scale: Any, output_zero_point: Any, alpha: float = 1) -> Any:
    return _in_scale(functional.celu(self.floats(), alpha), self, output_scale, output_zero_point)


@_operator("dropout")
def _dropout(self: Quantised, *_: Any, **__: Any) -> Quantised:
    return self  # which drops in training only


@_operator("relu6")
def _relu6(qx: Quantised, inplace: bool = False) -> Any:
    return functional.relu6(qx, inplace)


@_operator("clamp")
def _clamp(qx: Quantised, min: Any = None, max: Any = None) -> Any:  # noqa: A002 - torch's names
    return torch.clamp(qx, min, max)


@_operator("threshold")
def _threshold(qx: Quantised, threshold: float, value: float) -> Any:
    return quantised_as_torch(torch.ops.quantized.threshold, functional.threshold, qx, threshold, value)


_define_convolutions()
_define_products()
_define_sums_and_products()
_define_layers()
define_layers(dynamic_product, FUNCTIONS, OPERATORS)
