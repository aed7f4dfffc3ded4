"""Interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir import Value
from ...formulas import scales_make_sizes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


def _resize(call: Call, **attributes: Any) -> Value:
    """Resize to the size in argument 1, over the axes after the first two."""
    return _resize_to(call, call.ints(1), **attributes)


def _resize_to(call: Call, wanted: Sequence[int], **attributes: Any) -> Value:
    x = call.value(0)
    batch = call.op("Shape", x, start=0, end=2)
    sizes = call.op("Concat", batch, call.constant(wanted), axis=0)
    return call.op("Resize", x, None, None, sizes, **attributes)


def _transformation(*, aligned: bool, half: bool) -> str:
    return "align_corners" if aligned else "half_pixel" if half else "asymmetric"


@TABLE.op("ResizeBilinearV2")
def resize_bilinear(call: Call) -> Value:
    """Arguments: size, align_corners, half_pixel_centers."""
    mode = _transformation(aligned=call.flag(2), half=call.flag(3))
    return _resize(call, mode="linear", coordinate_transformation_mode=mode)


@TABLE.op("ResizeLinear1D")
def resize_linear(call: Call) -> Value:
    """Return the third argument: 0 asymmetric, 1 aligned corners, 2 half pixels."""
    modes = {1: "align_corners", 2: "half_pixel"}
    if call.int(2) not in modes:
        raise call.unsupported(f"expected aligned corners (1) or half pixels (2), got {call.int(2)}")
    return _resize(call, mode="linear", coordinate_transformation_mode=modes[call.int(2)])


@TABLE.op("ResizeNearestNeighbor", "ResizeNearestNeighborV2")
def resize_nearest(call: Call) -> Value:
    """Arguments: size, align_corners, half_pixel_centers; the plain form rounds down."""
    aligned, half = call.flag(2), call.flag(3)
    mode = _transformation(aligned=aligned, half=half)
    rounding = "round_prefer_ceil" if aligned or half else "floor"
    return _resize(call, mode="nearest", coordinate_transformation_mode=mode, nearest_mode=rounding)


@TABLE.op("ResizeBicubic")
def resize_bicubic(call: Call) -> Value:
    """Return products with the kernel's own weights, which it looks up in a table of 1024 fractions."""
    from mindspore import Tensor
    from mindspore.ops.auto_generate import ResizeBicubic

    aligned, half = call.flag(2), call.flag(3)
    wanted, x = call.ints(1), call.value(0)
    matrices = []
    for size, count in zip(call.static_shape(x, [2, 3]), wanted, strict=True):
        found: Any = ResizeBicubic(aligned, half)(Tensor(np.eye(size, dtype="f4")[None, None]), (count, size))
        matrices.append(found.asnumpy()[0, 0])
    rows, columns = matrices
    y = call.op("MatMul", call.constant(rows, call.dtype), x)
    return call.op("MatMul", y, call.constant(columns.T.copy(), call.dtype))


def _upsample(call: Call, **attributes: Any) -> Value:
    """Resize to the size in argument 1, or by the factors in argument 2."""
    if call.arg(1, None) is not None:
        call.ignore(2)
        return _resize(call, **attributes)
    factors, x = call.floats(2), call.value(0)
    wanted = [d for d in (call.type.shape or ())[2:] if isinstance(d, int)]
    is_aligned = attributes["coordinate_transformation_mode"] == "align_corners"
    is_known = len(wanted) == len(factors)
    is_whole = is_known and scales_make_sizes(factors, call.shape(x)[2:], wanted)
    is_rounded = any(np.float32(factor) != factor for factor in factors)  # float32 may take a place away
    if is_known and (is_rounded if is_whole else is_aligned):
        return _resize_to(call, wanted, **attributes)
    return call.op("Resize", x, None, call.constant([1.0, 1.0, *factors], "float32"), **attributes)


@TABLE.op("UpsampleNearest1D", "UpsampleNearest2D", "UpsampleNearest3D")
def upsample_nearest(call: Call) -> Value:
    """Arguments: size or None, scale factors or None."""
    return _upsample(call, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@TABLE.op("UpsampleTrilinear3D")
def upsample_trilinear(call: Call) -> Value:
    """Arguments: size or None, scale factors or None, align_corners."""
    mode = _transformation(aligned=call.flag(3), half=True)
    return _upsample(call, mode="linear", coordinate_transformation_mode=mode)


_SAMPLING = ("linear", "nearest")
_BEYOND = ("zeros", "border", "reflection")


@TABLE.op("GridSampler2D", "GridSampler3D")
def grid_sampler(call: Call) -> Value:
    """Return arguments after samples and places: interpolation, padding, align_corners."""
    if call.int(2) >= len(_SAMPLING):
        raise call.unsupported("expected linear or nearest interpolation, got cubic")
    return call.op(
        "GridSample",
        call.value(0),
        call.value(1),
        mode=_SAMPLING[call.int(2)],
        padding_mode=_BEYOND[call.int(3)],
        align_corners=int(call.flag(4)),
    )
