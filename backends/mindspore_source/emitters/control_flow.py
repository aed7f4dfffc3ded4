"""Control flow: `if` and `while` are written by the class around them, from the regions of their operator."""

from __future__ import annotations

from ..emitting import EmitterTable, Expression, View

TABLE = EmitterTable()


@TABLE.call("regraft.mindspore.If", "regraft.mindspore.While", "regraft.mindspore.Entry")
def regional(view: View) -> Expression:
    """Nothing: the class writes the step, and an Entry is none."""
    return Expression(("",), outputs=len(view.operator.types))
