"""Emitters of what makes images larger and smaller."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


@TABLE.op("DepthToSpace")
def depth_to_space(e: View) -> Reference:
    """Emit depth_to_space."""
    if e.operator.str("mode") != "DCR":
        raise e.refused("expected the mode DCR, the only one that MXNet has")
    return e.node("depth_to_space", e.inputs(), block_size=e.operator.int("blocksize"))


@TABLE.op("SpaceToDepth")
def space_to_depth(e: View) -> Reference:
    """Emit space_to_depth."""
    return e.node("space_to_depth", e.inputs(), block_size=e.operator.int("blocksize"))


@TABLE.op("Resize")
def resize(e: View) -> Reference:
    """Emit UpSampling by a whole scale, or BilinearResize2D."""
    before, after = e.shape(), e.operator.types[0]
    o = e.operator
    scales = e.constant(2) if e.has(2) else None
    if o.str("mode") == "nearest" and scales is not None and scales[2] == scales[3] == int(scales[2]):
        return e.node("UpSampling", [e.input()], scale=int(scales[2]), sample_type="nearest", num_args=1)
    size = list((after.shape or ())[2:]) if after is not None else []
    aligned = o.str("coordinate_transformation_mode")
    if (
        o.str("mode") != "linear"
        or len(before) != 4
        or not all(isinstance(d, int) for d in size)
        or aligned not in ("align_corners", "half_pixel")
    ):
        raise e.refused("expected a nearest resize by a whole scale, or a bilinear one to a static size")
    return e.node(
        "_contrib_BilinearResize2D", [e.input()], height=size[0], width=size[1], mode="size",
        align_corners=aligned == "align_corners",
    )  # fmt: skip


@TABLE.op("GridSample")
def grid_sample(e: View) -> Reference:
    """Emit BilinearSampler, whose grid has its two numbers on axis 1 and corners for its ends."""
    o = e.operator
    how = o.str("mode"), o.str("padding_mode"), o.int("align_corners")
    if how != ("linear", "zeros", 1) or len(e.shape()) != 4:
        raise e.refused("expected bilinear samples of images with align_corners and zeros around them")
    return e.node("BilinearSampler", [e.input(), e.node("transpose", [e.input(1)], axes=(0, 3, 1, 2))])
