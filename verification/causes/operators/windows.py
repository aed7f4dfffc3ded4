"""Convolutions, pools, normalisations, resizing and padding as calls of PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .reading import BEFORE, Call, Reading, Row, one


def _spatial(r: Reading, rank: int) -> tuple[Any, Any, Any, Any]:
    """Kernel, stride, dilation of a window, and its padding with all begins before all ends."""
    o = r.operator
    kernel = o.ints("kernel_shape") or list((r.shape(1) or ())[2:])
    names = ("strides", "dilations", "pads")
    known = {n: o.spatial(n, rank) if n in o.signature.attributes else [1] * rank for n in names}
    return one(kernel), one(known["strides"]), one(known["dilations"]), known["pads"]


def _has_own_padding(r: Reading) -> bool:
    """Whether an operator's padding follows from the size of what enters it."""
    kind = r.operator.attribute("auto_pad") if "auto_pad" in r.operator.signature.attributes else None
    return kind not in (None, "NOTSET", "VALID")


def _padded(pads: Sequence[int]) -> tuple[int, ...]:
    """Padding in PyTorch's order: begin and end of each axis, the last axis first."""
    half = len(pads) // 2
    return tuple(n for axis in reversed(range(half)) for n in (pads[axis], pads[half + axis]))


def _convolution(r: Reading) -> Sequence[Call] | None:
    rank = len(r.shape(1) or ()) - 2
    if rank not in (1, 2, 3) or _has_own_padding(r):
        return None
    _, stride, dilation, pads = _spatial(r, rank)
    begin, end = pads[:rank], pads[rank:]
    given = {"stride": stride, "padding": one(begin), "dilation": dilation}
    given["groups"] = r.operator.int("group")
    operands = (r[1], r[2])
    if begin == end:
        return [Call(f"F.conv{rank}d", (r[0], *operands), given)]
    given["padding"] = 0
    return [Call("F.pad", (r[0], _padded(pads))), Call(f"F.conv{rank}d", (BEFORE, *operands), given)]


def _transposed_convolution(r: Reading) -> Call | None:
    rank = len(r.shape(1) or ()) - 2
    if rank not in (1, 2, 3) or _has_own_padding(r) or r.operator.ints("output_shape"):
        return None
    _, stride, dilation, pads = _spatial(r, rank)
    begin, end = pads[:rank], pads[rank:]
    added = r.operator.spatial("output_padding", rank)
    added = [a + b - e for a, b, e in zip(added, begin, end, strict=True)]
    if min(added) < 0:
        return None
    given = {"stride": stride, "padding": one(begin), "output_padding": one(added)}
    given |= {"groups": r.operator.int("group"), "dilation": dilation}
    return Call(f"F.conv_transpose{rank}d", (r[0], r[1], r[2]), given)


def _pool(kind: str) -> Row:
    def row(r: Reading) -> Sequence[Call] | None:
        rank = len(r.shape(0) or ()) - 2
        if rank not in (1, 2, 3) or _has_own_padding(r) or len(r.operator.types) > 1:
            return None
        o = r.operator
        kernel, stride, dilation, pads = _spatial(r, rank)
        begin, end = pads[:rank], pads[rank:]
        is_full = o.op_type == "FullPool"
        given = {"kernel_size": kernel, "stride": stride, "padding": one(begin)}
        chosen = o.str("mode") if is_full else kind
        if chosen == "max":
            given["dilation"] = dilation
        given["ceil_mode"] = is_full or r.flag("ceil_mode")
        if chosen == "avg":
            given["count_include_pad"] = r.flag("count_include_pad")
        name = f"F.{'max' if chosen == 'max' else 'avg'}_pool{rank}d"
        if begin == end:
            return [Call(name, (r[0],), given)]
        if chosen == "max" or given["count_include_pad"]:
            value = float("-inf") if chosen == "max" else 0.0
            given["padding"] = 0
            return [
                Call("F.pad", (r[0], _padded(pads)), {"value": value}),
                Call(name, (BEFORE,), given),
            ]
        return None

    return row


def _adaptive(kind: str) -> Row:
    def row(r: Reading) -> Call | None:
        rank = len(r.shape(0) or ()) - 2
        if rank not in (1, 2, 3):
            return None
        size = r.operator.ints("output_size") if "output_size" in r.operator.signature.attributes else [1]
        return Call(f"F.adaptive_{kind}_pool{rank}d", (r[0], one(size)))

    return row


def _batch_norm(r: Reading) -> Call | None:
    if r.operator.attribute("training_mode"):
        return None
    given = {"weight": r[1], "bias": r[2], "training": False, "eps": r.float("epsilon")}
    return Call("F.batch_norm", (r[0], r[3], r[4]), given)


def _layer_norm(r: Reading) -> Call | None:
    shape = r.shape(0)
    if shape is None:
        return None
    axis = r.operator.int("axis") % len(shape)
    return Call("F.layer_norm", (r[0], shape[axis:], r[1], r[2]), {"eps": r.float("epsilon")})


def _instance_norm(r: Reading) -> Call:
    return Call("F.instance_norm", (r[0],), {"weight": r[1], "bias": r[2], "eps": r.float("epsilon")})


def _group_norm(r: Reading) -> Call:
    groups = r.operator.int("num_groups")
    return Call("F.group_norm", (r[0], groups, r[1], r[2]), {"eps": r.float("epsilon")})


def _responses(r: Reading) -> Call:
    given = {"size": r.operator.int("size"), "alpha": r.float("alpha"), "beta": r.float("beta")}
    return Call("F.local_response_norm", (r[0],), {**given, "k": r.float("bias")})


_MODES = {
    "nearest": ("nearest",) * 3,
    "linear": ("linear", "bilinear", "trilinear"),
    "cubic": ("", "bicubic", ""),
}


def _resize(r: Reading) -> Call | None:
    before, after, o = r.shape(0), r.results(), r.operator
    rank = len(before or ()) - 2
    if before is None or after is None or rank not in (1, 2, 3) or before[:2] != after[:2]:
        return None
    kind, how = o.str("mode"), o.str("coordinate_transformation_mode")
    mode = _MODES[kind][rank - 1]
    given: dict[str, Any] = {"size": one(after[2:]) if rank == 1 else after[2:], "mode": mode}
    if kind == "nearest" and how == "half_pixel":
        given["mode"] = "nearest-exact"
    elif kind != "nearest":
        given["align_corners"] = how == "align_corners"
    return Call("F.interpolate", (r[0],), given) if mode else None


def _pad(r: Reading) -> Call | None:
    pads, shape = r.numbers(1), r.shape(0)
    axes = r.numbers(3)
    if pads is None or shape is None or (r[3] is not None and axes is None):
        return None
    if axes is not None:
        at = [a % len(shape) for a in axes]
        full = [0] * (2 * len(shape))
        for place, axis in enumerate(at):
            full[axis], full[len(shape) + axis] = pads[place], pads[len(at) + place]
        pads = full
    kind = {"edge": "replicate", "wrap": "circular"}.get(r.operator.str("mode"), r.operator.str("mode"))
    sizes = list(_padded(pads))
    least = 0 if kind == "constant" else 2 * max(len(shape) - 2, 1)
    while len(sizes) > max(least, 2) and sizes[-2:] == [0, 0]:
        del sizes[-2:]
    given: dict[str, Any] = {"mode": kind}
    value = r.number(2)
    if kind == "constant" and r[2] is not None and value:
        given["value"] = value
    return Call("F.pad", (r[0], tuple(sizes)), given)


def _grid_sample(r: Reading) -> Call | None:
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(r.operator.str("mode"), r.operator.str("mode"))
    given = {"mode": kind, "padding_mode": r.operator.str("padding_mode")}
    return Call("F.grid_sample", (r[0], r[1]), {**given, "align_corners": r.flag("align_corners")})


WINDOWS: dict[str, Row] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "MaxPool": _pool("max"),
    "AveragePool": _pool("avg"),
    "regraft.FullPool": _pool("full"),
    "GlobalAveragePool": _adaptive("avg"),
    "GlobalMaxPool": _adaptive("max"),
    "regraft.AdaptiveAveragePool": _adaptive("avg"),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LRN": _responses,
    "Resize": _resize,
    "Pad": _pad,
    "GridSample": _grid_sample,
}
