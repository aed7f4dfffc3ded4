"""Prints, at their places in the source."""

from __future__ import annotations

from ...source.emitters.prints import printing
from ...source.emitting import EmitterTable, Expression, Refused, View

TABLE = EmitterTable()


@TABLE.call("regraft.Print")
def print_value(view: View) -> Expression:
    """Emit the value to pass on, and the call that prints; torch has no dumps and summaries."""
    if view.operator.str("kind") != "Print":
        raise Refused
    return printing(view, "print")
