"""Emitters of arithmetic, comparisons and unary functions."""

from __future__ import annotations

import numpy as np

from ....ir import Graph, Operator, Value
from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()
TABLE.direct(
    {
        "Identity": "_copy",
        "Abs": "abs",
        "Neg": "negative",
        "Exp": "exp",
        "Log": "log",
        "Sqrt": "sqrt",
        "Reciprocal": "reciprocal",
        "Sign": "sign",
        "Floor": "floor",
        "Ceil": "ceil",
        "Erf": "erf",
        "regraft.Erfinv": "erfinv",
        "regraft.Gamma": "gamma",
        "regraft.Lgamma": "gammaln",
        "regraft.Log1p": "log1p",
        "regraft.Expm1": "expm1",
        "Sin": "sin",
        "Cos": "cos",
        "Tan": "tan",
        "Asin": "arcsin",
        "Acos": "arccos",
        "Atan": "arctan",
        "Sinh": "sinh",
        "Cosh": "cosh",
        "Asinh": "arcsinh",
        "Acosh": "arccosh",
        "Atanh": "arctanh",
        "Not": "logical_not",
    }
)


@TABLE.op("Round")
def round_half_to_even(e: View) -> Reference:
    """Emit rint, which takes halves down, and one more where that is odd; round takes them away from zero."""
    x = e.input()
    down = e.node("rint", [x])
    half = e.node("_equal_scalar", [e.node("elemwise_sub", [x, down])], scalar=0.5)
    odd = e.node("_mod_scalar", [down], scalar=2.0)
    up = e.node("_plus_scalar", [down], scalar=1.0)
    return e.node("where", [e.node("elemwise_mul", [half, odd]), up, down])


_BINARY = {
    "Add": ("elemwise_add", "broadcast_add", "_plus_scalar", "_plus_scalar"),
    "Sub": ("elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    "Mul": ("elemwise_mul", "broadcast_mul", "_mul_scalar", "_mul_scalar"),
    "Div": ("elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "Pow": ("_power", "broadcast_power", "_power_scalar", "_rpower_scalar"),
    "Max": ("_maximum", "broadcast_maximum", "_maximum_scalar", "_maximum_scalar"),
    "Min": ("_minimum", "broadcast_minimum", "_minimum_scalar", "_minimum_scalar"),
    "Equal": ("_equal", "broadcast_equal", "_equal_scalar", "_equal_scalar"),
    "Greater": ("_greater", "broadcast_greater", "_greater_scalar", "_lesser_scalar"),
    "GreaterOrEqual": (
        "_greater_equal", "broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar",
    ),
    "Less": ("_lesser", "broadcast_lesser", "_lesser_scalar", "_greater_scalar"),
    "LessOrEqual": (
        "_lesser_equal", "broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar",
    ),
    "Mod": ("_mod", "broadcast_mod", "_mod_scalar", "_rmod_scalar"),
    "And": ("_logical_and", "broadcast_logical_and", "_logical_and_scalar", "_logical_and_scalar"),
    "Or": ("_logical_or", "broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar"),
    "Xor": ("_logical_xor", "broadcast_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar"),
}  # fmt: skip
"""IR operator -> MXNet's for equal shapes, with broadcasting, with a number last, with a number first."""


def _number(e: View, slot: int) -> float | None:
    """Return the number that an operand is, if using it keeps the result's rank; else None."""
    array = e.constant(slot)
    other = e.shape(1 - slot)
    return (
        float(array.ravel()[0])
        if array is not None and array.size == 1 and array.ndim <= len(other)
        else None
    )


@TABLE.op(*_BINARY)
def binary(e: View) -> Reference:
    """Emit MXNet's operator for a number, for equal shapes, or for broadcasting: there are three."""
    equal, broadcast, last, first = _BINARY[e.operator.op_type]
    if e.operator.op_type == "Mod" and e.operator.int("fmod"):
        return _remainder(e)
    if len(e.operands) == 1:
        return e.input()
    if len(e.operands) > 2:
        raise e.refused("expected two operands")
    for slot, op in ((1, last), (0, first)):
        number = _number(e, slot)
        if number is not None:
            return e.node(op, [e.input(1 - slot)], scalar=number)
    same = e.shape(0) == e.shape(1) and None not in e.shape(0)
    if e.operator.op_type in _LOGIC and len({_number_type(e.graph, e.value(slot)) for slot in (0, 1)}) > 1:
        parts = [e.node("Cast", [e.input(slot)], dtype="float32") for slot in (0, 1)]
        return e.node(equal if same else broadcast, parts)
    if e.operator.op_type == "Mul" and e.value(0) == e.value(1):
        return e.node("square", [e.input()])
    return e.node(equal if same else broadcast, e.inputs())


def _remainder(e: View) -> Reference:
    """Emit a remainder of the dividend's sign, and NaN for a divisor of 0.

    MXNet's own has the divisor's sign, and 0; of both without their signs it is exact.
    """
    x, number = e.input(), _number(e, 1)
    unsigned = e.node("abs", [x])
    if number:
        return e.node(
            "elemwise_mul", [e.node("_mod_scalar", [unsigned], scalar=abs(number)), e.node("sign", [x])]
        )
    y = e.input(1)
    whole = e.node("broadcast_mod", [unsigned, e.node("abs", [y])])
    found = e.node("broadcast_mul", [whole, e.node("sign", [x])])
    undefined = e.node("elemwise_div", [e.node("zeros_like", [y]), y])  # 0, or 0 / 0
    return e.node("broadcast_add", [found, undefined])


@TABLE.op("IsNaN")
def is_nan(e: View) -> Reference:
    """Emit a comparison with itself."""
    return e.node("_not_equal", [e.input(), e.input()])


@TABLE.op("IsInf")
def is_infinite(e: View) -> Reference:
    """Emit a comparison with infinity, of either sign or of one."""
    above, below = e.operator.int("detect_positive"), e.operator.int("detect_negative")
    if not above and not below:
        return e.node("zeros_like", [e.input()])
    source = e.node("abs", [e.input()]) if above and below else e.input()
    return e.node("_equal_scalar", [source], scalar="inf" if above else "-inf")


_LOGIC = ("And", "Or", "Xor")


def _number_type(graph: Graph, value: Value) -> str | None:
    """Return the element type of the numbers that a condition is in MXNet: that of what is compared."""
    while True:
        producer = graph.producer(value)
        first = graph.operands(producer.key)[0] if isinstance(producer, Operator) else None
        type_ = graph.type_of(value)
        if type_ is not None and type_.dtype != "bool":
            return type_.dtype
        if first is None:
            return None
        value = first


@TABLE.op("Sum")
def add_n(e: View) -> Reference:
    """Emit add_n, which takes equal shapes only; else sums of two."""
    if len({e.type(at).shape for at in range(len(e.operands))}) > 1:
        total, *others = e.inputs()
        for other in others:
            total = e.node("broadcast_add", [total, other])
        return total
    return e.node("add_n", e.inputs(), num_args=len(e.operands))


@TABLE.op("Clip")
def clip(e: View) -> Reference:
    """Emit clip, whose bounds are numbers."""
    info = np.finfo(np.float32)
    bounds = [e.constant(i) if e.has(i) else np.array(d) for i, d in ((1, info.min), (2, info.max))]
    if bounds[0] is None or bounds[1] is None:
        raise e.refused("expected constant bounds")
    return e.node("clip", [e.input()], a_min=float(bounds[0]), a_max=float(bounds[1]))


@TABLE.op("Cast")
def cast(e: View) -> Reference:
    """Emit Cast; a condition is a comparison with 0."""
    target = e.operator.types[0]
    assert target is not None
    if target.dtype == "bool":  # MXNet's conditions are numbers
        return e.node("_not_equal_scalar", e.inputs(), scalar=0.0)
    return e.node("Cast", e.inputs(), dtype=target.dtype)
