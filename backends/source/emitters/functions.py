"""Elementwise functions that frameworks have under one name: ``torch.exp(x)``, ``ops.exp(x)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..emitting import EmitterTable, View
from ..expressions import Expression, Part, call

OF_ONE = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "round",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
}

OF_TWO = {
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}


def add_functions(
    table: EmitterTable,
    module: str,
    functions: Mapping[str, str],
    *,
    count: int = 1,
    operand: Callable[[View, int], Part] = View.tensor,
) -> None:
    """Register operators that are functions of a module.

    Args:
        table: the emitters.
        module: the module: ``torch``.
        functions: operator -> function.
        count: the number of their operands.
        operand: how they are given one.
    """

    def register(op_type: str, function: str) -> None:
        table.call(op_type)(
            lambda view: call(f"{module}.{function}", *(operand(view, slot) for slot in range(count)))
        )

    for op_type, function in functions.items():
        register(op_type, function)


def nest(function: str, operands: Sequence[Part]) -> Expression:
    """Return a function of two, nested for more: ``f(f(a, b), c)``."""
    found, *others = operands
    for part in others:
        found = call(function, found, part)
    return found if isinstance(found, Expression) else Expression((found,))
