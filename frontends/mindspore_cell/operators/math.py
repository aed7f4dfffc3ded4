"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

from math import inf, pi

import numpy as np

from ....ir import Value
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
TABLE.direct(
    {
        "Abs": "Abs",
        "Asin": "Asin",
        "ACos": "Acos",
        "Acosh": "Acosh",
        "Asinh": "Asinh",
        "Atanh": "Atanh",
        "Atan": "Atan",
        "Ceil": "Ceil",
        "Cos": "Cos",
        "Cosh": "Cosh",
        "Erf": "Erf",
        "Exp": "Exp",
        "Floor": "Floor",
        "IsInf": "IsInf",
        "IsNan": "IsNaN",
        "LogicalNot": "Not",
        "Neg": "Neg",
        "Reciprocal": "Reciprocal",
        "Sign": "Sign",
        "Sin": "Sin",
        "Sinh": "Sinh",
        "Sqrt": "Sqrt",
        "Tan": "Tan",
    }
)
_ARITHMETIC = {
    "Add": "Add",
    "AddExt": "Add",
    "InplaceAddExt": "Add",
    "AddScalar": "Add",
    "Sub": "Sub",
    "SubExt": "Sub",
    "InplaceAddsExt": "Add",
    "InplaceSubExt": "Sub",
    "InplaceSubScalar": "Sub",
    "SubScalar": "Sub",
    "Mul": "Mul",
    "Muls": "Mul",
    "InplaceMul": "Mul",
    "InplaceMuls": "Mul",
    "Div": "Div",
    "Divs": "Div",
    "RealDiv": "Div",
    "InplaceDiv": "Div",
    "InplaceDivs": "Div",
    "Pow": "Pow",
    "PowTensorScalar": "Pow",
    "PowScalarTensor": "Pow",
    "Maximum": "Max",
    "Minimum": "Min",
}
_SCALED = {"AddExt", "SubExt", "AddScalar", "SubScalar"} | {
    *("InplaceAddExt", "InplaceAddsExt", "InplaceSubExt", "InplaceSubScalar")
}
"""Operators whose third argument, `alpha`, scales the second."""
_COMPARISON = {
    "Equal": "Equal",
    "EqScalar": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "GreaterEqualScalar": "GreaterOrEqual",
    "Less": "Less",
    "LessScalar": "Less",
    "LessEqual": "LessOrEqual",
}
_LOGIC = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}


@TABLE.op(*_ARITHMETIC)
def arithmetic(call: Call) -> Value:
    """Return both operands in the result's element type; in-place forms are out of place, as in PyNative.

    Those with an `alpha` scale their second operand by it.
    """
    first, second = call.operand(0, call.dtype), call.operand(1, call.dtype)
    if call.operator in _SCALED and call.float(2) != 1:
        second = call.op("Mul", second, call.scalar_like(call.float(2), second))
    return call.op(_ARITHMETIC[call.operator], first, second)


@TABLE.op(*_COMPARISON)
def comparison(call: Call) -> Value:
    first, second = _same_type(call)
    return call.op(_COMPARISON[call.operator], first, second)


@TABLE.op("NotEqual")
def not_equal(call: Call) -> Value:
    first, second = _same_type(call)
    return call.op("Not", call.op("Equal", first, second))


@TABLE.op(*_LOGIC)
def logic(call: Call) -> Value:
    return call.op(_LOGIC[call.operator], call.cast(call.value(0), "bool"), call.cast(call.value(1), "bool"))


@TABLE.op("Cast")
def cast(call: Call) -> Value:
    return call.cast(call.value(0), call.element_type(1))


@TABLE.op("Square")
def square(call: Call) -> Value:
    return formulas.square(call, call.value(0))


@TABLE.op("Rsqrt")
def rsqrt(call: Call) -> Value:
    return formulas.reciprocal_root(call, call.value(0))


@TABLE.op("Log")
def log(call: Call) -> Value:
    """Lower the natural logarithm; the primitive's attributes belong to another backend."""
    call.ignore("cust_aicpu")
    if (
        call.arg("base", -1.0),
        call.arg("scale", 1.0),
        call.arg("shift", 0.0),
    ) != (-1.0, 1.0, 0.0):
        raise call.unsupported("expected the natural logarithm of the operand itself")
    return call.op("Log", call.value(0))


@TABLE.op("Log1p")
def log1p(call: Call) -> Value:
    return formulas.log_plus_one(call, call.value(0))


@TABLE.op("Expm1")
def expm1(call: Call) -> Value:
    return formulas.exp_minus_one(call, call.value(0))


_FLOOR_REMAINDERS = ("FloorMod", "RemainderTensorTensor", "RemainderTensorScalar")


@TABLE.op("FloorDiv", *_FLOOR_REMAINDERS)
@TABLE.op("TruncateDiv", "TruncateMod", "Mod", "FmodTensor", "FmodScalar")
def divide_whole(call: Call) -> Value:
    """Return quotients rounded down or towards zero, and what they leave; Mod and Fmod are as TruncateMod."""
    x, y = call.operand(0, call.dtype), call.operand(1, call.dtype)
    if call.operator == "FloorDiv":
        return formulas.floor_divide(call, x, y)
    if call.operator in _FLOOR_REMAINDERS:
        return formulas.floor_remainder(call, x, y)
    if call.operator == "TruncateDiv":
        return _truncate(call, call.op("Div", x, y))
    return call.op("Mod", x, y, fmod=1)


@TABLE.op("DivMod")
def divide_by_mode(call: Call) -> Value:
    """Return a quotient as it is (0), towards zero (1) or down (2)."""
    x, y, mode = call.operand(0, call.dtype), call.operand(1, call.dtype), call.int(2)
    if mode == 2:
        return formulas.floor_divide(call, x, y)
    quotient = call.op("Div", x, y)
    return _truncate(call, quotient) if mode == 1 else quotient


@TABLE.op("Trunc")
def truncate(call: Call) -> Value:
    return _truncate(call, call.value(0))


def _truncate(call: Call, x: Value) -> Value:
    """Return a number without what follows its point, which an integer has not."""
    return formulas.round_towards_zero(call, x) if formulas.is_floating(call.dtype_of(x)) else x


_BITWISE = {"BitwiseAnd": "And", "BitwiseAndTensor": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}


@TABLE.op(*_BITWISE)
def bitwise(call: Call) -> Value:
    """Lower bitwise operators; on truth values they are logical ones."""
    x, y = call.operand(0, call.dtype), call.operand(1, call.dtype)
    return call.op(f"{'' if call.dtype == 'bool' else 'Bitwise'}{_BITWISE[call.operator]}", x, y)


@TABLE.op("LeftShift", "RightShift")
def shift(call: Call) -> Value:
    """Shift by powers of two, because ONNX shifts only unsigned integers."""
    factor = call.op("Pow", call.constant(2, call.dtype), call.operand(1, call.dtype))
    x = call.operand(0, call.dtype)
    return (
        call.op("Mul", x, factor) if call.operator == "LeftShift" else formulas.floor_divide(call, x, factor)
    )


@TABLE.op("Hypot")
def hypotenuse(call: Call) -> Value:
    return formulas.hypotenuse(call, call.operand(0, call.dtype), call.operand(1, call.dtype))


@TABLE.op("Atan2")
def angle_of(call: Call) -> Value:
    return formulas.angle_of(call, call.operand(0, call.dtype), call.operand(1, call.dtype))


@TABLE.op("Sinc")
def sinc(call: Call) -> Value:
    """Return ``sin(pi x) / (pi x)``, 1 at 0."""
    x = call.operand(0, call.dtype)
    angle = call.op("Mul", x, call.scalar_like(pi, x))
    at_zero = call.op("Equal", x, call.scalar_like(0, x))
    quotient = call.op("Div", call.op("Sin", angle), angle)
    return call.op("Where", at_zero, call.scalar_like(1, x), quotient)


@TABLE.op("Heaviside")
def heaviside(call: Call) -> Value:
    """0 below zero, 1 above it, the second operand at it; NaN stays."""
    x, at_zero = call.operand(0, call.dtype), call.operand(1, call.dtype)
    zero = call.scalar_like(0, x)
    above = call.cast(call.op("Greater", x, zero), call.dtype)
    return call.op("Where", call.op("Equal", x, zero), at_zero, above)


@TABLE.op("Xlogy", "XLogYScalarOther")
def x_log_y(call: Call) -> Value:
    """Return ``x * log(y)``, 0 where x is 0, unless y is no number."""
    x, y = call.operand(0, call.dtype), call.operand(1, call.dtype)
    zero = call.scalar_like(0, x)
    is_zero = call.op("And", call.op("Equal", x, zero), call.op("Not", call.op("IsNaN", y)))
    return call.op("Where", is_zero, zero, call.op("Mul", x, call.op("Log", y)))


@TABLE.op("IsFinite")
def is_finite(call: Call) -> Value:
    x = call.value(0)
    return call.op("Not", call.op("Or", call.op("IsInf", x), call.op("IsNaN", x)))


@TABLE.op("NanToNum")
def replace_no_numbers(call: Call) -> Value:
    """NaN by 0, infinities by the largest numbers of the type, unless others are given."""
    x = call.value(0)
    limits = np.finfo(call.dtype)
    nan, above, below = (
        call.scalar_like(default if call.arg(i, None) is None else call.float(i), x)
        for i, default in ((1, 0.0), (2, float(limits.max)), (3, float(limits.min)))
    )
    y = call.op("Where", call.op("Equal", x, call.scalar_like(inf, x)), above, x)
    y = call.op("Where", call.op("Equal", x, call.scalar_like(-inf, x)), below, y)
    return call.op("Where", call.op("IsNaN", x), nan, y)


@TABLE.op("Addcmul", "Addcdiv")
def addc(call: Call) -> Value:
    """X + value * (a * b), or value * (a / b)."""
    x, a, b = (call.value(i) for i in range(3))
    combined = call.op("Mul" if call.operator == "Addcmul" else "Div", a, b)
    scaled = call.op("Mul", combined, call.operand(3, call.dtype))
    return call.op("Add", x, scaled)


@TABLE.op("Lerp")
def lerp(call: Call) -> Value:
    """X + weight * (y - x)."""
    x, y = call.value(0), call.value(1)
    return call.op("Add", x, call.op("Mul", call.op("Sub", y, x), call.operand(2, call.dtype)))


@TABLE.op("Round")
def round_(call: Call) -> Value:
    if call.arg(1, 0) != 0:
        raise call.unsupported("expected no decimals")
    return call.op("Round", call.value(0))


@TABLE.op("Select", "MaskedFill", "MaskedFillScalar")
def select(call: Call) -> Value:
    """Select(condition, x, y); both others (x, mask, value)."""
    if call.operator == "Select":
        return call.op("Where", *(call.value(i) for i in range(3)))
    return call.op("Where", call.value(1), call.operand(2, call.dtype), call.value(0))


@TABLE.op("ClampTensor")
def clamp_between(call: Call) -> Value:
    """Not below one tensor, then not above the other; either may be None."""
    x = call.value(0)
    for position, op in ((1, "Max"), (2, "Min")):
        if call.arg(position, None) is not None:
            x = call.op(op, x, call.operand(position, call.dtype))
    return x


@TABLE.op("ClampScalar")
def clamp(call: Call) -> Value:
    x = call.value(0)
    bounds = [None if call.arg(i, None) is None else call.scalar_like(call.float(i), x) for i in (1, 2)]
    return call.op("Clip", x, *bounds)


def _same_type(call: Call) -> tuple[Value, Value]:
    """Return two operands to compare; a Python number takes the other's type, tensors the wider one."""
    kinds = [type(call.arg(i)) for i in (0, 1)]
    known = [call.dtype_of(call.value(i)) for i, kind in enumerate(kinds) if kind not in (int, float, bool)]
    floats = [dtype for dtype in known if "float" in dtype]
    dtype = (floats or known or ["float32"])[0]
    if not floats and float in kinds:
        dtype = "float32"
    return call.operand(0, dtype), call.operand(1, dtype)
