"""Lowerings of interpolation and of samples at given places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..lowering import LoweringTable
from .context import Call, Lowering

RESIZE: LoweringTable[Lowering] = LoweringTable("torch")


def _resized(call: Call, x: Value, scales: list[float] | None, **attributes: Any) -> Value:
    """Resize by torch's own scales where it uses them, else to its own sizes."""
    shape = call.result_shape
    if scales is not None and _gives(call, scales):
        factors = call.constant([1.0, 1.0, *scales], "float32")
        return call.op("Resize", x, None, factors, None, **attributes)
    return call.op("Resize", x, None, None, call.context.sizes(shape), **attributes)


def _gives(call: Call, scales: list[float]) -> bool:
    """Whether ONNX finds torch's sizes by the scales, which it has in float32: 10 * 0.7 is below 7 there."""
    before = call.shape("input" if "input" in call.attributes else "self")[2:]
    for size, wanted, scale in zip(before, call.result_shape[2:], map(np.float32, scales), strict=True):
        # ONNX Runtime multiplies in float32, shape inference in float64
        if isinstance(size, int) and {int(np.float32(size) * scale), int(size * float(scale))} != {wanted}:
            return False
    return True


def _scales(call: Call) -> list[float] | None:
    """The scale factors given, which torch uses as they are even where the size was rounded."""
    call.ignore("output_size", "size")
    if "scale_factors" in call.attributes:
        given = call.arg("scale_factors")
        return None if given is None else [float(s) for s in given]
    found = [call.arg(n) for n in ("scales_d", "scales_h", "scales_w", "scales") if n in call.attributes]
    return None if any(s is None for s in found) else [float(s) for s in found]


def _nearest(call: Call) -> Value:
    exact = "exact" in call.target
    mode = "half_pixel" if exact else "asymmetric"
    rounding = "round_prefer_ceil" if exact else "floor"
    return _resized(
        call,
        call.value("input" if "input" in call.attributes else "self"),
        _scales(call),
        mode="nearest",
        coordinate_transformation_mode=mode,
        nearest_mode=rounding,
    )


def _smooth(mode: str) -> Lowering:
    def smooth(call: Call) -> Value:
        transformation = "align_corners" if call.flag("align_corners") else "half_pixel"
        smoothed = "_aa" in call.target
        extra: dict[str, Any] = {"antialias": 1, "exclude_outside": 1} if smoothed else {}
        if mode == "cubic":  # with antialiasing torch follows Pillow
            extra["cubic_coeff_a"] = -0.5 if smoothed else -0.75
        return _resized(
            call,
            call.value("input" if "input" in call.attributes else "self"),
            _scales(call),
            mode=mode,
            coordinate_transformation_mode=transformation,
            **extra,
        )

    return smooth


for _rank in (1, 2, 3):
    for _kind in ("nearest", "_nearest_exact"):
        _name = f"upsample_nearest{_rank}d" if _kind == "nearest" else f"_upsample_nearest_exact{_rank}d"
        RESIZE.op(f"aten.{_name}.vec", f"aten.{_name}.default")(_nearest)
for _name, _mode in (
    ("upsample_linear1d", "linear"),
    ("upsample_bilinear2d", "linear"),
    ("upsample_trilinear3d", "linear"),
    ("upsample_bicubic2d", "cubic"),
    ("_upsample_bilinear2d_aa", "linear"),
    ("_upsample_bicubic2d_aa", "cubic"),
):
    RESIZE.op(f"aten.{_name}.vec", f"aten.{_name}.default")(_smooth(_mode))

_SAMPLING = ("linear", "nearest")
_BEYOND = ("zeros", "border", "reflection")


@RESIZE.op("aten.grid_sampler.default", "aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(call: Call) -> Value:
    """Samples at places in [-1, 1], x first; the cubic ones are decomposed, since MindSpore has none."""
    mode = call.int("interpolation_mode")
    if mode >= len(_SAMPLING):
        raise call.unsupported("expected linear or nearest interpolation, got cubic")
    return call.op(
        "GridSample",
        call.value("input"),
        call.value("grid"),
        mode=_SAMPLING[mode],
        padding_mode=_BEYOND[call.int("padding_mode")],
        align_corners=int(call.flag("align_corners")),
    )
