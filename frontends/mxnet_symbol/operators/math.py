"""Arithmetic: element by element, with scalars, comparisons and unary functions."""

from __future__ import annotations

from math import pi

import numpy as np

from ....ir import Value
from ..call import Use, new_table

TABLE = new_table()
TABLE.direct(
    {
        "_copy": "Identity",
        "abs": "Abs",
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
        "exp": "Exp",
        "floor": "Floor",
        "log": "Log",
        "negative": "Neg",
        "reciprocal": "Reciprocal",
        "sign": "Sign",
        "sin": "Sin",
        "sinh": "Sinh",
        "sqrt": "Sqrt",
        "tan": "Tan",
        "tanh": "Tanh",
        "elemwise_add": "Add",
        "elemwise_mul": "Mul",
        "elemwise_sub": "Sub",
        "broadcast_add": "Add",
        "broadcast_mul": "Mul",
        "broadcast_sub": "Sub",
        "elemwise_div": "Div",
        "broadcast_div": "Div",
        "broadcast_maximum": "Max",
        "_maximum": "Max",
        "broadcast_minimum": "Min",
        "_minimum": "Min",
        "broadcast_power": "Pow",
        "_power": "Pow",
        "add_n": "Sum",
    }
)

_SCALAR = {
    "_plus_scalar": ("Add", False),
    "_minus_scalar": ("Sub", False),
    "_rminus_scalar": ("Sub", True),
    "_mul_scalar": ("Mul", False),
    "_div_scalar": ("Div", False),
    "_rdiv_scalar": ("Div", True),
    "_power_scalar": ("Pow", False),
    "_rpower_scalar": ("Pow", True),
    "_maximum_scalar": ("Max", False),
    "_minimum_scalar": ("Min", False),
}
"""Operator with a number -> ONNX's operator, and whether the number comes first."""

_COMPARISONS = {
    "equal": "Equal",
    "not_equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "lesser": "Less",
    "lesser_equal": "LessOrEqual",
}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


def _number(use: Use) -> Value:
    use.attrs.ignore("is_int")
    return use.b.scalar_like(use.attrs.float("scalar"), use.x)


@TABLE.op(*_SCALAR)
def with_scalar(use: Use) -> Value:
    """With a number, which comes first in the operators whose name starts with r."""
    target, first = _SCALAR[use.node.op]
    x, number = use.x, _number(use)
    return use.b.op(target, number, x) if first else use.b.op(target, x, number)


def _compare(use: Use, kind: str, x: Value, y: Value) -> Value:
    """A comparison, which MXNet answers with 0 and 1 of the operands' own type."""
    result = use.b.op(_COMPARISONS[kind], x, y)
    if kind == "not_equal":
        result = use.b.op("Not", result)
    return use.cast(result, use.dtype(use.x))


@TABLE.op(*(f"broadcast_{kind}" for kind in _COMPARISONS), *(f"_{kind}" for kind in _COMPARISONS))
def comparison(use: Use) -> Value:
    """0 and 1 in the type of the operands."""
    return _compare(use, use.node.op.removeprefix("broadcast_").removeprefix("_"), use.x, use.input(1))


@TABLE.op(*(f"_{kind}_scalar" for kind in _COMPARISONS))
def comparison_with_scalar(use: Use) -> Value:
    """0 and 1 in the type of the operand."""
    return _compare(use, use.node.op.removeprefix("_").removesuffix("_scalar"), use.x, _number(use))


@TABLE.op(*(f"broadcast_{kind}" for kind in _LOGICAL), *(f"_{kind}" for kind in _LOGICAL))
def logical(use: Use) -> Value:
    """0 and 1 in the type of the operands; what is not 0 is true."""
    kind = use.node.op.removeprefix("broadcast_").removeprefix("_")
    result = use.b.op(_LOGICAL[kind], use.cast(use.x, "bool"), use.cast(use.input(1), "bool"))
    return use.cast(result, use.dtype(use.x))


@TABLE.op(*(f"_{kind}_scalar" for kind in _LOGICAL))
def logical_with_scalar(use: Use) -> Value:
    """0 and 1 in the type of the operand."""
    kind = use.node.op.removeprefix("_").removesuffix("_scalar")
    result = use.b.op(_LOGICAL[kind], use.cast(use.x, "bool"), use.b.constant(use.attrs.float("scalar") != 0))
    use.attrs.ignore("is_int")
    return use.cast(result, use.dtype(use.x))


@TABLE.op("logical_not")
def logical_not(use: Use) -> Value:
    """0 and 1 in the type of the operand."""
    return use.cast(use.b.op("Not", use.cast(use.x, "bool")), use.dtype(use.x))


@TABLE.op("broadcast_mod", "_mod")
def modulo(use: Use) -> Value:
    """The remainder has the sign of the divisor."""
    return _modulo(use, use.x, use.input(1))


@TABLE.op("_mod_scalar", "_rmod_scalar")
def modulo_with_scalar(use: Use) -> Value:
    """The remainder has the sign of the divisor."""
    operands = (use.x, _number(use))
    return _modulo(use, *(operands if use.node.op == "_mod_scalar" else operands[::-1]))


def _modulo(use: Use, x: Value, y: Value) -> Value:
    """The remainder with the divisor's sign, and 0 for the divisor 0."""
    b = use.b
    zero = b.scalar_like(0, x)
    if use.dtype(use.x).startswith(("int", "uint")):
        safe = b.op("Where", b.op("Equal", y, zero), b.scalar_like(1, x), y)
        return b.op("Mod", x, safe)
    remainder = b.op("Mod", x, y, fmod=1)
    differs = b.op("Less", b.op("Mul", remainder, y), zero)
    signed = b.op("Where", differs, b.op("Add", remainder, y), remainder)
    return b.op("Where", b.op("Equal", y, zero), zero, signed)


@TABLE.op("square")
def square(use: Use) -> Value:
    """X * x."""
    return use.b.op("Mul", use.x, use.x)


def _times(use: Use, x: Value, factor: float) -> Value:
    return use.b.op("Mul", x, use.b.scalar_like(factor, x))


@TABLE.op("rsqrt")
def rsqrt(use: Use) -> Value:
    """1 / sqrt(x)."""
    return use.b.op("Reciprocal", use.b.op("Sqrt", use.x))


@TABLE.op("cbrt", "rcbrt")
def cube_root(use: Use) -> Value:
    """The real cube root, of negative numbers too, or one over it."""
    b, x = use.b, use.x
    root = b.op("Mul", b.op("Sign", x), b.op("Pow", b.op("Abs", x), b.scalar_like(1 / 3, x)))
    return root if use.node.op == "cbrt" else b.op("Reciprocal", root)


@TABLE.op("expm1")
def expm1(use: Use) -> Value:
    """exp(x) - 1."""
    return use.b.op("Sub", use.b.op("Exp", use.x), use.b.scalar_like(1, use.x))


@TABLE.op("log1p")
def log1p(use: Use) -> Value:
    """log(1 + x)."""
    return use.b.op("Log", use.b.op("Add", use.x, use.b.scalar_like(1, use.x)))


@TABLE.op("log2", "log10")
def log_of_base(use: Use) -> Value:
    """The logarithm to the base 2 or 10."""
    base = {"log2": 2, "log10": 10}[use.node.op]
    return _times(use, use.b.op("Log", use.x), 1 / float(np.log(base)))


@TABLE.op("degrees", "radians")
def angle(use: Use) -> Value:
    """Radians to degrees, or back."""
    return _times(use, use.x, 180 / pi if use.node.op == "degrees" else pi / 180)


@TABLE.op("_hypot", "broadcast_hypot")
def hypotenuse(use: Use) -> Value:
    """sqrt(x * x + y * y)."""
    b, (x, y) = use.b, use.values()
    return b.op("Sqrt", b.op("Add", b.op("Mul", x, x), b.op("Mul", y, y)))


@TABLE.op("_hypot_scalar")
def hypotenuse_with_scalar(use: Use) -> Value:
    """sqrt(x * x + y * y)."""
    b, x, y = use.b, use.x, _number(use)
    return b.op("Sqrt", b.op("Add", b.op("Mul", x, x), b.op("Mul", y, y)))


@TABLE.op("trunc", "fix")
def truncate(use: Use) -> Value:
    """Towards 0."""
    return use.b.op("Mul", use.b.op("Sign", use.x), use.b.op("Floor", use.b.op("Abs", use.x)))


@TABLE.op("round")
def round_half_away(use: Use) -> Value:
    """To the nearest, ties away from 0."""
    b, x = use.b, use.x
    half = b.op("Floor", b.op("Add", b.op("Abs", x), b.scalar_like(0.5, x)))
    return b.op("Mul", b.op("Sign", x), half)


@TABLE.op("rint")
def round_half_down(use: Use) -> Value:
    """To the nearest, ties down: 0.5 becomes 0, -2.5 becomes -3."""
    b, x = use.b, use.x
    return b.op("Ceil", b.op("Sub", x, b.scalar_like(0.5, x)))


@TABLE.op("clip")
def clip(use: Use) -> Value:
    """Between `a_min` and `a_max`."""
    x = use.x
    low = use.b.scalar_like(use.attrs.float("a_min"), x)
    return use.b.op("Clip", x, low, use.b.scalar_like(use.attrs.float("a_max"), x))


@TABLE.op("smooth_l1")
def smooth_l1(use: Use) -> Value:
    """Quadratic near 0, linear beyond 1 / sigma squared."""
    b, x, square = use.b, use.x, use.attrs.float("scalar", 1.0) ** 2
    size = b.op("Abs", x)
    near = _times(use, b.op("Mul", x, x), 0.5 * square)
    return b.op(
        "Where",
        b.op("Less", size, b.scalar_like(1 / square, x)),
        near,
        b.op("Sub", size, b.scalar_like(0.5 / square, x)),
    )


@TABLE.op("_contrib_div_sqrt_dim")
def div_sqrt_dim(use: Use) -> Value:
    """Divided by the root of the size of the last axis."""
    (size,) = use.static(use.x, [-1])
    return use.b.op("Div", use.x, use.b.scalar_like(size**0.5, use.x))


@TABLE.op("Cast", "amp_cast")
def cast(use: Use) -> Value:
    """Another element type; floats are cut off on their way to integers."""
    return use.cast(use.x, use.attrs.text("dtype"))
