"""Prints, dumps and summaries, at their places in the source."""

from __future__ import annotations

from ...source.emitters.prints import printing
from ...source.emitting import Call, EmitterTable, Expression, View
from ...source.expressions import Part

TABLE = EmitterTable()


@TABLE.call("regraft.Print")
def print_value(view: View) -> Expression:
    """Emit the value to pass on, and the call that prints."""
    kind = view.operator.str("kind")
    callee: Part = "print" if kind == "Print" else view.scope.attribute(kind.lower(), Call(f"ops.{kind}", ()))
    return printing(view, callee)
