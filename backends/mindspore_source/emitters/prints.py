"""Prints, dumps and summaries, at their places in the source."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...source.emitting import Argument, Call, EmitterTable, Expression, Literal, Refused, View
from ...source.expressions import KEPT, Part, Quoted, Tuple

TABLE = EmitterTable()


@TABLE.call("regraft.Print")
def print_value(view: View) -> Expression:
    """Emit the value to pass on, and the call that prints; the step becomes a separate statement."""
    slots = iter(range(1, len(view.operands)))
    parts = json.loads(view.operator.str("parts"))
    kind = view.operator.str("kind")
    callee: Part = "print" if kind == "Print" else view.scope.attribute(kind.lower(), Call(f"ops.{kind}", ()))
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
