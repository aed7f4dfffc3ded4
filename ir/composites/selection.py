"""Elements by their rank, places in sorted sequences, and candidates that better ones do not hide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dims import broadcast, differ
from ..errors import BackendError
from ..graph import Graph
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable
from .matrices import without
from .terms import Term, axis_of, terms_of, where

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer_ranked(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x = types[0]
    if x is None or x.shape is None:
        return [x, TensorType("int64", None)]
    axis, kept = axis_of(operator, x), (1,) if operator.int("keepdims") else ()
    shape = (*x.shape[:axis], *kept, *x.shape[axis + 1 :])
    return [x.with_shape(shape), TensorType("int64", shape)]


def _ranked_axis(operator: Operator, x: Term) -> int:
    known = x.b.type_of(x.value)
    if known.shape is None:
        raise BackendError("E602", f"expected a tensor of known rank, got {known}")
    return axis_of(operator, known)


def _smallest(x: Term, axis: int, count: Value) -> list[Term]:
    """(values, places) of so many of the smallest along an axis, in order."""
    found = x.b.ops("TopK", x.value, count, outputs=2, axis=axis, largest=0)
    return [Term(x.b, value) for value in found]


def _kth(x: Term, axis: int, k: int, *, keep: bool) -> list[Term]:
    """(the k-th smallest, its place), from 1."""
    b, at = x.b, x.b.constant([k - 1] if keep else k - 1)
    found = _smallest(x, axis, b.constant([k]))
    return [Term(b, b.op("Gather", v.value, at, axis=axis)) for v in found]


def _expand_kth(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (x,) = terms_of(b, operands)
    axis, keep = _ranked_axis(operator, x), bool(operator.int("keepdims"))
    return [v.value for v in _kth(x, axis, operator.int("k"), keep=keep)]


def _middle(x: Term, axis: int, *, keep: bool) -> list[Term]:
    """(the middle element, its place); by arithmetic on the length where that is symbolic."""
    b, length = x.b, (x.b.type_of(x.value).shape or ())[axis]
    if isinstance(length, int):
        return _kth(x, axis, (length + 1) // 2, keep=keep)
    count = Term(b, b.op("Shape", x.value, start=axis, end=axis + 1))
    at, found = (count - 1) / 2, _smallest(x, axis, count.value)
    found = [Term(b, b.op("Gather", v.value, at.value, axis=axis)) for v in found]
    return found if keep else [without(v, axis) for v in found]


def _expand_median(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (x,) = terms_of(b, operands)
    axis, keep = _ranked_axis(operator, x), bool(operator.int("keepdims"))
    if not x.dtype.startswith(("float", "bfloat")):
        return [v.value for v in _middle(x, axis, keep=keep)]
    undefined = x.op("IsNaN")
    if operator.int("ignore_nan"):
        found = _median_of_numbers(x, undefined, axis)
        return [(v if keep else without(v, axis)).value for v in found]
    values, at = _middle(x, axis, keep=keep)
    marks = undefined.cast("int32")
    is_there = Term(b, b.op("ReduceMax", marks.value, b.constant([axis]), keepdims=int(keep))).cast("bool")
    first = marks.op("ArgMax", axis=axis, keepdims=int(keep))
    return [where(is_there, math.nan, values).value, where(is_there, first, at).value]


def _median_of_numbers(x: Term, undefined: Term, axis: int) -> list[Term]:
    """(the middle of what is no NaN, its place), the axis kept; NaN where nothing is."""
    b = x.b
    length = b.op("Shape", x.value, start=axis, end=axis + 1)
    values, places = _smallest(where(undefined, math.inf, x), axis, length)
    numbers = (~undefined).cast("int64")
    count = Term(b, b.op("ReduceSum", numbers.value, b.constant([axis]), keepdims=1))
    at = ((count - 1) / 2).clip(low=0)
    value, place = (v.op("GatherElements", at, axis=axis) for v in (values, places))
    return [where(count.equals(0), math.nan, value), place]


_ALONG = [AttributeSpec("axis", "int", required=True), AttributeSpec("keepdims", "int", default=0)]
TABLE.add(
    "KthValue",
    inputs="X",
    outputs="values indices",
    attributes=[AttributeSpec("k", "int", required=True), *_ALONG],
    infer=_infer_ranked,
    expand=_expand_kth,
    summary="the k-th smallest element along an axis, from 1, and its place",
)
TABLE.add(
    "Median",
    inputs="X",
    outputs="values indices",
    attributes=[*_ALONG, AttributeSpec("ignore_nan", "int", default=0)],
    infer=_infer_ranked,
    expand=_expand_median,
    summary="the middle element along an axis, the lower of two, and its place; NaN where there is one",
)


def _infer_search(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    edges, values = types
    shape = None if values is None else values.shape
    if edges is not None and values is not None and edges.dtype != values.dtype:
        raise ValueError(f"expected operands of one element type, got {edges.dtype} and {values.dtype}")
    if edges is not None and edges.shape is not None and shape is not None and len(edges.shape) > 1:
        pairs = list(zip(edges.shape[:-1], shape[:-1], strict=False))
        if len(edges.shape) != len(shape) or any(differ(a, b) for a, b in pairs):
            raise ValueError(f"expected values of the leading axes of {edges}, got {values}")
        shape = (*broadcast(edges.shape[:-1], shape[:-1]), shape[-1])
    return [TensorType("int64", shape)]


def _expand_search(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Expand the search by comparing every value with all edges."""
    edges, values = terms_of(b, operands)
    rank = b.type_of(edges.value).rank
    assert rank is not None
    wide = Term(b, b.op("Unsqueeze", values.value, b.constant([-1])))
    narrow = edges if rank == 1 else Term(b, b.op("Unsqueeze", edges.value, b.constant([-2])))
    below = narrow <= wide if operator.int("right") else narrow < wide
    return [b.op("ReduceSum", below.cast("int64").value, b.constant([-1]), keepdims=0)]


TABLE.add(
    "SearchSorted",
    inputs="sequence values",
    attributes=[AttributeSpec("right", "int", default=0)],
    infer=_infer_search,
    expand=_expand_search,
    summary="how many of the sorted elements of the last axis are below each value, or with right not above",
)


# -- greedy suppression: every candidate, in order, hides later ones that are too much like it -------------


def _infer_left(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    alive, hides = types
    if alive is None or alive.shape is None or hides is None or hides.shape is None:
        return [alive]
    if {alive.dtype, hides.dtype} != {"bool"} or hides.rank != (alive.rank or 0) + 1:
        raise ValueError(f"expected truth values of N and of NxN candidates, got {alive} and {hides}")
    if differ(hides.shape[-2], hides.shape[-1]) or differ(hides.shape[-1], alive.shape[-1]):
        raise ValueError(f"expected as many candidates everywhere, got {alive} and {hides}")
    return [alive.with_shape((*broadcast(alive.shape[:-1], hides.shape[:-2]), alive.shape[-1]))]


def _left(kept: Term, alive: Term, hides: Term) -> Term:
    """Return the live ones that no kept one hides."""
    last = kept.b.constant([-2])
    rows = kept.cast("float32").op("Unsqueeze", Term(kept.b, last))
    hidden = rows.op("MatMul", hides.cast("float32")).op("Squeeze", Term(kept.b, last)) > 0.5
    return alive & ~hidden


def _expand_left(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Guess that all stay, and correct until nothing changes: after k turns the first k are right."""
    alive, hides = terms_of(b, operands)
    known = [b.type_of(alive.value), b.type_of(hides.value)]
    body = Graph("body", b.graph.modules)
    inner = type(b)(body, call=b.call, location=b.location)
    body.add_input("iteration", TensorType("int64", ()))
    body.add_input("running", TensorType("bool", ()))
    kept = Term(inner, body.add_input("kept", known[0]))
    new = _left(kept, *(Term(inner, body.add_capture(t)) for t in known))
    changed = new.op("Xor", kept).cast("int32").op("ReduceMax", keepdims=0).cast("bool")
    body.outputs += [("again", changed.value), ("left", new.value)]
    return b.ops(
        "Loop",
        None,
        b.constant(True, "bool"),
        alive.value,
        outputs=1,
        types=[known[0]],
        captures=[alive.value, hides.value],
        body=body,
    )


TABLE.add(
    "Suppressed",
    inputs="Alive Hides",
    infer=_infer_left,
    expand=_expand_left,
    summary="which of N candidates stay, where each that stays hides later ones: Hides[i, j] with i < j",
    traits=Traits(loops=True),
)
