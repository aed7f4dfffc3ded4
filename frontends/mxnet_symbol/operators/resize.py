"""Making images larger and smaller."""

from __future__ import annotations

from ....ir import Value
from ..call import Use, new_table

TABLE = new_table()


@TABLE.op("UpSampling")
def up_sampling(use: Use) -> Value:
    """By a whole scale; several inputs are scaled to one size, then joined."""
    b = use.b
    use.attrs.ignore("num_args", "workspace", "num_filter")
    scale, kind = use.attrs.int("scale"), use.attrs.text("sample_type")
    merge = use.attrs.text("multi_input_mode", "concat")
    if kind == "bilinear":  # a transposed convolution by the given weight, each channel for itself
        even = scale % 2
        channels = use.static(use.x, [1])[0]
        pad = -(-(scale - 1) // 2)
        return b.op(
            "ConvTranspose", *use.values(), kernel_shape=[2 * scale - even] * 2, strides=[scale] * 2,
            pads=[pad] * 4, group=channels,
        )  # fmt: skip
    if kind != "nearest":
        raise use.unsupported(f"expected the sample_type nearest or bilinear, got {kind}")
    target = [scale * n for n in use.static(use.x, [2, 3])]
    scaled = [_nearest(use, v, target) for v in use.values()]
    if len(scaled) == 1:
        return scaled[0]
    return b.op("Concat", *scaled, axis=1) if merge == "concat" else b.op("Sum", *scaled)


def _nearest(use: Use, x: Value, target: list[int]) -> Value:
    b, sizes = use.b, use.static(x, [2, 3])
    if any(t % n for t, n in zip(target, sizes, strict=True)):
        raise use.unsupported(f"expected whole scales, got {sizes} to {target}")
    factors = [t // n for t, n in zip(target, sizes, strict=True)]
    scales = b.constant([1.0, 1.0, *map(float, factors)])
    type_ = b.type_of(x)
    return b.op(
        "Resize", x, None, scales, mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor", types=[type_.with_shape((*(type_.shape or ())[:2], *target))],
    )  # fmt: skip


@TABLE.op("_contrib_BilinearResize2D")
def bilinear_resize(use: Use) -> Value:
    """To a size, by scales, or like another value; corners are aligned unless told."""
    b, x = use.b, use.x
    mode, aligned = use.attrs.text("mode", "size"), use.attrs.flag("align_corners", default=True)
    height, width = use.attrs.int("height", 1), use.attrs.int("width", 1)
    scales = [use.attrs.text("scale_height", "None"), use.attrs.text("scale_width", "None")]
    sizes = use.static(x, [2, 3])
    if mode == "like":
        target = use.static(use.input(1), [2, 3])
    elif mode == "size" and "None" in scales:
        target = [height, width]
    elif mode == "size":
        factors = [use.attrs.float("scale_height"), use.attrs.float("scale_width")]
        target = [int(n * f) for n, f in zip(sizes, factors, strict=True)]
    else:
        raise use.unsupported(f"expected the mode size or like, got {mode}")
    type_ = b.type_of(x)
    return b.op(
        "Resize", x, None, None, b.constant(target), axes=[2, 3], mode="linear",
        coordinate_transformation_mode="align_corners" if aligned else "half_pixel",
        types=[type_.with_shape((*(type_.shape or ())[:2], *target))],
    )  # fmt: skip
