"""Operands that say how an operator computes, as emitters write them: numbers, or tensors made to such."""

from __future__ import annotations

from ..emitting import Expression, Literal, Refused, View, first_element
from ..expressions import ATOM, Element, Helper, Part, call


def numbers(view: View, slot: int, hint: str = "axes") -> Part:
    """Return the numbers in a slot: a literal tuple, sizes as they are, ``numbers(axes)`` of a tensor."""
    found = view.constant(slot)
    if found is not None:
        return Literal(tuple(int(n) for n in found.reshape(-1)), hint)
    if view.host(slot) == "tuple":
        return view.use(slot)
    if view.type(slot).rank != 1:
        raise Refused
    return call(Helper("numbers"), view.tensor(slot))


def number(view: View, slot: int, hint: str = "axis") -> Part:
    """Return the one number in a slot: a literal, a size as it is, ``int(axis)`` of a tensor."""
    found = view.constant(slot)
    if found is not None:
        return Literal(int(found.reshape(-1)[0]), hint)
    if view.host(slot) == "tuple":
        return Expression((Element(view.use(slot, ATOM), 0),))
    return view.use(slot) if view.host(slot) else call("int", view.tensor(slot))


def number_or(view: View, slot: int, default: float, function: str) -> Part:
    """Return the number in a slot, or the default of an absent one; ``float(x)`` of what a run gives."""
    known = view.constant(slot) if view.has(slot) else None
    if not view.has(slot) or known is not None:
        found = default if known is None else first_element(known)
        return Literal(bool(found) if function == "bool" else found, function)
    return call(function, view.tensor(slot))


def count_of(view: View, slot: int) -> int | None:
    """Return how many numbers are in a slot; None where only a run says so."""
    shape = view.type(slot).shape
    count = shape[0] if shape is not None and len(shape) == 1 else None
    return count if isinstance(count, int) else None
