"""Greedy suppression: every candidate, in order, hides later ones that are too much like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dims import broadcast, differ
from ..graph import Graph
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable
from .terms import Term, terms_of

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    alive, hides = types
    if alive is None or alive.shape is None or hides is None or hides.shape is None:
        return [alive]
    if {alive.dtype, hides.dtype} != {"bool"} or hides.rank != (alive.rank or 0) + 1:
        raise ValueError(f"expected truth values of N and of NxN candidates, got {alive} and {hides}")
    if differ(hides.shape[-2], hides.shape[-1]) or differ(hides.shape[-1], alive.shape[-1]):
        raise ValueError(f"expected as many candidates everywhere, got {alive} and {hides}")
    return [alive.with_shape((*broadcast(alive.shape[:-1], hides.shape[:-2]), alive.shape[-1]))]


def _left(kept: Term, alive: Term, hides: Term) -> Term:
    """Those alive that none of the kept ones hides."""
    last = kept.b.constant([-2])
    rows = kept.cast("float32").op("Unsqueeze", Term(kept.b, last))
    hidden = rows.op("MatMul", hides.cast("float32")).op("Squeeze", Term(kept.b, last)) > 0.5
    return alive & ~hidden


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
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
    infer=_infer,
    expand=_expand,
    summary="which of N candidates stay, where each that stays hides later ones: Hides[i, j] with i < j",
    traits=Traits(loops=True),
)
