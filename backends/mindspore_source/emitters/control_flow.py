"""Control flow: `cells/construct_steps.py` writes `if` and `while`, from the regions of their operator."""

from __future__ import annotations

from ...source.emitting import EmitterTable, Expression, View

TABLE = EmitterTable()


@TABLE.call("regraft.mindspore.If", "regraft.mindspore.While", "regraft.mindspore.Entry")
def regional(view: View) -> Expression:
    """Emit nothing: the class around writes the step, and an Entry is no step."""
    return Expression(("",), outputs=len(view.operator.types))
