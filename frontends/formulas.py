"""Formulas in ONNX's operators, and forms of numbers, that several frameworks share."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np

from ..ir import Value
from .call import Call


def is_floating(dtype: str) -> bool:
    """Whether an element type is one of floating-point numbers."""
    return dtype.startswith(("float", "bfloat"))


# -- element by element ----------------------------------------------------------------------------------


def square(call: Call, x: Value) -> Value:
    """Build ``x * x``."""
    return call.op("Mul", x, x)


def rectify(call: Call, x: Value) -> Value:
    """Build ``max(x, 0)``; of int64 by Max, as ONNX Runtime has no Relu of it."""
    return call.op("Max", x, call.scalar_like(0, x)) if call.dtype_of(x) == "int64" else call.op("Relu", x)


def reciprocal_root(call: Call, x: Value) -> Value:
    """Build ``1 / sqrt(x)``."""
    return call.op("Reciprocal", call.op("Sqrt", x))


def log_plus_one(call: Call, x: Value) -> Value:
    """Build ``log(1 + x)``, which MindSpore's Log1p is on CPU; `regraft.Log1p` is accurate near zero."""
    return call.op("Log", call.op("Add", x, call.scalar_like(1, x)))


def exp_minus_one(call: Call, x: Value) -> Value:
    """Build ``exp(x) - 1``, which MindSpore's Expm1 is on CPU; `regraft.Expm1` is accurate near zero."""
    return call.op("Sub", call.op("Exp", x), call.scalar_like(1, x))


def hypotenuse(call: Call, x: Value, y: Value) -> Value:
    """Build ``sqrt(x * x + y * y)``."""
    return call.op("Sqrt", call.op("Add", square(call, x), square(call, y)))


def round_towards_zero(call: Call, x: Value) -> Value:
    """Build ``sign(x) * floor(abs(x))``."""
    return call.op("Mul", call.op("Sign", x), call.op("Floor", call.op("Abs", x)))


def floor_divide(call: Call, x: Value, y: Value) -> Value:
    """Build the quotient rounded down; ONNX divides integers towards zero."""
    quotient, dtype = call.op("Div", x, y), call.dtype_of(x)
    if is_floating(dtype):
        return call.op("Floor", quotient)
    if dtype.startswith("u"):
        return quotient
    zero = call.constant(0, dtype)
    remains = call.op("Not", call.op("Equal", call.op("Mul", quotient, y), x))
    negative = call.op("Xor", call.op("Less", x, zero), call.op("Less", y, zero))
    correction = call.cast(call.op("And", remains, negative), dtype)
    return call.op("Sub", quotient, correction)


def floor_remainder(call: Call, x: Value, y: Value) -> Value:
    """Build the remainder with the divisor's sign: ONNX's integer Mod; of floats by way of floor."""
    if not is_floating(call.dtype_of(x)):
        return call.op("Mod", x, y)
    return call.op("Sub", x, call.op("Mul", y, call.op("Floor", call.op("Div", x, y))))


def angle_of(call: Call, y: Value, x: Value) -> Value:
    """Build the angle of a point, by its quadrant."""
    zero, half = call.scalar_like(0, x), call.scalar_like(pi / 2, x)
    sign = call.op("Where", call.op("Less", y, zero), call.scalar_like(-1, x), call.scalar_like(1, x))
    acute = call.op("Atan", call.op("Div", y, x))
    obtuse = call.op("Add", acute, call.op("Mul", sign, call.scalar_like(pi, x)))
    upright = call.op("Where", call.op("Equal", y, zero), zero, call.op("Mul", sign, half))
    beside = call.op("Where", call.op("Less", x, zero), obtuse, acute)
    return call.op("Where", call.op("Equal", x, zero), upright, beside)


def clip(call: Call, x: Value, low: float, high: float) -> Value:
    """Build x between two numbers."""
    return call.op("Clip", x, call.scalar_like(low, x), call.scalar_like(high, x))


# -- moved elements --------------------------------------------------------------------------------------


def swap_last_axes(call: Call, x: Value, *, when: bool = True) -> Value:
    """Build the transposed matrices of a stack of them, or return the stack where `when` is false."""
    if not when:
        return x
    rank = call.rank(x)
    return call.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


def slice_axes(
    call: Call,
    x: Value,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int] | None = None,
) -> Value:
    """Build a slice along some axes; the value itself along none."""
    if not axes:
        return x
    bounds = [starts, ends, axes] if steps is None else [starts, ends, axes, steps]
    return call.op("Slice", x, *(call.constant(list(bound), "int64") for bound in bounds))


_END = 2**63 - 1  # what ONNX clips to the end, whatever the size


def reverse(call: Call, x: Value, axes: Sequence[int]) -> Value:
    """Build a value read backwards along some axes."""
    count = len(axes)
    return slice_axes(call, x, axes, [-1] * count, [-_END] * count, [-1] * count)


# -- pools -----------------------------------------------------------------------------------------------


def build_adaptive_max_pool(
    call: Call, x: Value, output: Sequence[int], *, has_places: bool
) -> tuple[Value, Value | None]:
    """Build the largest of windows as many as told, by a pool where all are equal, and their places."""
    if has_places:
        y, places = call.ops("regraft.AdaptiveMaxPool", x, outputs=2, output_size=output)
        return y, places
    if all(size == 1 for size in output):
        return call.op("GlobalMaxPool", x), None
    sizes = [size for size in call.shape(x)[-len(output) :] if isinstance(size, int)]
    window = [size // count if count else 0 for size, count in zip(sizes, output, strict=False)]
    if len(sizes) == len(output) and all(s == n * w for s, n, w in zip(sizes, output, window, strict=True)):
        return call.op("MaxPool", x, kernel_shape=window, strides=window), None
    return call.ops("regraft.AdaptiveMaxPool", x, outputs=2, output_size=output)[0], None


# -- equations -------------------------------------------------------------------------------------------


def substitute(call: Call, a: Value, b: Value, *, upper: bool, unit: bool = False) -> Value:
    """Build X with ``A @ X = B``, of one triangle of A, of which the diagonal may count as ones."""
    return call.op("regraft.SolveTriangular", a, b, upper=upper, unit_diagonal=unit)


def solve_by_factor(call: Call, factor: Value, b: Value, *, upper: bool) -> Value:
    """Build X with ``A @ X = B``, given Cholesky's lower or upper factor of A."""
    half = substitute(call, swap_last_axes(call, factor, when=upper), b, upper=False)
    return substitute(call, swap_last_axes(call, factor, when=not upper), half, upper=True)


# -- numbers ---------------------------------------------------------------------------------------------


def begins_then_ends(pairs: Sequence[int]) -> list[int]:
    """Return (begin, end) pairs as ONNX has them: all begins, then all ends."""
    return [*pairs[0::2], *pairs[1::2]]


def per_axis(given: Sequence[int], rank: int) -> list[int]:
    """Return one number per axis: of one for all, or of a list that may begin with batch and channels."""
    return list(given) * rank if len(given) == 1 else list(given[-rank:])


# -- patches of images -----------------------------------------------------------------------------------


def patches(
    call: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilate: Sequence[int],
    pad: Sequence[int],
    sizes: Sequence[Any] | None = None,
) -> Value:
    """Build the patches of two axes: (batch, channels, *kernel, *places).

    One Gather an axis by a table of places.

    Args:
        call: the call that is lowered.
        x: four axes.
        kernel: size of a patch.
        stride: places from a patch to the next.
        dilate: places from an element of a patch to the next.
        pad: zeros around each axis, on each side.
        sizes: of the two axes, where they may be symbolic.
    """
    sizes = call.static_shape(x, [2, 3]) if sizes is None else sizes
    if any(pad):
        pads = call.constant([*pad, *pad])
        x = call.op("Pad", x, pads, call.scalar_like(0, x), call.constant([2, 3]))
    for at, axis in enumerate((2, 4)):  # the first Gather puts an axis before the second one's
        places = windows(call, sizes[at] + 2 * pad[at], kernel[at], dilate[at], stride[at])
        x = call.op("Gather", x, places, axis=axis)
    return call.op("Transpose", x, perm=[0, 1, 2, 4, 3, 5])


def windows(call: Call, extent: Any, length: int, dilate: int, step: int) -> Value:
    """Return a table of places along an axis: (places within a window, windows).

    Args:
        call: the call that is lowered.
        extent: size of the axis, which may be symbolic.
        length: number of places of a window.
        dilate: places from one of them to the next.
        step: places from a window to the next.
    """
    within, reach = (np.arange(length) * dilate)[:, None], dilate * (length - 1)
    if isinstance(extent, int):
        return call.constant(within + np.arange(0, extent - reach, step))
    end = call.op("Squeeze", call.shape_value([extent - reach]), call.constant([0]))
    starts = call.op("Range", call.constant(0), end, call.constant(step))
    return call.op("Add", starts, call.constant(within))


def scales_make_sizes(scales: Sequence[float], sizes: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Return whether scales make exactly the wanted sizes, without a fraction that is cut off.

    Where corners are aligned, ONNX's definition has the fraction in its places, and PyTorch and MindSpore
    have the sizes alone. A symbolic size is taken to be what a whole scale makes of it.
    """
    return all(
        scale * size == result if isinstance(size, int) and isinstance(result, int) else scale.is_integer()
        for scale, size, result in zip(scales, sizes, wanted, strict=True)
    )


def normalise_by_batch(call: Call, x: Value, scale: Value, bias: Value, epsilon: float) -> Value:
    """Build the normalisation of each channel by the batch's own mean and variance."""
    rank = call.rank(x)
    axes = call.constant([a for a in range(rank) if a != 1])
    centred = call.op("Sub", x, call.op("ReduceMean", x, axes))
    variance = call.op("ReduceMean", square(call, centred), axes)
    deviation = call.op("Sqrt", call.op("Add", variance, call.scalar_like(epsilon, x)))
    shape = call.constant([1, -1] + [1] * (rank - 2))
    scale, bias = call.op("Reshape", scale, shape), call.op("Reshape", bias, shape)
    return call.op("Add", call.op("Mul", call.op("Div", centred, deviation), scale), bias)
