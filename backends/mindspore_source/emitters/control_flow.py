"""Control flow: `if` and `while` are written by the class around them, from the regions of their operator."""

from __future__ import annotations

from ..emitting import EmitterTable, Expression, Refused, View
from ..lowering.lower_control_flow import regions

TABLE = EmitterTable()


@TABLE.call("If", "Loop")
def flattened(view: View) -> Expression:
    """What was flattened is written by its class; what was not cannot be."""
    if not regions(view.graph, view.operator):
        raise Refused
    return Expression(("",), outputs=len(view.operator.types))
