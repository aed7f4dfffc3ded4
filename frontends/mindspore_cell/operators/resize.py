"""Interpolation."""

from __future__ import annotations

from typing import Any

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


def _resize(call: Call, **attributes: Any) -> Value:
    """To the size of argument 1, over the last two axes."""
    x = call.value(0)
    shape = call.shape(x)
    batch = call.op("Shape", x, start=0, end=2)
    if len(shape) != 4:
        raise call.unsupported("expected images of rank 4")
    sizes = call.op("Concat", batch, call.constant(call.ints(1)), axis=0)
    return call.op("Resize", x, None, None, sizes, **attributes)


@TABLE.op("ResizeBilinearV2")
def resize_bilinear(call: Call) -> Value:
    """Arguments: size, align_corners, half_pixel_centers."""
    aligned, half = call.flag(2), call.flag(3)
    mode = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    return _resize(call, mode="linear", coordinate_transformation_mode=mode)


@TABLE.op("ResizeNearestNeighbor")
def resize_nearest(call: Call) -> Value:
    """Arguments: size, align_corners, half_pixel_centers; only the plain form, which rounds down."""
    if call.flag(2) or call.flag(3):
        raise call.unsupported("expected neither align_corners nor half_pixel_centers")
    return _resize(call, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
