"""Arithmetic: element by element, with scalars, comparisons, and what is no function of real numbers."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.composites.terms import Term
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call
from .functions import in_floats

TABLE = LoweringTable[Call]("MXNet")
TABLE.direct(
    {
        "_copy": "Identity",
        "abs": "Abs",
        "negative": "Neg",
        "sign": "Sign",
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


def _with_number(call: Call) -> tuple[Value, Value]:
    """Return the operand, and the number; whole numbers with one that is not are float64."""
    x, number = call.value(0), call.float("scalar", 1.0)
    if not call.flag("is_int", default=True) and not formulas.is_floating(call.dtype_of(x)):
        x = call.cast(x, "float64")
    return x, call.scalar_like(number, x)


@TABLE.op(*_SCALAR)
def with_scalar(call: Call) -> Value:
    """Combine with a number, which comes first in the operators whose name starts with r."""
    target, first = _SCALAR[call.operator]
    x, number = _with_number(call)
    operands = (number, x) if first else (x, number)
    if target == "Pow":
        return in_floats(call, lambda a, b: call.op("Pow", a, b), *operands)
    return call.op(target, *operands)


def _compare(call: Call, kind: str, x: Value, y: Value) -> Value:
    """Return a comparison, which MXNet answers with 0 and 1 of the operands' own type."""
    result = call.op(_COMPARISONS[kind], x, y)
    if kind == "not_equal":
        result = call.op("Not", result)
    return call.cast(result, call.dtype_of(x))


@TABLE.op(*(f"broadcast_{kind}" for kind in _COMPARISONS), *(f"_{kind}" for kind in _COMPARISONS))
def comparison(call: Call) -> Value:
    """Return 0 or 1 in the type of the operands."""
    return _compare(
        call, call.operator.removeprefix("broadcast_").removeprefix("_"), call.value(0), call.value(1)
    )


@TABLE.op(*(f"_{kind}_scalar" for kind in _COMPARISONS))
def comparison_with_scalar(call: Call) -> Value:
    """Return 0 or 1 in the type of the operand."""
    return _compare(call, call.operator.removeprefix("_").removesuffix("_scalar"), *_with_number(call))


@TABLE.op(*(f"broadcast_{kind}" for kind in _LOGICAL), *(f"_{kind}" for kind in _LOGICAL))
def logical(call: Call) -> Value:
    """Return 0 or 1 in the type of the operands; numbers other than 0 are true."""
    kind = call.operator.removeprefix("broadcast_").removeprefix("_")
    result = call.op(_LOGICAL[kind], call.cast(call.value(0), "bool"), call.cast(call.value(1), "bool"))
    return call.cast(result, call.dtype_of())


@TABLE.op(*(f"_{kind}_scalar" for kind in _LOGICAL))
def logical_with_scalar(call: Call) -> Value:
    """Return 0 or 1 in the type of the operand."""
    kind = call.operator.removeprefix("_").removesuffix("_scalar")
    x, _ = _with_number(call)
    result = call.op(_LOGICAL[kind], call.cast(x, "bool"), call.constant(call.float("scalar", 1.0) != 0))
    return call.cast(result, call.dtype_of(x))


@TABLE.op("logical_not")
def logical_not(call: Call) -> Value:
    """Return 0 or 1 in the type of the operand."""
    return call.cast(call.op("Not", call.cast(call.value(0), "bool")), call.dtype_of())


@TABLE.op("broadcast_mod", "_mod")
def modulo(call: Call) -> Value:
    """Return the remainder, with the sign of the divisor."""
    return _modulo(call, call.value(0), call.value(1))


@TABLE.op("_mod_scalar", "_rmod_scalar")
def modulo_with_scalar(call: Call) -> Value:
    """Return the remainder, with the sign of the divisor."""
    operands = _with_number(call)
    return _modulo(call, *(operands if call.operator == "_mod_scalar" else operands[::-1]))


def _modulo(call: Call, x: Value, y: Value) -> Value:
    """Return the remainder with the divisor's sign, and 0 for the divisor 0."""
    zero = call.scalar_like(0, x)
    if not formulas.is_floating(call.dtype_of(x)):
        safe = call.op("Where", call.op("Equal", y, zero), call.scalar_like(1, x), y)
        return call.op("Mod", x, safe)
    remainder = call.op("Mod", x, y, fmod=1)
    differs = call.op("Less", call.op("Mul", remainder, y), zero)
    signed = call.op("Where", differs, call.op("Add", remainder, y), remainder)
    return call.op("Where", call.op("Equal", y, zero), zero, signed)


@TABLE.op("square")
def square(call: Call) -> Value:
    """X * x."""
    return formulas.square(call, call.value(0))


@TABLE.op("clip")
def clip(call: Call) -> Value:
    """Between `a_min` and `a_max`."""
    return formulas.clip(call, call.value(0), call.float("a_min"), call.float("a_max"))


@TABLE.op("_hypot_scalar")
def hypotenuse_with_scalar(call: Call) -> Value:
    """Return sqrt(x * x + y * y)."""
    return in_floats(call, lambda x, y: formulas.hypotenuse(call, x, y), *_with_number(call))


@TABLE.op("smooth_l1")
def smooth_l1(call: Call) -> Value:
    """Quadratic near 0, linear beyond 1 / sigma squared; 0 for a sigma of 0."""
    x, square = call.value(0), call.float("scalar", 1.0) ** 2
    call.ignore("is_int")
    if square == 0:
        return call.op("Mul", x, call.scalar_like(0, x))

    def smooth(x: Value) -> Value:
        size = call.op("Abs", x)
        near = call.op("Mul", call.op("Mul", x, x), call.scalar_like(0.5 * square, x))
        far = call.op("Sub", size, call.scalar_like(0.5 / square, x))
        return call.op("Where", call.op("Less", size, call.scalar_like(1 / square, x)), near, far)

    return in_floats(call, smooth, x)


@TABLE.op("add_n")
def add_all(call: Call) -> Value:
    """Return the sum of all operands; ONNX's is of floating-point numbers."""
    first, *others = call.operands()
    if formulas.is_floating(call.dtype_of(first)):
        return call.op("Sum", first, *others)
    for other in others:
        first = call.op("Add", first, other)
    return first


@TABLE.op("_contrib_div_sqrt_dim")
def div_sqrt_dim(call: Call) -> Value:
    """Divided by the root of the size of the last axis."""
    (size,) = call.static_shape(axes=[-1])
    return call.op("Div", call.value(0), call.scalar_like(size**0.5, call.value(0)))


@TABLE.op("Cast", "amp_cast")
def cast(call: Call) -> Value:
    """Another element type; floats are cut off on their way to integers."""
    return call.cast(call.value(0), call.text("dtype"))


@TABLE.op("_contrib_quadratic")
def quadratic(call: Call) -> Value:
    """Return ``a * x * x + b * x + c``."""
    x = Term(call.b, call.value(0))
    a, b, c = (call.float(key, 0.0) for key in "abc")
    return (x * x * a + x * b + c).value


@TABLE.op("_contrib_allclose")
def all_close(call: Call) -> Value:
    """Return 1 if all differences are within a share and a number, else 0."""
    x, y = (Term(call.b, v) for v in call.operands())
    share, most, equal_nan = call.float("rtol", 1e-5), call.float("atol", 1e-8), call.flag("equal_nan", True)
    near = x.equals(y) | (abs(x - y) <= abs(y) * share + most)
    if equal_nan:
        near = near | (x.op("IsNaN") & y.op("IsNaN"))
    return call.cast(call.op("ReduceMin", near.cast("int32").value, keepdims=0), "uint8")


@TABLE.op("_histogram")
def histogram(call: Call) -> list[Value]:
    """Count the values in each bin, the last one closed, and return the ends of the bins."""
    x, count = call.value(0), call.text("bin_cnt", "None")
    flat = Term(call.b, call.op("Reshape", x, call.constant([-1])))
    if count == "None":
        call.ignore("range")
        ends = Term(call.b, call.value(1))
        (size,) = call.static_shape(ends.value, [0])
    else:
        low, high = call.floats("range")
        size = call.int("bin_cnt") + 1
        call.bounded(size)
        ends = Term(call.b, call.constant(np.linspace(low, high, size), flat.dtype))
    last, first = (Term(call.b, call.constant([a])) for a in (1, 0))
    at = [Term(call.b, call.constant([n])) for n in (0, 1, size - 1, size)]
    left, right = ends.op("Slice", at[0], at[2]), ends.op("Slice", at[1], at[3])
    values = flat.op("Unsqueeze", last)
    final = Term(call.b, call.constant(np.arange(size - 1) == size - 2))
    inside = (values >= left) & ((values < right) | (final & values.equals(right)))
    counts = inside.cast("int64").op("ReduceSum", first, keepdims=0)
    return [counts.value, ends.value]
