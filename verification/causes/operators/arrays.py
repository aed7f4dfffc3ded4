"""Parts, orders, shapes and products of tensors as calls of PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .reading import BEFORE, Call, Reading, Row, parameter, sizes_of


def _topk(r: Reading) -> Call | None:
    count = r.numbers(1)
    if not count:
        return None
    given = {"dim": r.operator.int("axis"), "largest": r.flag("largest"), "sorted": r.flag("sorted")}
    return Call("torch.topk", (r[0], count[0]), given)


def _concat(r: Reading) -> Call:
    return Call("torch.cat", (list(r.operands),), {"dim": r.operator.int("axis")})


def _split(r: Reading) -> Call | None:
    axis = r.operator.int("axis")
    parts = [sizes_of(t.shape, r.sizes) for t in r.operator.types if t is not None and t.shape is not None]
    sizes = [shape[axis] for shape in parts if shape is not None]
    if len(sizes) != len(r.operator.types):
        return None
    return Call("torch.split", (r[0], sizes[0] if len(set(sizes)) == 1 else sizes), {"dim": axis})


_FARTHEST = 2**31 - 1


def _slice(r: Reading) -> Call | None:
    starts, ends, shape = r.numbers(1), r.numbers(2), r.shape(0)
    if starts is None or ends is None or shape is None:
        return None
    axes = r.numbers(3) or list(range(len(starts)))
    steps = r.numbers(4) or [1] * len(starts)
    if min(steps) < 1:
        axes = [a % len(shape) for a, s in zip(axes, steps, strict=True) if s == -1]
        return Call("torch.flip", (r[0], tuple(axes))) if len(axes) == len(steps) else None
    index: list[Any] = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if end >= min(_FARTHEST, shape[axis]) else end
        index[axis] = slice(start or None, stop, None if step == 1 else step)
    while len(index) > 1 and index[-1] == slice(None):
        index.pop()
    return Call("[]", (r[0], tuple(index) if len(index) > 1 else index[0]))


def _gather(r: Reading) -> Call | None:
    place, axis, shape = r.constant(1), r.operator.int("axis"), r.shape(0)
    if shape is None:
        return None
    if place is not None and not place.shape:
        index = (*[slice(None)] * (axis % len(shape)), int(place))
        return Call("[]", (r[0], index if len(index) > 1 else index[0]))
    if len(r.shape(1) or ()) == 1:
        return Call("torch.index_select", (r[0], axis, r[1]))
    return Call("F.embedding", (r[1], r[0])) if not axis and len(shape) == 2 else None


def _reshape(r: Reading) -> Call | None:
    before, after = r.shape(0), r.results()
    if before is None or after is None:
        return None
    return Call(".reshape", (r[0], *after))


def _flatten(r: Reading) -> Call | None:
    axis = r.operator.int("axis")
    return Call("torch.flatten", (r[0],), {"start_dim": axis}) if axis == 1 else _reshape(r)


def _squeeze(name: str) -> Row:
    def row(r: Reading) -> Call | None:
        axes = r.numbers(1)
        return Call(name, (r[0], axes[0])) if axes is not None and len(axes) == 1 else _reshape(r)

    return row


def _expand(r: Reading) -> Call | None:
    after = r.results()
    return None if after is None else Call(".expand", (r[0], *after))


def _tile(r: Reading) -> Call | None:
    counts = r.numbers(1)
    return None if counts is None else Call(".repeat", (r[0], *counts))


def _gemm(r: Reading) -> Call | None:
    o = r.operator
    if o.int("transA") or o.float("alpha") != 1 or (r[2] is not None and o.float("beta") != 1):
        return None
    weight = r.constant(1)
    if o.int("transB"):
        turned = r[1]
    elif weight is None:
        weight = parameter(r, 1)
        turned = None if weight is None else r.tensor(np.ascontiguousarray(weight.T))
    else:
        turned = r.tensor(np.ascontiguousarray(weight.T))
    return None if turned is None else Call("F.linear", (r[0], turned, r[2]))


def _cumulative(r: Reading) -> Sequence[Call] | None:
    number = r.number(1)
    if number is None or (r.flag("exclusive") and r.flag("reverse")):
        return None
    axis = int(number)
    if r.flag("reverse"):
        turned = [Call("torch.flip", (item, (axis,))) for item in (r[0], BEFORE)]
        return [turned[0], Call("torch.cumsum", (BEFORE,), {"dim": axis}), turned[1]]
    total = Call("torch.cumsum", (r[0],), {"dim": axis})
    return [total, Call("-", (BEFORE, r[0]))] if r.flag("exclusive") else [total]


def _attention(r: Reading) -> Call:
    scale = r.operator.attribute("scale")
    given = {"attn_mask": r[3], "is_causal": r.flag("is_causal"), "scale": scale}
    given = {name: value for name, value in given.items() if value is not None and value is not False}
    return Call("F.scaled_dot_product_attention", (r[0], r[1], r[2]), given)


def _depth(r: Reading) -> Sequence[Call] | None:
    block, shape = r.operator.int("blocksize"), r.shape(0)
    if r.operator.str("mode") == "CRD":
        return [Call("F.pixel_shuffle", (r[0], block))]
    if shape is None:
        return None
    n, c, h, w = shape
    return [
        Call(".reshape", (r[0], n, block, block, c // block**2, h, w)),
        Call(".permute", (BEFORE, 0, 3, 4, 1, 5, 2)),
        Call(".reshape", (BEFORE, n, c // block**2, h * block, w * block)),
    ]


def _trilu(r: Reading) -> Call | None:
    diagonal = 0 if r[1] is None else r.number(1)
    if diagonal is None:
        return None
    return Call("torch.triu" if r.flag("upper") else "torch.tril", (r[0], int(diagonal)))


ARRAYS: dict[str, Row] = {
    "MatMul": lambda r: Call("@", (r[0], r[1])),
    "Where": lambda r: Call("torch.where", (r[0], r[1], r[2])),
    "TopK": _topk,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Transpose": lambda r: Call(".permute", (r[0], *r.operator.ints("perm"))),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze(".squeeze"),
    "Unsqueeze": _squeeze(".unsqueeze"),
    "Expand": _expand,
    "Tile": _tile,
    "Gemm": _gemm,
    "regraft.Linear": lambda r: Call("F.linear", (r[0], r[1], r[2])),
    "CumSum": _cumulative,
    "Trilu": _trilu,
    "DepthToSpace": _depth,
    "regraft.ScaledDotProductAttention": _attention,
}
