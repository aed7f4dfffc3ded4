"""Writes the operators of `regraft.source`, in every dialect."""

from __future__ import annotations

from ..emitting import EmitterTable, Expression, Refused, View
from ..operators import ENTRY, IF, SIZE_TENSOR, WHILE

TABLE = EmitterTable()


@TABLE.call(IF, WHILE, ENTRY)
def regional(view: View) -> Expression:
    """Emit nothing: the class around writes the step, and an Entry is no step."""
    return Expression(("",), outputs=len(view.operator.types))


@TABLE.call(SIZE_TENSOR)
def size_tensor(view: View) -> Expression:
    """Emit a tensor of sizes; what is a tensor already, as it is."""
    host, make = view.host(0), view.scope.dialect.size_tensor
    if not host:
        return Expression((view.use(0),))
    if make is None:
        raise Refused
    return Expression((make(view.use(0), host, view.type(0).dtype, False),))
