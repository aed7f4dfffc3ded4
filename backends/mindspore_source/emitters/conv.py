"""Convolutions, always with an explicit pad_mode because MindSpore's default is "same"."""

from __future__ import annotations

import math

from ....frameworks.mindspore import pairs
from ...source.emitting import (
    Always,
    Argument,
    Call,
    EmitterTable,
    Expression,
    NnLayer,
    Part,
    Refused,
    State,
    View,
    same,
)
from ...source.expressions import Quoted, call
from .initializers import construct, drawn, dtype_argument

TABLE = EmitterTable()


def _padding(view: View, rank: int) -> tuple[str, int | tuple[int, ...]]:
    mode = view.operator.str("auto_pad")
    if mode == "SAME_LOWER":
        raise Refused
    named = {"SAME_UPPER": "same", "VALID": "valid"}.get(mode, "pad")
    pads = view.operator.spatial("pads", rank)
    return named, pairs(pads) if named == "pad" else 0


def pad_mode(mode: str) -> Argument:
    """Return a layer's argument for its mode of padding: "valid" where the padding is 0."""
    return Argument("pad_mode", Quoted(mode), instead=("padding", Quoted("valid")) if mode == "pad" else None)


def _sizes(view: View) -> tuple[int, tuple[int, ...], list[int], list[int], int]:
    """Return (spatial rank, weight shape, strides, dilations, group)."""
    weight = view.static_shape(1)
    rank = len(weight) - 2
    if rank not in (1, 2, 3):
        raise Refused
    operator = view.operator
    return (
        rank,
        weight,
        operator.spatial("strides", rank),
        operator.spatial("dilations", rank),
        operator.int("group"),
    )


def _state(view: View, rank: int) -> tuple[State, ...]:
    """Return how the layer holds its parameters; a 1-d weight gets an axis of 1 before the last."""
    shape = view.parameter(1).data.shape
    weight = State(1, "weight", "reshape", (*shape[:2], 1, shape[2])) if rank == 1 else State(1, "weight")
    if not view.has(2):
        return (weight,)
    view.parameter(2)
    return weight, State(2, "bias")


def _constructor(
    view: View, name: str, channels: tuple[int, int], fan_in: tuple[int, int], **padding: object
) -> Call:
    """Return the constructor call of a convolution layer."""
    _, sizes, strides, dilations, group = _sizes(view)
    weight = view.parameter(1)
    shape = weight.data.shape
    shape = (*shape[:2], 1, shape[2]) if len(shape) == 3 else shape  # as `_state` says
    return construct(
        name,
        in_channels=channels[0],
        out_channels=channels[1],
        kernel_shape=same(sizes[2:]),
        strides=same(strides),
        **padding,
        dilations=same(dilations),
        group=group,
        bias=Always(view.has(2)),
        weight_drawn=drawn(name, "weight", weight, fan_in, shape),
        bias_drawn=drawn(name, "bias", view.parameter(2), fan_in) if view.has(2) else (),
        dtype=dtype_argument(weight),
    )


@TABLE.layer("Conv")
def conv(view: View) -> NnLayer:
    """Emit nn.Conv1d, Conv2d, Conv3d; the first pads both ends alike."""
    rank, weight, _, _, group = _sizes(view)
    mode, padding = _padding(view, rank)
    if rank == 1 and not isinstance(padding, int):
        raise Refused
    channels, fan_in = (weight[1] * group, weight[0]), (weight[1], math.prod(weight[2:]))
    constructor = _constructor(
        view, f"Conv{rank}d", channels, fan_in, pad_mode=pad_mode(mode), padding=padding
    )
    return NnLayer(constructor, _state(view, rank))


@TABLE.call("Conv")
def functional_conv(view: View) -> Expression:
    """Emit ops.conv1d, conv2d, conv3d, with the weight as an operand."""
    rank, operator = view.rank(1) - 2, view.operator
    if rank not in (1, 2, 3):
        raise Refused
    strides, dilations = operator.spatial("strides", rank), operator.spatial("dilations", rank)
    group = operator.int("group")
    mode, padding = _padding(view, rank)
    pads = operator.spatial("pads", rank)
    data: Part = view.use(0)
    if mode == "pad" and pads[:rank] == pads[rank:]:
        padding = same(pads[:rank])
    elif mode == "pad":  # which the function cannot do
        flat = [pads[at] for axis in reversed(range(rank)) for at in (axis, axis + rank)]
        data, mode, padding = call("ops.pad", data, tuple(flat)), "valid", 0
    return call(
        f"ops.conv{rank}d",
        data,
        view.use(1),
        *([view.use(2)] if view.has(2) else []),
        stride=same(strides) if set(strides) != {1} else None,
        pad_mode=mode,
        padding=padding if padding != 0 else None,
        dilation=same(dilations) if set(dilations) != {1} else None,
        groups=group if group != 1 else None,
    )


@TABLE.layer("ConvTranspose")
def conv_transpose(view: View) -> NnLayer:
    """Emit nn.Conv2dTranspose and its 1-d and 3-d forms.

    Where a stride is wider than the kernel, "valid" adds places behind the last that no element reaches. With
    padding, output_padding of nn.Conv2dTranspose gives wrong numbers; the padding at the end is reduced by it
    instead.
    """
    rank, weight, strides, dilations, group = _sizes(view)
    if view.operator.str("auto_pad") != "NOTSET" or view.operator.ints("output_shape"):
        raise Refused
    if rank == 3 and dilations[0] != 1:
        raise Refused
    pads = view.operator.spatial("pads", rank)
    more = view.operator.spatial("output_padding", rank)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, weight[2:], strict=True)]
    is_short = any(r < s for r, s in zip(reach, strides, strict=True))
    extra: dict[str, object] = {"pad_mode": Always("pad") if is_short else pad_mode("pad")}
    if rank == 2:
        ends = [p - o for p, o in zip(pads[rank:], more, strict=True)]
        if min(ends) < 0:
            raise Refused
        extra["padding"] = pairs([*pads[:rank], *ends])
    else:
        if any(more) and (rank == 1 or not any(pads)):
            raise Refused
        extra["padding"] = pairs(pads)
        extra |= {"output_padding": same(more)} if rank == 3 else {}
    channels, fan_in = (weight[0], weight[1] * group), (weight[1], math.prod(weight[2:]))
    constructor = _constructor(view, f"Conv{rank}dTranspose", channels, fan_in, **extra)
    return NnLayer(constructor, _state(view, rank))
