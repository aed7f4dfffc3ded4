"""Making images larger and smaller."""

from __future__ import annotations

from ....ir import Value
from ...formulas import slice_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


@TABLE.op("UpSampling")
def up_sampling(call: Call) -> Value:
    """Scale up by a whole number; several inputs are scaled to one size, then joined."""
    call.ignore("workspace", "num_filter")
    scale, kind = call.int("scale"), call.text("sample_type")
    merge = call.text("multi_input_mode", "concat")
    if kind == "bilinear":  # a transposed convolution by the given weight, each channel for itself
        even = scale % 2
        channels = call.static_shape(axes=[1])[0]
        pad = -(-(scale - 1) // 2)
        return call.op(
            "ConvTranspose", *call.operands(), kernel_shape=[2 * scale - even] * 2, strides=[scale] * 2,
            pads=[pad] * 4, group=channels,
        )  # fmt: skip
    if kind != "nearest":
        raise call.unsupported(f"expected the sample_type nearest or bilinear, got {kind}")
    target = [scale * n for n in call.static_shape(axes=[2, 3])]
    scaled = [_nearest(call, v, target) for v in call.operands()]
    if len(scaled) == 1:
        return scaled[0]
    return call.op("Concat", *scaled, axis=1) if merge == "concat" else call.op("Sum", *scaled)


def _nearest(call: Call, x: Value, target: list[int]) -> Value:
    sizes = call.static_shape(x, [2, 3])
    if any(t % n for t, n in zip(target, sizes, strict=True)):
        raise call.unsupported(f"expected whole scales, got {sizes} to {target}")
    factors = [t // n for t, n in zip(target, sizes, strict=True)]
    scales = call.constant([1.0, 1.0, *map(float, factors)])
    type_ = call.type_of(x)
    return call.op(
        "Resize", x, None, scales, mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor", types=[type_.with_shape((*(type_.shape or ())[:2], *target))],
    )  # fmt: skip


_NEAREST_SIZES = {
    "to_even_down": (0, -1),
    "to_even_up": (0, 1),
    "to_odd_down": (1, -1),
    "to_odd_up": (1, 1),
}
"""Mode -> (remainder by 2 that a size keeps, what is added to one that has another)."""


@TABLE.op("_contrib_BilinearResize2D")
def bilinear_resize(call: Call) -> Value:
    """Resize to a size, by scales, or like another value; corners are aligned by default."""
    x = call.value(0)
    mode, aligned = call.text("mode", "size"), call.flag("align_corners", default=True)
    height, width = call.int("height", 1), call.int("width", 1)
    scales = [call.text("scale_height", "None"), call.text("scale_width", "None")]
    sizes = call.static_shape(x, [2, 3])
    if mode == "like":
        target = call.static_shape(call.value(1), [2, 3])
    elif mode == "size" and "None" in scales:
        target = [height, width]
    elif mode == "size":
        factors = [call.float("scale_height"), call.float("scale_width")]
        target = [int(n * f) for n, f in zip(sizes, factors, strict=True)]
    elif mode == "odd_scale":  # an odd size keeps its last pixel apart
        factors = [call.float("scale_height"), call.float("scale_width")]
        target = [int((n - n % 2) * f) + n % 2 for n, f in zip(sizes, factors, strict=True)]
    elif mode in _NEAREST_SIZES:
        odd, step = _NEAREST_SIZES[mode]
        target = [n if n % 2 == odd else n + step for n in sizes]
    else:
        known = ", ".join(("size", "like", "odd_scale", *_NEAREST_SIZES))
        raise call.unsupported(f"expected a mode among {known}, got {mode}")
    if not aligned:  # one row of many is the first, not their middle
        single = [axis for axis, wanted in zip((2, 3), target, strict=True) if wanted == 1]
        x = slice_axes(call, x, single, [0] * len(single), [1] * len(single), [1] * len(single))
    type_ = call.type_of(x)
    return call.op(
        "Resize", x, None, None, call.constant(target), axes=[2, 3], mode="linear",
        coordinate_transformation_mode="align_corners" if aligned else "half_pixel",
        types=[type_.with_shape((*(type_.shape or ())[:2], *target))],
    )  # fmt: skip
