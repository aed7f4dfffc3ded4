"""Shapes of tensors, as tuples of Python numbers."""

from __future__ import annotations

from collections.abc import Sequence

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


def spread_axes(own: Sequence[object], sizes: Sequence[int]) -> list[int]:
    """Return the sizes of an Expand for each axis of its result; -1 for an axis that stays."""
    lead = max(len(sizes) - len(own), 0)
    aligned = [*[1] * (len(own) - len(sizes)), *sizes]
    return [
        -1 if at >= lead and (size == 1 or own[at - lead] == size) else size
        for at, size in enumerate(aligned)
    ]
