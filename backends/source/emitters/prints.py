"""Prints at their places in the source."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..emitting import Argument, Call, Expression, Literal, Refused, View
from ..expressions import KEPT, Part, Quoted, Tuple


def printing(view: View, callee: Part) -> Expression:
    """Return the value to pass on, and a call with what is printed, which becomes a separate statement."""
    slots = iter(range(1, len(view.operands)))
    parts = json.loads(view.operator.str("parts"))
    arguments = tuple(Argument("", _part(view, item, slots)) for item in parts)
    return Expression((view.use(0, KEPT), Call(callee, arguments)))


def _part(view: View, item: object, slots: Iterator[int]) -> Part:
    if item is None:
        return view.use(next(slots))
    if isinstance(item, str):
        return Quoted(item)
    if isinstance(item, list):
        return Tuple(tuple(_part(view, inner, slots) for inner in item))
    if isinstance(item, (bool, int, float)):
        return Literal(item, "part")
    raise Refused
