"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")
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
def arithmetic(use: Use) -> Value:
    """Both operands in the result's element type; in-place forms are out of place, as in PyNative.

    Those with an `alpha` scale their second operand by it.
    """
    dtype = use.type.dtype
    first, second = as_type(use, use.tensor(0, _scalar_type(use, 0, dtype)), dtype), use.argument(1)
    second = as_type(use, use.as_value(second, _scalar_type(use, 1, dtype)), dtype)
    if use.node.op in _SCALED and use.float(2) != 1:
        second = use.b.op("Mul", second, use.b.scalar_like(use.float(2), second))
    return use.emit(_ARITHMETIC[use.node.op], first, second)


@TABLE.op(*_COMPARISON)
def comparison(use: Use) -> Value:
    first, second = _same_type(use)
    return use.emit(_COMPARISON[use.node.op], first, second)


@TABLE.op("NotEqual")
def not_equal(use: Use) -> Value:
    first, second = _same_type(use)
    return use.emit("Not", use.b.op("Equal", first, second))


@TABLE.op(*_LOGIC)
def logic(use: Use) -> Value:
    return use.emit(
        _LOGIC[use.node.op], as_type(use, use.tensor(0), "bool"), as_type(use, use.tensor(1), "bool")
    )


@TABLE.op("Cast")
def cast(use: Use) -> Value:
    return as_type(use, use.tensor(0), use.dtype(1))


@TABLE.op("Square")
def square(use: Use) -> Value:
    x = use.tensor(0)
    return use.emit("Mul", x, x)


@TABLE.op("Rsqrt")
def rsqrt(use: Use) -> Value:
    return use.emit("Reciprocal", use.b.op("Sqrt", use.tensor(0)))


@TABLE.op("Log")
def log(use: Use) -> Value:
    """The primitive computes the natural logarithm; its attributes belong to another backend."""
    use.attributes.ignore("cust_aicpu")
    if (
        use.attributes.get("base", -1.0),
        use.attributes.get("scale", 1.0),
        use.attributes.get("shift", 0.0),
    ) != (-1.0, 1.0, 0.0):
        raise use.unsupported("expected the natural logarithm of the operand itself")
    return use.emit("Log", use.tensor(0))


@TABLE.op("Log1p")
def log1p(use: Use) -> Value:
    x = use.tensor(0)
    return use.emit("Log", use.b.op("Add", x, use.b.scalar_like(1, x)))


@TABLE.op("Expm1")
def expm1(use: Use) -> Value:
    x = use.tensor(0)
    return use.emit("Sub", use.b.op("Exp", x), use.b.scalar_like(1, x))


@TABLE.op("Erfc")
def erfc(use: Use) -> Value:
    x = use.tensor(0)
    return use.emit("Sub", use.b.scalar_like(1, x), use.b.op("Erf", x))


@TABLE.op("FloorDiv")
def floor_div(use: Use) -> Value:
    first, second = _same_type(use)
    if use.type.dtype.startswith("float"):
        return use.emit("Floor", use.b.op("Div", first, second))
    raise use.unsupported(f"expected floats, got {use.type.dtype}: ONNX divides integers towards zero")


@TABLE.op("Addcmul", "Addcdiv")
def addc(use: Use) -> Value:
    """X + value * (a * b), or value * (a / b)."""
    x, a, b = (use.tensor(i) for i in range(3))
    combined = use.b.op("Mul" if use.node.op == "Addcmul" else "Div", a, b)
    scaled = use.b.op("Mul", combined, as_type(use, use.tensor(3), use.type.dtype))
    return use.emit("Add", x, scaled)


@TABLE.op("Lerp")
def lerp(use: Use) -> Value:
    """X + weight * (y - x)."""
    x, y = use.tensor(0), use.tensor(1)
    return use.emit(
        "Add", x, use.b.op("Mul", use.b.op("Sub", y, x), as_type(use, use.tensor(2), use.type.dtype))
    )


@TABLE.op("Round")
def round_(use: Use) -> Value:
    if use.argument(1, 0) != 0:
        raise use.unsupported("expected no decimals")
    return use.emit("Round", use.tensor(0))


@TABLE.op("Select", "MaskedFill")
def select(use: Use) -> Value:
    """Select(condition, x, y); MaskedFill(x, mask, value)."""
    if use.node.op == "Select":
        return use.emit("Where", *(use.tensor(i) for i in range(3)))
    return use.emit("Where", use.tensor(1), as_type(use, use.tensor(2), use.type.dtype), use.tensor(0))


@TABLE.op("ClampScalar")
def clamp(use: Use) -> Value:
    x = use.tensor(0)
    bounds = [None if use.argument(i) is None else use.b.scalar_like(use.float(i), x) for i in (1, 2)]
    return use.emit("Clip", x, *bounds)


def as_type(use: Use, value: Value, dtype: str) -> Value:
    """The value in another element type; itself when it has that type already."""
    from ....ir import onnx_dtype

    if use.b.type_of(value).dtype == dtype:
        return value
    return use.b.op("Cast", value, to=onnx_dtype(dtype))


def _scalar_type(use: Use, index: int, dtype: str) -> str | None:
    """The element type that a Python number takes: the result's."""
    return dtype if type(use.argument(index)) in (int, float, bool) else None


def _same_type(use: Use) -> tuple[Value, Value]:
    """Two operands to compare; a Python number takes the other's type, and two tensors the wider one."""
    types = [
        None if type(use.argument(i)) in (int, float, bool) else use.b.type_of(use.tensor(i)).dtype
        for i in (0, 1)
    ]
    known = [t for t in types if t is not None]
    floats = [t for t in known if "float" in t]
    dtype = (floats or known or ["float32"])[0]
    if not floats and any(type(use.argument(i)) is float for i in (0, 1)):
        dtype = "float32"
    first, second = (as_type(use, use.tensor(i, dtype if types[i] is None else None), dtype) for i in (0, 1))
    return first, second
