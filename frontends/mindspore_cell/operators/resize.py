"""Interpolation."""

from __future__ import annotations

from typing import Any

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


def _resize(call: Call, **attributes: Any) -> Value:
    """To the size of argument 1, over the axes behind the first two."""
    x = call.value(0)
    batch = call.op("Shape", x, start=0, end=2)
    sizes = call.op("Concat", batch, call.constant(call.ints(1)), axis=0)
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
    """The third argument: 0 asymmetric, 1 aligned corners, 2 half pixels."""
    modes = {1: "align_corners", 2: "half_pixel"}
    if call.int(2) not in modes:
        raise call.unsupported(f"expected aligned corners (1) or half pixels (2), got {call.int(2)}")
    return _resize(call, mode="linear", coordinate_transformation_mode=modes[call.int(2)])


@TABLE.op("ResizeNearestNeighbor", "ResizeNearestNeighborV2")
def resize_nearest(call: Call) -> Value:
    """Arguments: size, align_corners, half_pixel_centers; only the plain form, which rounds down."""
    if call.flag(2) or call.flag(3):
        raise call.unsupported("expected neither align_corners nor half_pixel_centers")
    return _resize(call, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@TABLE.op("UpsampleNearest1D", "UpsampleNearest2D", "UpsampleNearest3D")
def upsample_nearest(call: Call) -> Value:
    """Arguments: size or None, scale factors or None."""
    if call.arg(1, None) is None:
        scales = call.constant([1.0, 1.0, *call.floats(2)], "float32")
        return call.op(
            "Resize",
            call.value(0),
            None,
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    call.ignore(2)
    return _resize(call, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@TABLE.op("UpsampleTrilinear3D")
def upsample_trilinear(call: Call) -> Value:
    """Arguments: size, scale factors or None, align_corners."""
    if call.arg(1, None) is None or call.arg(2, None) is not None:
        raise call.unsupported("expected a size, got scale factors")
    mode = _transformation(aligned=call.flag(3), half=True)
    return _resize(call, mode="linear", coordinate_transformation_mode=mode)


_SAMPLING = ("linear", "nearest")
_BEYOND = ("zeros", "border", "reflection")


@TABLE.op("GridSampler2D", "GridSampler3D")
def grid_sampler(call: Call) -> Value:
    """Arguments after samples and places: interpolation, padding, align_corners."""
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
