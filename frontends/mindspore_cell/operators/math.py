"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

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
    """Both operands in the result's element type; in-place forms are out of place, as in PyNative.

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
    """The primitive computes the natural logarithm; its attributes belong to another backend."""
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


@TABLE.op("FloorDiv")
def floor_div(call: Call) -> Value:
    first, second = _same_type(call)
    if formulas.is_floating(call.dtype):
        return call.op("Floor", call.op("Div", first, second))
    raise call.unsupported(f"expected floats, got {call.dtype}: ONNX divides integers towards zero")


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


@TABLE.op("Select", "MaskedFill")
def select(call: Call) -> Value:
    """Select(condition, x, y); MaskedFill(x, mask, value)."""
    if call.operator == "Select":
        return call.op("Where", *(call.value(i) for i in range(3)))
    return call.op("Where", call.value(1), call.operand(2, call.dtype), call.value(0))


@TABLE.op("ClampScalar")
def clamp(call: Call) -> Value:
    x = call.value(0)
    bounds = [None if call.arg(i, None) is None else call.scalar_like(call.float(i), x) for i in (1, 2)]
    return call.op("Clip", x, *bounds)


def _same_type(call: Call) -> tuple[Value, Value]:
    """Two operands to compare; a Python number takes the other's type, and two tensors the wider one."""
    kinds = [type(call.arg(i)) for i in (0, 1)]
    known = [call.dtype_of(call.value(i)) for i, kind in enumerate(kinds) if kind not in (int, float, bool)]
    floats = [dtype for dtype in known if "float" in dtype]
    dtype = (floats or known or ["float32"])[0]
    if not floats and float in kinds:
        dtype = "float32"
    return call.operand(0, dtype), call.operand(1, dtype)
