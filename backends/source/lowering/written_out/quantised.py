"""Quantised operators as exact arithmetic on wider types."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, maximum, whole
from .....ir.types import dtype_of_onnx
from .table import ExpansionTable, constant, given, rank_of, size_of, sizes_of

TABLE = ExpansionTable()

Operands = Sequence[Value | None]

_NARROW = ("int8", "uint8", "int16", "uint16")


def _beside(part: Term, x: Term, node: Operator) -> Term | None:
    """Return a scale or zero point with the axes of `x`: one in all, one a place of an axis, or a block."""
    rank, own = rank_of(x), rank_of(part)
    if rank is None or own is None:
        return None
    if own == 0 or sizes_of(part) == [1]:
        return part.op("Reshape", whole(part)) if own else part
    axis = node.int("axis") % rank
    if own == 1:
        return part.op("Reshape", whole(part, -1, *[1] * (rank - axis - 1)))
    size, blocks = size_of(x, axis), size_of(part, axis)
    block = node.int("block_size")
    if size is None or blocks is None or not block:
        return None
    places = np.repeat(np.arange(blocks), block)[:size]
    return part.op("Gather", constant(part, places, "int64"), axis=axis)


@TABLE.op("QuantizeLinear")
def quantize_linear(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Divide by the scale, round to even, add the zero point and clamp to the type."""
    x, scale, zero = given(b, operands, 3)
    to = node.types[0]
    if x is None or scale is None or to is None or to.dtype not in _NARROW or node.int("precision"):
        return None
    scale = _beside(scale, x, node)
    zero = None if zero is None else _beside(zero, x, node)
    if scale is None or (zero is None and len(operands) > 2 and operands[2] is not None):
        return None
    found = x.cast(scale.dtype) / scale
    return [_to_type(found, zero, to.dtype)]


def _to_type(x: Term, zero: Term | None, dtype: str) -> Term:
    """Return a number rounded to even, moved, and kept within an element type."""
    found = x.op("Round")
    if zero is not None:
        found = found + zero.cast(found.dtype)
    bounds = np.iinfo(np.dtype(dtype))
    return found.clip(int(bounds.min), int(bounds.max)).cast("int32").cast(dtype)


@TABLE.op("DequantizeLinear")
def dequantize_linear(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Subtract the zero point and multiply by the scale."""
    x, scale, zero = given(b, operands, 3)
    if x is None or scale is None or x.dtype not in (*_NARROW, "int32"):
        return None
    scale = _beside(scale, x, node)
    moved = None if zero is None else _beside(zero, x, node)
    if scale is None or (zero is not None and moved is None):
        return None
    whole_ = x if moved is None else x.cast("int32") - moved.cast("int32")
    to = dtype_of_onnx(node.int("output_dtype")) if node.int("output_dtype") else scale.dtype
    return [(whole_.cast(scale.dtype) * scale).cast(to)]


@TABLE.op("DynamicQuantizeLinear")
def dynamic_quantize_linear(b: Builder, _: Operator, operands: Operands) -> list[Term] | None:
    """Return quantised to uint8 between the smallest and the largest element, and 0."""
    (x,) = given(b, operands, 1)
    if x is None:
        return None
    none = b.scalar_like(0, x.value)
    high = maximum(x.op("ReduceMax", keepdims=0), Term(b, none))
    low = x.op("ReduceMin", keepdims=0).op("Min", Term(b, none))
    scale = (high - low) / 255
    zero = (0 - low / scale).op("Round").clip(0, 255)
    return [_to_type(x / scale, zero, "uint8"), scale, zero.cast("uint8")]


def _moved(x: Term, zero: Term | None, shape: Sequence[int] | None = None) -> Term:
    """Return an integer as int32, less its zero point, which `shape` lays along an axis."""
    wide = x.cast("int32")
    if zero is None:
        return wide
    zero = zero.cast("int32")
    if shape is not None and rank_of(zero) == 1:
        zero = zero.op("Reshape", whole(zero, *shape))
    return wide - zero


@TABLE.op("MatMulInteger")
def matmul_integer(b: Builder, _: Operator, operands: Operands) -> list[Term] | None:
    """Return a product of int32, with one zero point a row of the first and a column of the second."""
    x, y, zero, other = given(b, operands, 4)
    if x is None or y is None:
        return None
    return [_moved(x, zero, (-1, 1)).op("MatMul", _moved(y, other))]


@TABLE.op("QLinearMatMul")
def q_linear_matmul(b: Builder, _: Operator, operands: Operands) -> list[Term] | None:
    """Return a product of int32, times the scales."""
    parts = given(b, operands, 8)
    if any(part is None for part in parts):
        return None
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = (part for part in parts if part is not None)
    product = _moved(x, x_zero, (-1, 1)).op("MatMul", _moved(y, y_zero))
    if rank_of(x_scale) == 1:
        x_scale = x_scale.op("Reshape", whole(x, -1, 1))
    return [_rescaled(product, x_scale, y_scale, scale, zero)]


def _rescaled(product: Term, x_scale: Term, y_scale: Term, scale: Term, zero: Term) -> Term:
    """Return a product of integers in another scale; in float32, which has the scales of float16."""
    by = x_scale.cast("float32") * y_scale.cast("float32") / scale.cast("float32")
    return _to_type(product.cast("float32") * by, zero, zero.dtype)


_EXACT = 1 << 24
"""Whole numbers up to this are exact in float32."""


def _convolution(x: Term, w: Term, node: Operator, largest: int) -> Term | None:
    """Return a convolution of whole numbers as int32: in float32, of as many channels as sum up exactly.

    Args:
        x: the input, less its zero point.
        w: the weight, likewise.
        node: the operator, for strides and so on.
        largest: the product of what is largest in both.
    """
    form = sizes_of(w)
    if form is None:
        return None
    most, channels, group = _EXACT // largest // math.prod(form[2:]), form[1], node.int("group")
    if most < 1 or (most < channels and group != 1):
        return None
    names = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")
    attributes = {name: v for name in names if (v := node.attribute(name)) is not None}
    found: Term | None = None
    for first in range(0, channels, most):
        parts = [x, w]
        if most < channels:
            bounds = whole(x, first), whole(x, min(first + most, channels)), whole(x, 1)
            parts = [part.op("Slice", *bounds) for part in parts]
        one, other = (part.cast("float32") for part in parts)
        step = one.op("Conv", other, group=group, **attributes).cast("int32")
        found = step if found is None else found + step
    return found


@TABLE.op("ConvInteger")
def conv_integer(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Return a convolution of whole numbers in float32, in which they are exact."""
    x, w, x_zero, w_zero = given(b, operands, 4)
    if x is None or w is None or (rank := rank_of(w)) is None:
        return None
    column = (-1, *[1] * (rank - 1))
    found = _convolution(_moved(x, x_zero), _moved(w, w_zero, column), node, 255 * 255)
    return None if found is None else [found]


@TABLE.op("QLinearConv")
def q_linear_conv(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Return a convolution of whole numbers, times the scales."""
    *parts, bias = given(b, operands, 9)
    if any(part is None for part in parts):
        return None
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = (part for part in parts if part is not None)
    if (rank := rank_of(w)) is None:
        return None
    column, row = (-1, *[1] * (rank - 1)), (-1, *[1] * (rank - 2))
    found = _convolution(_moved(x, x_zero), _moved(w, w_zero, column), node, 255 * 255)
    if found is None:
        return None
    if bias is not None:
        found = found + bias.op("Reshape", whole(bias, *row))
    if rank_of(w_scale) == 1:
        w_scale = w_scale.op("Reshape", whole(w_scale, *row))
    return [_rescaled(found, x_scale, w_scale, scale, zero)]
