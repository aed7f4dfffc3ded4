"""Lowerings of quantisation: torch's decomposed operators, its fake ones, and those of torchao.

Each multiplies by the reciprocal of the scale where ONNX divides by the scale, which is the same but for the
last bit; all round to even, add the zero point and clamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from ....ir import Constant, Parameter, TensorData, Value, numpy_dtype
from ....ir.nodes import Node
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")

_NARROW = ("int8", "uint8", "int16", "uint16")
"""Element types that ONNX quantises to."""

_FLOATS = ("float32", "float16", "bfloat16")


@TABLE.op("quantized_decomposed.quantize_per_tensor.default")
def quantize_per_tensor(call: Call) -> Value:
    """Return a tensor quantised by numbers."""
    scale = call.constant(call.float("scale"), "float32")
    return _quantised(call, scale, call.int("zero_point"))


@TABLE.op(
    "quantized_decomposed.quantize_per_tensor.tensor", "quantized_decomposed.quantize_per_tensor.tensor2"
)
def quantize_per_tensor_by_tensors(call: Call) -> Value:
    """Return a tensor quantised by tensors of one element."""
    return _quantised(call, _scalar(call, "scale"), _scalar(call, "zero_point"))


@TABLE.op("quantized_decomposed.quantize_per_channel.default")
def quantize_per_channel(call: Call) -> Value:
    """Return a tensor quantised along an axis."""
    return _quantised(call, call.value("scales"), call.value("zero_points"), axis=call.axis("axis"))


@TABLE.op("quantized_decomposed.dequantize_per_tensor.default")
def dequantize_per_tensor(call: Call) -> Value:
    """Return the floats that a tensor quantised by numbers stands for."""
    _ignore_range(call)
    scale = call.constant(call.float("scale"), "float32")
    return _real(call, call.value("input"), scale, call.int("zero_point"))


@TABLE.op(
    "quantized_decomposed.dequantize_per_tensor.tensor", "quantized_decomposed.dequantize_per_tensor.tensor2"
)
def dequantize_per_tensor_by_tensors(call: Call) -> Value:
    """Return the floats that a tensor quantised by tensors of one element stands for."""
    _ignore_range(call)
    return _real(call, call.value("input"), _scalar(call, "scale"), _scalar(call, "zero_point"))


@TABLE.op("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(call: Call) -> Value:
    """Return the floats that a tensor quantised along an axis stands for."""
    x = _narrowed(call, "input")
    _ignore_range(call)
    along = {"axis": call.axis("axis")}
    return _real(call, x, call.value("scales"), call.optional("zero_points"), along)


@TABLE.op("quantized_decomposed.dequantize_per_channel_group.default")
def dequantize_per_channel_group(call: Call) -> Value:
    """Return the floats that a matrix quantised by groups of its rows stands for."""
    rows, width = call.static_shape("input")
    size = min(call.int("group_size"), width)
    return _real_by_blocks(call, "input", "scales", "zero_points", [1, size], [rows, width])


@TABLE.op("torchao.dequantize_affine.default")
def dequantize_affine(call: Call) -> Value:
    """Return the floats that a tensor quantised by blocks stands for."""
    shape, block = call.shape("input"), call.ints("block_size")
    call.ignore("input_dtype")
    return _real_by_blocks(call, "input", "scale", "zero_point", block, shape)


@TABLE.op("torchao.quantize_affine.default")
def quantize_affine(call: Call) -> Value:
    """Return a tensor quantised in all, or along an axis."""
    block = call.ints("block_size")
    varying = _varying(block, call.shape("input"))
    call.ignore("output_dtype")
    if len(varying) > 1 or any(block[axis] != 1 for axis in varying):
        raise call.unsupported("expected one scale in all, or one a place of an axis")
    scale, zero = call.value("scale"), call.optional("zero_point")
    counts = [call.shape("input")[axis] for axis in varying]
    zero = 0 if zero is None else _laid(call, zero, counts)
    return _quantised(call, _laid(call, scale, counts), zero, axis=varying[0] if varying else None)


@TABLE.op("torchao.dequantize_affine_float8_non_decomposed.default")
def dequantize_float8(call: Call) -> Value:
    """Return what numbers of 8 bits with an exponent are, by blocks."""
    shape, counts = call.static_shape("tensor"), call.static_shape("scale")
    if len(shape) != len(counts):
        shape, counts = [prod(shape)], [1]
    block = [size // count for size, count in zip(shape, counts, strict=True)]
    return _real_by_blocks(call, "tensor", "scale", "", block, call.static_shape("tensor"))


@TABLE.op("aten._int_mm.default")
def product_of_integers(call: Call) -> Value:
    """Return a product of bytes as int32."""
    return call.op("MatMulInteger", call.value("self"), call.value("mat2"))


@TABLE.op(
    "aten.fake_quantize_per_tensor_affine.default",
    "aten.fake_quantize_per_tensor_affine_cachemask.default",
)
def fake_quantize(call: Call) -> Value | list[Value | None]:
    """Return a tensor rounded to what numbers of few bits stand for."""
    scale = call.constant(call.float("scale"), "float32")
    return _faked(call, scale, call.int("zero_point"))


@TABLE.op(
    "aten.fake_quantize_per_tensor_affine.tensor_qparams",
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
)
def fake_quantize_by_tensors(call: Call) -> Value | list[Value | None]:
    """Return a tensor rounded by tensors of one element."""
    if "fake_quant_enabled" in call and not _is_on(call, "fake_quant_enabled"):
        call.ignore("scale", "zero_point", "quant_min", "quant_max")
        return [call.value("self"), None]
    return _faked(call, _scalar(call, "scale"), _scalar(call, "zero_point"))


@TABLE.op(
    "aten.fake_quantize_per_channel_affine.default",
    "aten.fake_quantize_per_channel_affine_cachemask.default",
)
def fake_quantize_per_channel(call: Call) -> Value | list[Value | None]:
    """Return a tensor rounded along an axis."""
    return _faked(call, call.value("scale"), call.value("zero_point"), axis=call.axis("axis"))


@TABLE.op("aten.fused_moving_avg_obs_fake_quant.default")
def observed_fake_quantize(call: Call) -> Value:
    """Return a tensor rounded by what an observer has found before; one that still watches is refused."""
    if _is_on(call, "observer_on"):
        raise call.unsupported(
            "it changes its scale in every run",
            hint="`model.apply(torch.ao.quantization.disable_observer)` fixes the scales of all layers",
        )
    call.ignore("averaging_const")
    axis, by_row = call.axis("ch_axis"), call.flag("per_row_fake_quant")
    if not _is_on(call, "fake_quant_on"):
        call.ignore("running_min", "running_max", "scale", "zero_point", "quant_min", "quant_max")
        call.ignore("symmetric_quant")
        return call.value("self")
    scale, zero = (call.constant(found) for found in _by_extremes(call, axis, by_row))
    return _rounded(call, "self", scale, zero, axis if by_row else None)


def _by_extremes(call: Call, axis: int, by_row: bool) -> list[np.ndarray]:
    """Return the scales and zero points that torch takes from an observer's extremes, whatever it holds."""
    import torch

    names = ("running_min", "running_max", "scale", "zero_point")
    least, most, scale, zero = (torch.tensor(_numbers(call, name)) for name in names)
    torch.ops.aten.fused_moving_avg_obs_fake_quant(
        torch.zeros([least.numel() if by_row and at == axis else 1 for at in range(call.rank("self"))]),
        *(torch.tensor([0]), torch.tensor([1]), least, most, scale, zero, 1.0),
        *(call.int("quant_min"), call.int("quant_max"), axis, by_row, call.flag("symmetric_quant")),
    )
    return [found.numpy() if by_row else found.numpy().reshape(()) for found in (scale, zero)]


# -- parts of these ------------------------------------------------------------------------------------


def _ignore_range(call: Call) -> None:
    """Leave unread what a quantised tensor may hold, and the types that the graph has anyway."""
    call.ignore("quant_min", "quant_max", "dtype", "out_dtype")


def _is_on(call: Call, name: str) -> bool:
    """Whether a buffer of one number that switches something is not 0."""
    return bool(_numbers(call, name).any())


def _numbers(call: Call, name: str) -> np.ndarray:
    """Return the elements of a buffer or a constant.

    Raises:
        UnsupportedError: when the model computes them.
    """
    node = call.graph.node(call.value(name).node)
    if not _is_stored(node):
        raise call.unsupported(f"expected `{name}` to be a buffer or a number, got what the model computes")
    return node.data.numpy()


def _scalar(call: Call, name: str) -> Value:
    """Return a tensor of one element as one without axes."""
    return _laid(call, call.value(name), [])


def _varying(block: list[int], shape: tuple[object, ...]) -> list[int]:
    """Return the axes along which there are several scales."""
    return [axis for axis, (size, whole) in enumerate(zip(block, shape, strict=True)) if size != whole]


def _quantised(call: Call, scale: Value, zero: Value | int, axis: int | None = None) -> Value:
    """Return the operand `input` in another scale, within the bounds that the call states."""
    low, high = _bound(call, "quant_min", min), _bound(call, "quant_max", max)
    call.ignore("dtype")
    return _in_scale(call, call.value("input"), _Scale(scale, zero, (low, high), call.dtype, axis))


def _bound(call: Call, name: str, of: object) -> int:
    """Return a bound that is a number, a constant of one, or that of the element type."""
    found = call.arg(name, None)
    if isinstance(found, Value):
        found = _numbers(call, name).item()
    if found is None:
        bounds = np.iinfo(numpy_dtype(call.dtype))
        return int(bounds.min if of is min else bounds.max)
    return int(found)


class _Scale(NamedTuple):
    """A scale in which integers stand for floats.

    Attributes:
        scale: the length of a step, or of one for each place of the axis.
        zero: the integer that stands for 0, or likewise.
        bounds: the least and the largest integer.
        dtype: their element type.
        axis: the axis of several scales; None for one in all.
    """

    scale: Value
    zero: Value | int
    bounds: tuple[int, int]
    dtype: str
    axis: int | None


def _in_scale(call: Call, x: Value, by: _Scale) -> Value:
    """Return floats as integers of an element type."""
    x, by = call.cast(x, "float32"), by._replace(scale=_stored(call, by.scale, "float32"))
    if by.dtype not in _NARROW or not _is_stored(call.graph.node(by.scale.node)):
        return _in_scale_written_out(call, x, by)
    if isinstance(by.zero, int):
        moved = call.constant(np.full(call.static_shape(by.scale), by.zero), by.dtype)
    else:
        moved = _stored(call, by.zero, by.dtype)
    along: dict[str, Any] = {} if by.axis is None else {"axis": by.axis}
    found = call.op("QuantizeLinear", x, by.scale, moved, **along)
    own = np.iinfo(numpy_dtype(by.dtype))
    low, high = (call.constant(bound, by.dtype) for bound in by.bounds)
    return found if by.bounds == (own.min, own.max) else call.op("Clip", found, low, high)


def _in_scale_written_out(call: Call, x: Value, by: _Scale) -> Value:
    """Return floats as integers, to the bit as torch does.

    A scale by the largest element of all, which has half a place more on one side, makes a tie of that
    element in every run: whether it is divided by the scale, or multiplied by its reciprocal, decides it.
    """
    zero, scale = by.zero, by.scale
    moved = call.constant(zero, "float32") if isinstance(zero, int) else _stored(call, zero, "float32")
    if by.axis is not None:
        column = [*call.shape(scale), *[1] * (call.rank(x) - by.axis - 1)]
        scale, moved = (call.reshape(v, column) if call.rank(v) else v for v in (scale, moved))
    inverse = call.op("Reciprocal", scale)  # 1 / scale would ONNX Runtime make a division of x again
    found = call.op("Add", call.op("Round", call.op("Mul", x, inverse)), moved)
    low, high = (call.constant(float(bound), "float32") for bound in by.bounds)
    return call.cast(call.op("Clip", found, low, high), by.dtype)


def _real(
    call: Call,
    x: Value,
    scale: Value,
    zero: Value | int | None,
    where: dict[str, Any] | None = None,
) -> Value:
    """Return integers as floats of the type that the call gives."""
    dtype = call.dtype_of(x)
    if isinstance(zero, int):
        zero = call.constant(zero, dtype) if zero else None
    elif zero is not None:
        zero = None if _is_zero(call, zero) else _stored(call, zero, dtype)
    found = call.op("DequantizeLinear", x, _stored(call, scale, "float32"), zero, **(where or {}))
    return call.cast(found, call.result_type(0).dtype)


def _real_by_blocks(
    call: Call, x: str, scale: str, zero: str, block: list[int], shape: list[int] | tuple[object, ...]
) -> Value:
    """Return integers as floats, where each block of them has its scale.

    Raises:
        UnsupportedError: for blocks along several axes.
    """
    values, by = _narrowed(call, x), call.value(scale)
    moved = call.optional(zero) if zero else None
    call.ignore("quant_min", "quant_max", "dtype", "output_dtype", "group_size")
    varying = _varying(block, tuple(shape))
    if moved is not None and call.dtype_of(moved) in _FLOATS and not _is_zero(call, moved):
        raise call.unsupported("expected zero points that are integers")
    split = [axis for axis, size in enumerate(block) if size != 1]
    counts: list[object] = []
    where: dict[str, int] = {}
    if len(varying) == 1 and block[varying[0]] == 1:
        counts, where = [shape[varying[0]]], {"axis": varying[0]}
    elif varying:
        axis = split[0] if split else len(block) - 1
        if len(split) > 1:
            raise call.unsupported("expected blocks along one axis")
        sizes = call.static_shape(values)
        counts = [size // block[at] for at, size in enumerate(sizes)]
        where = {"axis": axis, "block_size": block[axis]}
    moved = None if moved is None else _laid(call, moved, counts)
    return _real(call, values, _laid(call, by, counts), moved, where)


def _faked(
    call: Call, scale: Value, zero: Value | int, axis: int | None = None
) -> Value | list[Value | None]:
    """Return the operand `self` rounded, beside the mask of what was within bounds where the call has one."""
    found = _rounded(call, "self", scale, zero, axis)
    return [found, None] if "cachemask" in call.operator else found


def _rounded(call: Call, name: str, scale: Value, zero: Value | int, axis: int | None = None) -> Value:
    low, high = call.int("quant_min"), call.int("quant_max")
    narrow = "uint8" if low >= 0 else "int8"
    own = np.iinfo(narrow)
    dtype = narrow if own.min <= low and high <= own.max else "int32"
    x = call.value(name)
    found = _in_scale(call, x, _Scale(scale, zero, (low, high), dtype, axis))
    return _real(call, found, scale, zero, None if axis is None else {"axis": axis})


def _narrowed(call: Call, name: str) -> Value:
    """Return stored numbers of a byte each as literals of the 4 bits that they need, as a file holds them."""
    value = call.value(name)
    low, high = call.arg("quant_min", None), call.arg("quant_max", None)
    narrow = {(-8, 7): "int4", (0, 15): "uint4"}.get((low, high))
    node = call.graph.node(value.node)
    if narrow is None or not _is_stored(node) or node.data.dtype not in ("int8", "uint8"):
        return value
    return _restated(call, value, _converted(node.data, narrow))


def _stored(call: Call, value: Value, dtype: str) -> Value:
    """Return a value in an element type; stored numbers as a constant of that type."""
    if call.dtype_of(value) == dtype:
        return value
    node = call.graph.node(value.node)
    if _is_stored(node):
        return _restated(call, value, _converted(node.data, dtype))
    return call.cast(value, dtype)


def _laid(call: Call, value: Value, shape: Sequence[object]) -> Value:
    """Return scales or zero points in another shape; stored ones as a constant of it."""
    node = call.graph.node(value.node)
    sizes = tuple(size for size in shape if isinstance(size, int))
    if call.shape(value) == sizes or len(sizes) < len(shape) or not _is_stored(node):
        return call.reshape(value, shape)
    return _restated(call, value, node.data.reshaped(sizes))


def _restated(call: Call, value: Value, data: TensorData) -> Value:
    """Return stored numbers in another form as a constant, the same one for each form."""
    key = id(call.graph), value.node, data.dtype, data.shape
    if key not in call.context.restated:
        call.context.restated[key] = call.graph.add_constant(data)
    return call.context.restated[key]


def _is_stored(node: Node) -> TypeGuard[Parameter | Constant]:
    """Whether a node holds numbers that nothing trains."""
    if isinstance(node, Parameter):
        return not node.trainable and node.data.load is not None
    return isinstance(node, Constant) and node.data.load is not None


def _converted(data: TensorData, dtype: str) -> TensorData:
    if data.dtype == dtype:
        return data
    return TensorData(dtype, data.shape, lambda: data.numpy().astype(numpy_dtype(dtype)))


def _is_zero(call: Call, value: Value) -> bool:
    """Whether stored zero points are all 0."""
    node = call.graph.node(value.node)
    return _is_stored(node) and not node.data.numpy().any()
