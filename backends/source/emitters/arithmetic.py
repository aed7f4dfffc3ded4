"""Arithmetic as Python writes it, of tensors and of sizes, which stay Python numbers."""

from __future__ import annotations

from dataclasses import replace

from ..emitting import EmitterTable, Expression, Literal, Refused, View
from ..expressions import (
    ADD,
    ATOM,
    COMPARE,
    MULTIPLY,
    POWER,
    UNARY,
    Brackets,
    Element,
    Part,
    Tuple,
    call,
    infix,
)

TABLE = EmitterTable()

_INFIX = {  # operator, level
    "Add": ("+", ADD),
    "Sub": ("-", ADD),
    "Mul": ("*", MULTIPLY),
    "Equal": ("==", COMPARE),
    "Greater": (">", COMPARE),
    "Less": ("<", COMPARE),
    "GreaterOrEqual": (">=", COMPARE),
    "LessOrEqual": ("<=", COMPARE),
}


@TABLE.call(*_INFIX)
def infix_operator(view: View) -> Expression:
    """Emit ``x + y``."""
    symbol, level = _INFIX[view.operator.op_type]
    right = level + 1
    if is_of_tuples(view):
        return of_tuples(view, symbol, level)
    found = infix(view.use(0, level if level > COMPARE else right), symbol, view.use(1, right), level)
    return replace(found, host=host_of_result(view))


def is_of_tuples(view: View) -> bool:
    """Whether the operands are shapes of one length, or one such and a constant."""
    kinds = {view.host(0), view.host(1)}
    return "tuple" in kinds and all(
        view.host(s) == "tuple" or ((c := view.constant(s)) is not None and c.size == 1) for s in (0, 1)
    )


def of_tuples(view: View, symbol: str, level: int) -> Expression:
    """Return arithmetic on shapes, element by element: ``(x.shape[0] * 2,)``."""

    def size(slot: int) -> Part:
        constant = view.constant(slot)
        if constant is not None:
            return Literal(int(constant.reshape(-1)[0]), "size")
        return Element(view.use(slot, ATOM), 0)

    less = view.constant(1) if symbol == "+" else None
    if less is not None and int(less.reshape(-1)[0]) < 0:
        found = infix(size(0), "-", Literal(-int(less.reshape(-1)[0]), "size"), level)
    else:
        found = infix(size(0), symbol, size(1), level)
    return Expression((Tuple((found,)),), host="tuple")


def host_of_result(view: View) -> str:
    """Return "int" where two sizes, or a size and a number, are computed with; empty for tensors.

    Raises:
        Refused: for shapes of several numbers.
    """
    kinds = {view.host(0), view.host(1)} - {""}
    if "tuple" in kinds:
        raise Refused
    numbers = [(c := view.constant(s)) is not None and c.size == 1 and c.ndim <= 1 for s in (0, 1)]
    return "int" if kinds and (view.host(0) == view.host(1) or any(numbers)) else ""


def quotient_of_sizes(view: View) -> Expression | None:
    """Return ``n // 2`` for sizes; None for tensors."""
    if is_of_tuples(view):
        return of_tuples(view, "//", MULTIPLY)
    host = host_of_result(view)
    return (
        replace(infix(view.use(0, MULTIPLY), "//", view.use(1, UNARY), MULTIPLY), host=host) if host else None
    )


def remainder(view: View) -> Expression:
    """Return ``x % y``, of tensors or sizes."""
    if is_of_tuples(view):
        return of_tuples(view, "%", MULTIPLY)
    return replace(infix(view.use(0, MULTIPLY), "%", view.use(1, UNARY), MULTIPLY), host=host_of_result(view))


@TABLE.call("Neg")
def negative(view: View) -> Expression:
    """Emit ``-x``."""
    return Expression(("-", view.use(0, POWER)), UNARY, view.host(0))


def extreme_of_sizes(view: View, function: str) -> Expression:
    """Return ``min`` or ``max`` of sizes, as Python numbers."""

    def size(slot: int) -> Part:
        constant = view.constant(slot)
        if constant is not None:
            return Literal(int(constant.reshape(-1)[0]), "size")
        if view.host(slot) == "tuple":
            return Element(view.use(slot, ATOM), 0)
        return view.use(slot)

    found = call(function, size(0), size(1))
    if is_of_tuples(view):
        return Expression((Tuple((found,)),), host="tuple")
    return Expression(found.parts, host=host_of_result(view))


@TABLE.call("Sum")
def add_all(view: View) -> Expression:
    """Emit ``a + b + c``."""
    found = Expression((view.use(0, ADD),), ADD)
    for slot in range(1, len(view.operands)):
        found = infix(found, "+", view.use(slot, MULTIPLY), ADD)
    return found


@TABLE.call("Mean")
def mean(view: View) -> Expression:
    """Emit ``(a + b + c) / 3``."""
    count = len(view.operands)
    if count == 1:
        return Expression((view.use(0),))
    return infix(Brackets(add_all(view)), "/", Literal(count, "count"), MULTIPLY)
