"""Emitters of convolutions."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


def window(e: View, x: Reference, rank: int, value: float) -> tuple[Reference, list[int]]:
    """Return symmetric pads of a window; excess at one end becomes a Pad before it."""
    o = e.operator
    automatic = o.str("auto_pad") if o.traits.windowed else "NOTSET"
    if automatic == "VALID":
        return x, [0] * rank
    if automatic != "NOTSET":
        raise e.refused("expected explicit pads (run normalise-conv-padding)")
    pads = o.spatial("pads", rank)
    begins, ends = pads[:rank], pads[rank:]
    if begins == ends:
        return x, begins
    if rank == 1:
        raise e.refused("expected equal pads at both ends of a 1-d window, the only ones that MXNet has")
    widths = [0, 0, 0, 0, *(w for pair in zip(begins, ends, strict=True) for w in pair)]
    return e.node("Pad", [x], mode="constant", pad_width=widths, constant_value=value), [0] * rank


@TABLE.op("Conv")
def convolution(e: View) -> Reference:
    """Emit Convolution; pads that differ come before it."""
    weight = e.static_shape(1)
    rank, o = len(weight) - 2, e.operator
    x, pad = window(e, e.input(), rank, 0.0)
    return e.node(
        "Convolution", [x, *e.inputs()[1:]], kernel=weight[2:], num_filter=weight[0],
        stride=o.spatial("strides", rank), dilate=o.spatial("dilations", rank), pad=pad,
        num_group=o.int("group"), no_bias=not e.has(2),
    )  # fmt: skip


@TABLE.op("ConvTranspose")
def deconvolution(e: View) -> Reference:
    """Emit Deconvolution."""
    weight = e.static_shape(1)
    rank, o = len(weight) - 2, e.operator
    pads = o.spatial("pads", rank)
    if pads[:rank] != pads[rank:] or o.ints("output_shape") or o.str("auto_pad") != "NOTSET":
        raise e.refused("expected equal explicit pads at both ends of a transposed convolution")
    return e.node(
        "Deconvolution", e.inputs(), kernel=weight[2:], num_filter=weight[1] * o.int("group"),
        stride=o.spatial("strides", rank), dilate=o.spatial("dilations", rank), pad=pads[:rank],
        adj=o.spatial("output_padding", rank), num_group=o.int("group"), no_bias=not e.has(2),
    )  # fmt: skip
