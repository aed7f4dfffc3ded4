"""Functions of real numbers, element by element; those of whole numbers are computed in float32, cut off."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from ....ir import Value
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


def in_floats(call: Call, function: Callable[..., Value], *operands: Value) -> Value:
    """The function of operands of one element type, in that type; of whole numbers by way of float32."""
    dtype = call.dtype_of(operands[0])
    if formulas.is_floating(dtype):
        return function(*operands)
    return call.cast(function(*(call.cast(x, "float32") for x in operands)), dtype)


_NAMED = {
    "arccos": "Acos",
    "arccosh": "Acosh",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "arctan": "Atan",
    "arctanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "erfinv": "regraft.Erfinv",
    "exp": "Exp",
    "floor": "Floor",
    "gamma": "regraft.Gamma",
    "gammaln": "regraft.Lgamma",
    "log": "Log",
    "reciprocal": "Reciprocal",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sinh": "Sinh",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
_FACTORS = {"degrees": 180 / pi, "radians": pi / 180}
_BASES = {"log2": 2, "log10": 10}


@TABLE.op(*_NAMED)
def named(call: Call) -> Value:
    """Return a function that ONNX, or a composite, has under a name of its own."""
    return in_floats(call, lambda x: call.op(_NAMED[call.operator], x), call.value(0))


@TABLE.op("rsqrt")
def rsqrt(call: Call) -> Value:
    """Return 1 / sqrt(x)."""
    return in_floats(call, lambda x: formulas.reciprocal_root(call, x), call.value(0))


@TABLE.op("cbrt", "rcbrt")
def cube_root(call: Call) -> Value:
    """Return the real cube root, of negative numbers too, or one over it."""

    def root(x: Value) -> Value:
        size = call.op("Pow", call.op("Abs", x), call.scalar_like(1 / 3, x))
        signed = call.op("Mul", call.op("Sign", x), size)
        return signed if call.operator == "cbrt" else call.op("Reciprocal", signed)

    return in_floats(call, root, call.value(0))


@TABLE.op("expm1")
def expm1(call: Call) -> Value:
    """Return exp(x) - 1."""
    return in_floats(call, lambda x: call.op("regraft.Expm1", x), call.value(0))


@TABLE.op("log1p")
def log1p(call: Call) -> Value:
    """Return log(1 + x)."""
    return in_floats(call, lambda x: call.op("regraft.Log1p", x), call.value(0))


def _times(call: Call, x: Value, factor: float) -> Value:
    return call.op("Mul", x, call.scalar_like(factor, x))


@TABLE.op(*_BASES)
def log_of_base(call: Call) -> Value:
    """Return the logarithm to the base 2 or 10."""
    factor = 1 / log(_BASES[call.operator])
    return in_floats(call, lambda x: _times(call, call.op("Log", x), factor), call.value(0))


@TABLE.op(*_FACTORS)
def angle(call: Call) -> Value:
    """Radians to degrees, or back."""
    return in_floats(call, lambda x: _times(call, x, _FACTORS[call.operator]), call.value(0))


@TABLE.op("_hypot", "broadcast_hypot")
def hypotenuse(call: Call) -> Value:
    """Return sqrt(x * x + y * y)."""
    return in_floats(call, lambda x, y: formulas.hypotenuse(call, x, y), *call.operands())


@TABLE.op("_power", "broadcast_power")
def power(call: Call) -> Value:
    """Return the one to the power of the other."""
    return in_floats(call, lambda x, y: call.op("Pow", x, y), *call.operands())


@TABLE.op("trunc", "fix")
def truncate(call: Call) -> Value:
    """Towards 0."""
    return in_floats(call, lambda x: formulas.round_towards_zero(call, x), call.value(0))


@TABLE.op("round")
def round_half_away(call: Call) -> Value:
    """Round to the nearest, ties away from 0."""

    def nearest(x: Value) -> Value:
        size = call.op("Floor", call.op("Add", call.op("Abs", x), call.scalar_like(0.5, x)))
        return call.op("Mul", call.op("Sign", x), size)

    return in_floats(call, nearest, call.value(0))


@TABLE.op("rint")
def round_half_down(call: Call) -> Value:
    """Round to the nearest, ties down: 0.5 becomes 0, -2.5 becomes -3."""
    return in_floats(
        call, lambda x: call.op("Ceil", call.op("Sub", x, call.scalar_like(0.5, x))), call.value(0)
    )
