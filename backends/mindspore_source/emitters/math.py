"""Elementwise arithmetic: Python operators where there is one, `ops` functions otherwise."""

from __future__ import annotations

import numpy as np

from ...source.emitters.arithmetic import extreme_of_sizes, is_of_tuples, quotient_of_sizes, remainder
from ...source.emitters.functions import OF_ONE, OF_TWO, add_functions, nest
from ...source.emitting import EmitterTable, Expression, Literal, Refused, View
from ...source.expressions import (
    ADD,
    ATOM,
    COMPARE,
    MULTIPLY,
    POWER,
    UNARY,
    Brackets,
    Element,
    Helper,
    Part,
    call,
    infix,
    method,
)
from .initializers import ms_dtype

TABLE = EmitterTable()

add_functions(TABLE, "ops", OF_ONE)
add_functions(TABLE, "ops", OF_TWO, count=2, operand=View.use)

_WIDER = {"uint16": "int32", "uint32": "int64"}
"""Element types that `%` does not have -> those in which it is exact."""

_REMAINDERS = "float16", "float32", "float64"
"""Element types of which MindSpore's remainders are NaN for infinite divisors."""


@TABLE.call("Div")
def divide(view: View) -> Expression:
    """Emit ``x / y``; integers truncate, as ONNX has it."""
    sizes = quotient_of_sizes(view)
    if sizes is not None:
        return sizes
    if view.type(0).dtype.startswith(("int", "uint")):
        return call("ops.div", view.use(0), view.use(1), rounding_mode="trunc")
    return infix(view.use(0, MULTIPLY), "/", view.use(1, UNARY), MULTIPLY)


@TABLE.call("Mod")
def modulo(view: View) -> Expression:
    """Emit ``x % y`` with Python's sign, or the dividend's with fmod=1."""
    if is_of_tuples(view) and not view.operator.int("fmod"):
        return remainder(view)
    dtype = view.type(0).dtype
    if dtype == "uint64":
        raise Refused  # as its division is by way of float64
    if dtype in _WIDER and not view.host(0):
        wide = [method(view.tensor(slot, ATOM), "astype", _type(_WIDER[dtype])) for slot in (0, 1)]
        return method(Brackets(infix(wide[0], "%", wide[1], MULTIPLY)), "astype", _type(dtype))
    divisor = view.constant(1)
    if dtype in _REMAINDERS and (divisor is None or np.isinf(divisor).any()):
        return call(Helper("fmod" if view.operator.int("fmod") else "modulo"), view.tensor(0), view.tensor(1))
    if view.operator.int("fmod"):
        return call("ops.fmod", view.use(0), view.use(1))
    return remainder(view)


@TABLE.call("Pow")
def power(view: View) -> Expression:
    """Emit ``x**y``, and ``(-2.0) ** x``: a minus binds less than the power; the base says the type."""
    base, (own, other) = view.use(0, ATOM), (view.type(slot).dtype for slot in (0, 1))
    if isinstance(base, Literal) and view.scalar(0) < 0:
        base = Brackets(base)
    if own == other or view.constant(1) is not None:
        return Expression((base, "**", view.use(1, POWER)), POWER)
    if own.startswith(("int", "uint")) and other.startswith("float"):
        return method(Brackets(Expression((base, "**", view.use(1, POWER)))), "astype", _type(own))
    return Expression((base, "**", method(view.tensor(1, ATOM), "astype", _type(own))), POWER)


def _type(dtype: str) -> Part:
    return Expression((ms_dtype(dtype),))


@TABLE.call("BitwiseNot")
def bitwise_not(view: View) -> Expression:
    """Emit ops.invert."""
    return call("ops.invert", view.tensor(0))


@TABLE.call("BitShift")
def shift(view: View) -> Expression:
    """Emit ops.bitwise_left_shift, ops.bitwise_right_shift."""
    direction = view.operator.str("direction").lower()
    return call(f"ops.bitwise_{direction}_shift", view.tensor(0), view.tensor(1))


@TABLE.call("IsInf")
def is_inf(view: View) -> Expression:
    """Emit ops.isinf, for both signs; a comparison for one."""
    negative, positive = (bool(view.operator.int(f"detect_{sign}")) for sign in ("negative", "positive"))
    if negative and positive:
        return call("ops.isinf", view.use(0))
    if not negative and not positive:
        return call("ops.zeros_like", view.tensor(0), dtype=_type("bool"))
    return infix(view.tensor(0, ADD), "==", Literal(float("inf" if positive else "-inf")), COMPARE)


def _extreme(view: View, function: str, symbol: str) -> Expression:
    """Return a maximum or minimum; a comparison if both are computed single numbers, as kernels need an axis.

    Sizes use Python's function, ``min(x.shape[0], 3)``; beside a tensor they are numbers.
    """
    if len(view.operands) == 2 and any(view.host(s) for s in (0, 1)):
        if all(view.host(s) or view.constant(s) is not None for s in (0, 1)):
            return extreme_of_sizes(view, "max" if symbol == ">" else "min")
        first, second = (
            Element(view.use(s, ATOM), 0) if view.host(s) == "tuple" else view.use(s) for s in (0, 1)
        )
        return call(function, first, second)
    by_comparison = view.type(0).dtype == "uint16"  # which the kernels of these do not have
    if len(view.operands) == 2 and (
        by_comparison or all(not view.host(s) and view.rank(s) == 0 for s in (0, 1))
    ):
        condition = infix(view.use(0, ADD), symbol, view.use(1, ADD), COMPARE)
        return call("ops.where", condition, view.use(0), view.use(1))
    if by_comparison:
        raise Refused
    return nest(function, [view.use(slot) for slot in range(len(view.operands))])


@TABLE.call("Max")
def maximum(view: View) -> Expression:
    """Emit ops.maximum of two, nested for more."""
    return _extreme(view, "ops.maximum", ">")


@TABLE.call("Min")
def minimum(view: View) -> Expression:
    """Emit ops.minimum of two, nested for more."""
    return _extreme(view, "ops.minimum", "<")


@TABLE.call("Where")
def where(view: View) -> Expression:
    """Emit ops.where; of two numbers, the first says the type where it is not Python's."""
    to, numbers = view.output_type(), all(view.constant(slot) is not None for slot in (1, 2))
    plain = to is not None and to.dtype in ("float32", "int64")
    first = view.tensor(1) if numbers and not plain else view.use(1)
    return call("ops.where", view.tensor(0), first, view.use(2))


@TABLE.call("Cast")
def cast(view: View) -> Expression:
    """Emit ``x.astype(ms.float32)``; a shape computation stays a Python number."""
    to = view.output_type()
    if view.host(0):
        if to is not None and not to.dtype.startswith("int"):
            if view.host(0) != "int":
                raise Refused
            return call("ops.full", (), view.use(0), dtype=Expression((ms_dtype(to.dtype),)))
        return Expression((view.use(0, ATOM),), ATOM, view.host(0))
    if to is None:
        raise Refused
    return method(view.atom(), "astype", Expression((ms_dtype(to.dtype),)))


@TABLE.call("Identity", "regraft.MakeLoss", "regraft.StopGradient")
def identity(view: View) -> Expression:
    """Emit the value itself; no gradient flows through StopGradient."""
    if view.operator.op_type == "StopGradient":
        return call("ops.stop_gradient", view.use(0))
    return Expression((view.use(0),), 0, view.host(0))
