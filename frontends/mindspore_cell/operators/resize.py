"""Interpolation."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")


def _resize(use: Use, **attributes: object) -> Value:
    """To the size of argument 1, over the last two axes."""
    x = use.tensor(0)
    shape = use.b.type_of(x).shape or ()
    batch = use.b.op("Shape", x, start=0, end=2)
    if len(shape) != 4:
        raise use.unsupported("expected images of rank 4")
    sizes = use.b.op("Concat", batch, use.b.constant(use.ints(1)), axis=0)
    return use.emit("Resize", x, None, None, sizes, **attributes)


@TABLE.op("ResizeBilinearV2")
def resize_bilinear(use: Use) -> Value:
    """Arguments: size, align_corners, half_pixel_centers."""
    aligned, half = bool(use.argument(2)), bool(use.argument(3))
    mode = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    return _resize(use, mode="linear", coordinate_transformation_mode=mode)


@TABLE.op("ResizeNearestNeighbor")
def resize_nearest(use: Use) -> Value:
    """Arguments: size, align_corners, half_pixel_centers; only the plain form, which rounds down."""
    if use.argument(2) or use.argument(3):
        raise use.unsupported("expected neither align_corners nor half_pixel_centers")
    return _resize(use, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
