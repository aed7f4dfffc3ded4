"""Lowerings of element-wise functions and arithmetic."""

from __future__ import annotations

import math as numbers

from ....ir import Value
from ... import formulas
from ...lowering_table import Lowering, LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")

_FLOAT_UNARY = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "erf": "Erf",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
}
"""Functions that torch computes in floating point whatever they are given."""


def _float_unary(op_type: str) -> Lowering[Call]:
    def unary(call: Call) -> Value:
        return call.op(op_type, call.operand("self", call.dtype))

    return unary


for _name, _op_type in _FLOAT_UNARY.items():
    TABLE.op(f"aten.{_name}.default")(_float_unary(_op_type))

TABLE.direct(
    {
        "aten.neg.default": "Neg",
        "aten.abs.default": "Abs",
        "aten.sign.default": "Sign",
    }
)


def _is_floating(call: Call, name: str = "self") -> bool:
    return formulas.is_floating(call.dtype_of(call.value(name)))


def _rounded(op_type: str) -> Lowering[Call]:
    """Round; whole numbers stay."""
    return lambda call: call.op(op_type, call.value("self")) if _is_floating(call) else call.value("self")


for _name in ("ceil", "floor", "round"):
    TABLE.op(f"aten.{_name}.default")(_rounded(_name.title()))


def _of_floats(op_type: str) -> Lowering[Call]:
    """Return a property that no whole number has."""

    def test(call: Call) -> Value:
        x = call.value("self")
        return call.op(op_type, x if _is_floating(call) else call.cast(x, "float32"))

    return test


TABLE.op("aten.isnan.default")(_of_floats("IsNaN"))
TABLE.op("aten.isinf.default")(_of_floats("IsInf"))


@TABLE.op("aten.rsqrt.default")
def rsqrt(call: Call) -> Value:
    """Return ``1 / sqrt(x)``."""
    return formulas.reciprocal_root(call, call.operand("self", call.dtype))


@TABLE.op("aten.square.default")
def square(call: Call) -> Value:
    """Return ``x * x``."""
    return formulas.square(call, call.operand("self", call.dtype))


@TABLE.op("aten.log1p.default")
def log1p(call: Call) -> Value:
    """Return ``log(1 + x)``."""
    return call.op("regraft.Log1p", call.operand("self", call.dtype))


@TABLE.op("aten.expm1.default")
def expm1(call: Call) -> Value:
    """Return ``exp(x) - 1``."""
    return call.op("regraft.Expm1", call.operand("self", call.dtype))


@TABLE.op("aten.log2.default", "aten.log10.default")
def log_to_base(call: Call) -> Value:
    """Return ``log(x) / log(base)``."""
    base = 2 if "log2" in call.operator else 10
    logarithm = call.op("Log", call.operand("self", call.dtype))
    return call.op("Div", logarithm, call.scalar_like(numbers.log(base), logarithm))


@TABLE.op("aten.round.decimals")
def round_decimals(call: Call) -> Value:
    """Round to a number of decimal places."""
    x, factor = call.value("self"), 10.0 ** call.int("decimals")
    scale = call.scalar_like(factor if factor >= 1 else 10.0 ** -call.int("decimals"), x)
    there, back = ("Mul", "Div") if factor >= 1 else ("Div", "Mul")
    return call.op(back, call.op("Round", call.op(there, x, scale)), scale)


@TABLE.op("aten.atan2.default", "aten.arctan2.default")
def atan2(call: Call) -> Value:
    """Return the angle of a point, by its quadrant."""
    return formulas.angle_of(call, call.operand("self", call.dtype), call.operand("other", call.dtype))


def _is_negative(call: Call, x: Value) -> Value:
    """Return the sign bit, that of -0.0 included: its reciprocal is below zero."""
    zero = call.scalar_like(0, x)
    below = call.op("Less", x, zero)
    if not formulas.is_floating(call.dtype_of(x)):
        return below
    return call.op("Or", below, call.op("Less", call.op("Reciprocal", x), zero))


@TABLE.op("aten.signbit.default")
def signbit(call: Call) -> Value:
    """Whether the sign is minus; no truth value's is."""
    x = call.value("self")
    if call.dtype_of(x) == "bool":
        return call.op("And", x, call.constant(False))
    return _is_negative(call, x)


@TABLE.op("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(call: Call) -> Value:
    """Return one number's size with another's sign."""
    size = call.op("Abs", call.operand("self", call.dtype))
    negative = _is_negative(call, call.operand("other", call.dtype))
    return call.op("Where", negative, call.op("Neg", size), size)


@TABLE.op("aten.angle.default")
def angle(call: Call) -> Value:
    """Return the angle of real numbers: 0 or pi."""
    x = call.operand("self", call.dtype)
    zero, pi = call.scalar_like(0, x), call.scalar_like(numbers.pi, x)
    found = call.op("Where", call.op("Less", x, zero), pi, zero)
    return call.op("Where", call.op("IsNaN", x), x, found)


# -- arithmetic ----------------------------------------------------------------------------------------


def _scaled_other(call: Call) -> Value:
    """Return ``alpha * other``."""
    other, alpha = call.operand("other", call.dtype), call.arg("alpha")
    return other if alpha == 1 else call.op("Mul", call.constant(alpha, call.dtype), other)


@TABLE.op("aten.add.Tensor", "aten.add.Scalar")
def add(call: Call) -> Value:
    """Return ``self + alpha * other``; on truth values, or."""
    if call.dtype == "bool":
        call.require("alpha", 1)
        return call.op("Or", call.operand("self", "bool"), call.operand("other", "bool"))
    return call.op("Add", call.operand("self", call.dtype), _scaled_other(call))


@TABLE.op("aten.sub.Tensor", "aten.sub.Scalar")
def sub(call: Call) -> Value:
    """Return ``self - alpha * other``."""
    return call.op("Sub", call.operand("self", call.dtype), _scaled_other(call))


@TABLE.op("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(call: Call) -> Value:
    """Return ``other - alpha * self``."""
    x, alpha = call.operand("self", call.dtype), call.arg("alpha")
    x = x if alpha == 1 else call.op("Mul", call.constant(alpha, call.dtype), x)
    return call.op("Sub", call.operand("other", call.dtype), x)


@TABLE.op("aten.mul.Tensor", "aten.mul.Scalar")
def mul(call: Call) -> Value:
    """Return a product; on truth values, and."""
    op_type = "And" if call.dtype == "bool" else "Mul"
    return call.op(op_type, call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(call: Call) -> Value:
    """True division."""
    return call.op("Div", call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(call: Call) -> Value:
    """Division rounded down, towards zero, or not at all."""
    x, y, mode = (
        call.operand("self", call.dtype),
        call.operand("other", call.dtype),
        call.arg("rounding_mode"),
    )
    if mode == "floor":
        return formulas.floor_divide(call, x, y)
    quotient = call.op("Div", x, y)
    if mode is None or not formulas.is_floating(call.dtype):
        return quotient
    return formulas.round_towards_zero(call, quotient)


@TABLE.op("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(call: Call) -> Value:
    """Return the quotient rounded down."""
    return formulas.floor_divide(call, call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.remainder.Tensor", "aten.remainder.Scalar")
def remainder(call: Call) -> Value:
    """Return the remainder with the divisor's sign."""
    return formulas.floor_remainder(call, call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(call: Call) -> Value:
    """Return the remainder with the dividend's sign."""
    return call.op("Mod", call.operand("self", call.dtype), call.operand("other", call.dtype), fmod=1)


@TABLE.op("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_(call: Call) -> Value:
    """Return a power; a small whole exponent as a product, which is exact and fast everywhere."""
    exponent = call.arg("exponent")
    x = call.operand("self", call.dtype)
    if exponent == 1:
        return x
    if exponent == 2:
        return call.op("Mul", x, x)
    if exponent == 0.5:
        return call.op("Sqrt", x)
    return call.op("Pow", x, call.operand("exponent", call.dtype))


@TABLE.op("aten.hypot.default")
def hypot(call: Call) -> Value:
    """Return ``sqrt(x * x + y * y)``."""
    return formulas.hypotenuse(call, call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.trunc.default", "aten.frac.default", "aten.fix.default")
def trunc(call: Call) -> Value:
    """Rounded towards zero, or what that takes away."""
    x = call.value("self")
    if not formulas.is_floating(call.dtype):
        return x
    whole = formulas.round_towards_zero(call, x)
    return call.op("Sub", x, whole) if "frac" in call.operator else whole


@TABLE.op("aten.addcmul.default", "aten.addcdiv.default")
def addcmul(call: Call) -> Value:
    """Return ``self + value * tensor1 * tensor2``, or the quotient."""
    op_type = "Mul" if "addcmul" in call.operator else "Div"
    left, right = call.operand("tensor1", call.dtype), call.operand("tensor2", call.dtype)
    term = call.op(op_type, left, right)
    if call.arg("value") != 1:
        term = call.op("Mul", term, call.operand("value", call.dtype))
    return call.op("Add", call.operand("self", call.dtype), term)


@TABLE.op("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(call: Call) -> Value:
    """Return ``self + weight * (end - self)``."""
    x = call.operand("self", call.dtype)
    step = call.op("Sub", call.operand("end", call.dtype), x)
    return call.op("Add", x, call.op("Mul", call.operand("weight", call.dtype), step))


def _shift(direction: str) -> Lowering[Call]:
    """ONNX shifts unsigned integers; by powers of two, negative numbers shift as torch has it.

    Runtimes have powers of int32 and int64 alone.
    """

    def shift(call: Call) -> Value:
        wide = call.dtype if call.dtype == "int32" else "int64"
        x, by = (call.cast(call.operand(name, call.dtype), wide) for name in ("self", "other"))
        factor = call.op("Pow", call.constant(2, wide), by)
        moved = call.op("Mul", x, factor) if direction == "left" else formulas.floor_divide(call, x, factor)
        return call.cast(moved, call.dtype)

    return shift


for _direction in ("left", "right"):
    TABLE.op(
        f"aten.bitwise_{_direction}_shift.Tensor",
        f"aten.bitwise_{_direction}_shift.Tensor_Scalar",
        f"aten.bitwise_{_direction}_shift.Scalar_Tensor",
        f"aten.__{_direction[0]}shift__.Tensor",
        f"aten.__{_direction[0]}shift__.Scalar",
    )(_shift(_direction))
