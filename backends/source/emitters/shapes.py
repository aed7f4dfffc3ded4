"""Shapes of tensors, as tuples of Python numbers."""

from __future__ import annotations

from ..emitting import EmitterTable, Expression, Literal, Refused, View
from ..expressions import ATOM, Attribute, Part, Slice, Tuple

TABLE = EmitterTable()


@TABLE.call("Shape")
def shape(view: View) -> Expression:
    """Emit ``x.shape``."""
    start, end = view.operator.int("start"), view.operator.attribute("end")
    whole = Attribute(view.atom(), "shape")
    if not start and end is None:
        return Expression((whole,), host="tuple")
    stop = None if end is None else view.operator.int("end")
    return Expression((Slice(whole, start or None, stop),), host="tuple")


def join_sizes(view: View) -> Expression | None:
    """Return ``(n, *x.shape[1:])`` for a concatenation of sizes; None for one of tensors.

    Raises:
        Refused: where tensors are among the sizes.
    """
    count = len(view.operands)
    if any(view.host(s) for s in range(count)):
        sizes: list[Part] = []
        for slot in range(count):
            constant = view.constant(slot)
            if constant is not None:
                sizes += [Literal(int(size), "size") for size in constant.reshape(-1)]
            elif view.host(slot) == "tuple":
                sizes.append(Expression(("*", view.use(slot, ATOM))))
            else:
                raise Refused
        return Expression((Tuple(tuple(sizes)),), host="tuple")
    return None
