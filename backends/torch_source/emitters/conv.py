"""Convolutions; padding that torch's layers do not have is a padding of its own before them."""

from __future__ import annotations

import math

from ...source.emitters.settings import count_of, numbers
from ...source.emitting import (
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
from ...source.expressions import Helper, call
from .initializers import construct, dtype_argument, laws_of_layer, without_bias

TABLE = EmitterTable()


def _sizes(view: View) -> tuple[int, tuple[int, ...], list[int], list[int], int]:
    """Return (spatial rank, weight shape, strides, dilations, group)."""
    weight = view.static_shape(1)
    rank = len(weight) - 2
    if rank not in (1, 2, 3):
        raise Refused
    operator = view.operator
    strides, dilations = operator.spatial("strides", rank), operator.spatial("dilations", rank)
    return rank, weight, strides, dilations, operator.int("group")


def _pads(
    view: View, rank: int, kernel: tuple[int, ...], strides: list[int], dilations: list[int]
) -> list[int]:
    """Return ONNX's [begins…, ends…]; those of a named mode, where they do not depend on the size.

    Raises:
        Refused: where they do.
    """
    mode = view.operator.str("auto_pad")
    if mode == "NOTSET":
        return view.operator.spatial("pads", rank)
    if mode == "VALID":
        return [0] * 2 * rank
    begins, ends = [], []
    for axis, size in enumerate(view.shape()[2:]):
        stride, reach = strides[axis], dilations[axis] * (kernel[axis] - 1) + 1
        if stride == 1:
            total = reach - 1
        elif isinstance(size, int):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        else:
            raise Refused
        half, more = total // 2, total - total // 2
        begins.append(more if mode == "SAME_LOWER" else half)
        ends.append(half if mode == "SAME_LOWER" else more)
    return begins + ends


def pad_before(view: View, pads: list[int], value: float | None = None) -> Part:
    """Return ``F.pad(x, …)`` for [begins…, ends…] of the spatial axes; the operand itself for none."""
    rank = len(pads) // 2
    flat = [pads[at] for axis in reversed(range(rank)) for at in (axis, axis + rank)]
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    return call("F.pad", view.use(0), tuple(flat), value=value) if any(flat) else view.use(0)


def _state(view: View) -> tuple[State, ...]:
    if not view.has(2):
        return (State(1, "weight"),)
    view.parameter(2)
    return State(1, "weight"), State(2, "bias")


def _constructor(view: View, name: str, channels: tuple[int, int], **padding: object) -> Call:
    """Return the constructor call of a convolution layer."""
    _, weight, strides, dilations, group = _sizes(view)
    parameter = view.parameter(1)
    bias = view.parameter(2) if view.has(2) else None
    fan_in = ("weight[0].numel()", math.prod(weight[1:]))
    return construct(
        name,
        in_channels=channels[0],
        out_channels=channels[1],
        kernel_shape=same(weight[2:]),
        strides=same(strides),
        **padding,
        dilations=same(dilations),
        group=group,
        bias=without_bias(view.has(2)),
        laws=laws_of_layer(view, name, {"weight": parameter, "bias": bias}, fan_in),
        dtype=dtype_argument(parameter),
    )


@TABLE.layer("Conv")
def conv(view: View) -> NnLayer:
    """Emit nn.Conv1d, Conv2d, Conv3d."""
    rank, weight, strides, dilations, group = _sizes(view)
    pads = _pads(view, rank, weight[2:], strides, dilations)
    if pads[:rank] != pads[rank:]:
        raise Refused
    channels = weight[1] * group, weight[0]
    constructor = _constructor(view, f"Conv{rank}d", channels, padding=same(pads[:rank]))
    return NnLayer(constructor, _state(view))


@TABLE.call("Conv")
def functional_conv(view: View) -> Expression:
    """Emit F.conv1d, conv2d, conv3d, with the weight as an operand; uneven padding goes before it."""
    rank = view.rank(1) - 2
    if rank not in (1, 2, 3):
        raise Refused
    operator = view.operator
    strides, dilations = operator.spatial("strides", rank), operator.spatial("dilations", rank)
    kernel = operator.ints("kernel_shape") or [d if isinstance(d, int) else 0 for d in view.shape(1)[2:]]
    if 0 in kernel:
        raise Refused
    pads = _pads(view, rank, tuple(kernel), strides, dilations)
    even = pads[:rank] == pads[rank:]
    group = operator.int("group")
    return call(
        f"F.conv{rank}d",
        view.use(0) if even else pad_before(view, pads),
        view.use(1),
        *([view.use(2)] if view.has(2) else []),
        stride=same(strides) if set(strides) != {1} else None,
        padding=same(pads[:rank]) if even and any(pads) else None,
        dilation=same(dilations) if set(dilations) != {1} else None,
        groups=group if group != 1 else None,
    )


def _transposed(view: View, rank: int) -> tuple[list[int], list[int]]:
    """Return padding of a transposed convolution in torch's terms, and how many elements its ends have more.

    Raises:
        Refused: where the ends have more than torch's output_padding says.
    """
    operator = view.operator
    more = operator.spatial("output_padding", rank)
    pads = _pads_of_transposed(view, rank, more)
    added = [o + b - e for o, b, e in zip(more, pads[:rank], pads[rank:], strict=True)]
    strides, dilations = operator.spatial("strides", rank), operator.spatial("dilations", rank)
    if any(a >= max(s, d) for a, s, d in zip(added, strides, dilations, strict=True)):
        raise Refused
    return pads[:rank], added


def _pads_of_transposed(view: View, rank: int, more: list[int]) -> list[int]:
    """Return ONNX's [begins…, ends…], also of a named mode, and for a size that is asked for."""
    operator, mode, wanted = view.operator, view.operator.str("auto_pad"), view.operator.ints("output_shape")
    if not wanted and mode in ("NOTSET", "VALID"):
        return operator.spatial("pads", rank) if mode == "NOTSET" else [0] * 2 * rank
    begins, ends = [], []
    strides, dilations = operator.spatial("strides", rank), operator.spatial("dilations", rank)
    kernel = operator.ints("kernel_shape") or list(view.static_shape(1)[2:])
    sizes = view.shape()[2:]
    for axis, size in enumerate(sizes):
        total = more[axis] + dilations[axis] * (kernel[axis] - 1) + 1 - strides[axis]
        if wanted and not isinstance(size, int):
            raise Refused
        if wanted and isinstance(size, int):
            total += strides[axis] * size - wanted[axis - rank]
        half, rest = (total // 2, total - total // 2) if total > 0 else (0, total)
        begins.append(rest if total > 0 and mode != "SAME_UPPER" else half)
        ends.append(half if total > 0 and mode != "SAME_UPPER" else rest)
    return begins + ends


@TABLE.layer("ConvTranspose")
def conv_transpose(view: View) -> NnLayer:
    """Emit nn.ConvTranspose1d, 2d, 3d; output_padding says what the ends are cropped less."""
    rank, weight, _, _, group = _sizes(view)
    padding, added = _transposed(view, rank)
    if min(added) < 0:
        raise Refused  # ends that are cropped by more than the beginnings
    channels = weight[0], weight[1] * group
    settings = {"padding": same(padding), "output_padding": same(added)}
    constructor = _constructor(view, f"ConvTranspose{rank}d", channels, **settings)
    return NnLayer(constructor, _state(view))


@TABLE.call("ConvTranspose")
def functional_conv_transpose(view: View) -> Expression:
    """Emit F.conv_transpose1d, 2d, 3d, with the weight as an operand."""
    rank = view.rank(1) - 2
    if rank not in (1, 2, 3):
        raise Refused
    padding, added = _transposed(view, rank)
    operator = view.operator
    strides, dilations = operator.spatial("strides", rank), operator.spatial("dilations", rank)
    group = operator.int("group")
    cropped = [n for end in reversed(added) for n in (0, min(end, 0))]
    added = [max(n, 0) for n in added]
    found = call(
        f"F.conv_transpose{rank}d",
        view.use(0),
        view.use(1),
        *([view.use(2)] if view.has(2) else []),
        stride=same(strides) if set(strides) != {1} else None,
        padding=same(padding) if any(padding) else None,
        output_padding=same(added) if any(added) else None,
        dilation=same(dilations) if set(dilations) != {1} else None,
        groups=group if group != 1 else None,
    )
    return call("F.pad", found, tuple(cropped)) if any(cropped) else found


@TABLE.call("Col2Im")
def columns_to_image(view: View) -> Expression:
    """Emit F.fold, a function of the file's own for images of other than two dimensions."""
    operator, rank = view.operator, count_of(view, 1)
    if rank is None:
        raise Refused
    size, window = numbers(view, 1, "size"), numbers(view, 2, "window")
    pads, strides, dilations = (tuple(operator.spatial(n, rank)) for n in ("pads", "strides", "dilations"))
    if rank == 2 and pads[:2] == pads[2:]:
        return call("F.fold", view.use(0), size, window, dilation=dilations, padding=pads[:2], stride=strides)
    return call(Helper("folded"), view.tensor(0), size, window, pads, strides, dilations)
