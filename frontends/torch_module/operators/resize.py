"""Lowerings of interpolation and of samples at given places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Value
from ...formulas import scales_make_sizes
from ...lowering_table import Lowering, LoweringTable
from ..call import Call
from ..symbols import Size, as_dim

TABLE = LoweringTable[Call]("torch")


def _resized(call: Call, x: Value, scales: list[float] | None, **attributes: Any) -> Value:
    """Resize by torch's own scales where it uses them, else to its own sizes."""
    sizes = call.shape("input" if "input" in call else "self")[2:]
    wanted = call.result_shape[2:]
    if scales is None:
        return _resized_to_size(call, x, **attributes)
    is_aligned = attributes["coordinate_transformation_mode"] == "align_corners"
    is_whole = scales_make_sizes(scales, sizes, wanted)
    factors = [_factor(*row) for row in zip(scales, sizes, wanted, strict=True)]
    is_rounded = any(factor != np.float32(scale) for factor, scale in zip(factors, scales, strict=True))
    if is_rounded if is_whole else is_aligned:  # of whole sizes the ratio is the scale, rounded once
        return _resized_to_size(call, x, **attributes)
    found = [_scaled(*row) for row in zip(factors, sizes, wanted, strict=True)]
    given = call.type.with_shape(tuple(as_dim(s) for s in (*call.result_shape[:2], *found)))
    scale = call.constant([1.0, 1.0, *factors], "float32")
    y = call.op("Resize", x, None, scale, None, types=[given], **attributes)
    for axis, (size, least) in enumerate(zip(found, wanted, strict=True), start=2):
        if size < least:
            raise call.unsupported(f"expected at most {size} places on axis {axis}, got {least}")
        if size != least:
            y = call.op("Slice", y, *(call.constant([bound]) for bound in (0, least, axis)))
    return y


def _resized_to_size(call: Call, x: Value, **attributes: Any) -> Value:
    return call.op("Resize", x, None, None, call.shape_value(call.result_shape), **attributes)


def _factor(scale: float, size: Size, wanted: Size) -> np.float32:
    """Return the scale in ONNX's float32; the next one where rounding takes a place away."""
    factor = np.float32(scale)
    above = np.nextafter(factor, np.float32(np.inf))
    return above if _scaled(factor, size, wanted) != wanted == _scaled(above, size, wanted) else factor


def _scaled(factor: np.float32, size: Size, wanted: Size) -> Size:
    """Return the size that ONNX computes, in float32 and float64; for a symbolic size, the wanted one."""
    return min(int(factor * np.float32(size)), int(float(factor) * size)) if isinstance(size, int) else wanted


def _scales(call: Call) -> list[float] | None:
    """Return the scale factors given, which torch uses as they are even where the size was rounded."""
    call.ignore("output_size", "size")
    if "scale_factors" in call:
        given = call.arg("scale_factors")
        return None if given is None else [float(s) for s in given]
    found = [call.arg(n) for n in ("scales_d", "scales_h", "scales_w", "scales") if n in call]
    return None if any(s is None for s in found) else [float(s) for s in found]


def _nearest(call: Call) -> Value:
    exact = "exact" in call.operator
    mode = "half_pixel" if exact else "asymmetric"
    rounding = "round_prefer_ceil" if exact else "floor"
    return _resized(
        call,
        call.value("input" if "input" in call else "self"),
        _scales(call),
        mode="nearest",
        coordinate_transformation_mode=mode,
        nearest_mode=rounding,
    )


def _as_products(call: Call) -> Value:
    """Antialiased with aligned corners, which ONNX has otherwise: products with torch's own weights."""
    import torch

    call.ignore("output_size", "scale_factors", "scales_h", "scales_w")
    name = "input" if "input" in call else "self"
    before, after = call.shape(name)[2:], call.result_shape[2:]
    if not all(isinstance(size, int) for size in (*before, *after)):
        raise call.unsupported(f"expected static sizes, got {[str(s) for s in (*before, *after)]}")
    resize = getattr(torch.ops.aten, call.operator.split(".")[1]).default
    down, across = (
        resize(torch.eye(size)[None, None], [size, wanted], True)[0, 0].numpy()
        for size, wanted in zip(before, after, strict=True)
    )
    y = call.op("MatMul", call.value(name), call.constant(across, call.dtype))
    return call.op("MatMul", call.constant(down.T.copy(), call.dtype), y)


def _smooth(mode: str) -> Lowering[Call]:
    def smooth(call: Call) -> Value:
        transformation = "align_corners" if call.flag("align_corners") else "half_pixel"
        smoothed = "_aa" in call.operator
        if smoothed and call.flag("align_corners"):
            return _as_products(call)
        extra: dict[str, Any] = {"antialias": 1, "exclude_outside": 1} if smoothed else {}
        if mode == "cubic":  # with antialiasing torch follows Pillow
            extra["cubic_coeff_a"] = -0.5 if smoothed else -0.75
        return _resized(
            call,
            call.value("input" if "input" in call else "self"),
            _scales(call),
            mode=mode,
            coordinate_transformation_mode=transformation,
            **extra,
        )

    return smooth


for _rank in (1, 2, 3):
    for _kind in ("nearest", "_nearest_exact"):
        _name = f"upsample_nearest{_rank}d" if _kind == "nearest" else f"_upsample_nearest_exact{_rank}d"
        TABLE.op(f"aten.{_name}.vec", f"aten.{_name}.default")(_nearest)
for _name, _mode in (
    ("upsample_linear1d", "linear"),
    ("upsample_bilinear2d", "linear"),
    ("upsample_trilinear3d", "linear"),
    ("upsample_bicubic2d", "cubic"),
    ("_upsample_bilinear2d_aa", "linear"),
    ("_upsample_bicubic2d_aa", "cubic"),
):
    TABLE.op(f"aten.{_name}.vec", f"aten.{_name}.default")(_smooth(_mode))

_SAMPLING = ("linear", "nearest")
_BEYOND = ("zeros", "border", "reflection")


@TABLE.op("aten.grid_sampler.default", "aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
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
