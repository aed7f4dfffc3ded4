"""Python numbers that come from tensors: what `.item()`, `int(x)` and `float(x)` give, and their arithmetic.

A Python float is a float64, as in PyNative; MindSpore's compiler says float32.
"""

from __future__ import annotations

from ....ir import Value
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
_ARITHMETIC = {
    "ScalarAdd": "Add",
    "ScalarSub": "Sub",
    "ScalarMul": "Mul",
    "ScalarDiv": "Div",
    "ScalarPow": "Pow",
}
_COMPARISON = {
    "ScalarEq": "Equal",
    "bool_eq": "Equal",
    "ScalarGt": "Greater",
    "ScalarGe": "GreaterOrEqual",
    "ScalarLt": "Less",
    "ScalarLe": "LessOrEqual",
}
_WIDTHS = ("bool", "int64", "float64")


@TABLE.op("TensorToScalar")
def number_of(call: Call) -> Value:
    """Return the one element of a tensor."""
    x = call.cast(call.value(0), call.dtype)
    return call.reshape(x, []) if call.shape(x) else x


@TABLE.op("ScalarToTensor", "ScalarCast")
def cast_number(call: Call) -> Value:
    """Return a number as another type; a float becomes an integer towards zero."""
    call.ignore(1)  # the type, which MindIR states as the node's own
    return call.operand(0, call.dtype)


@TABLE.op(*_ARITHMETIC)
def number_arithmetic(call: Call) -> Value:
    return call.op(_ARITHMETIC[call.operator], call.operand(0, call.dtype), call.operand(1, call.dtype))


@TABLE.op("ScalarFloorDiv", "ScalarMod")
def divide_number(call: Call) -> Value:
    """Return the quotient rounded down, or what it leaves."""
    x, y = call.operand(0, call.dtype), call.operand(1, call.dtype)
    whole = formulas.floor_divide if call.operator == "ScalarFloorDiv" else formulas.floor_remainder
    return whole(call, x, y)


@TABLE.op("ScalarUsub")
def negative_number(call: Call) -> Value:
    return call.op("Neg", call.operand(0, call.dtype))


@TABLE.op(*_COMPARISON)
def number_comparison(call: Call) -> Value:
    """Compare numbers, in the widest of their kinds."""
    widest = max(_WIDTHS.index(_kind(call, position)) for position in (0, 1))
    return call.op(_COMPARISON[call.operator], *(call.operand(i, _WIDTHS[widest]) for i in (0, 1)))


@TABLE.op("BoolNot")
def not_number(call: Call) -> Value:
    return call.op("Not", call.operand(0, "bool"))


@TABLE.op("bit_and", "bit_or")
def number_bits(call: Call) -> Value:
    name = "BitwiseAnd" if call.operator == "bit_and" else "BitwiseOr"
    return call.op(name, call.operand(0, call.dtype), call.operand(1, call.dtype))


def _kind(call: Call, position: int) -> str:
    """Return the kind of Python number that an operand is."""
    found = call.arg(position)
    if isinstance(found, bool):
        return "bool"
    if isinstance(found, (int, float)):
        return "int64" if isinstance(found, int) else "float64"
    dtype = call.dtype_of(call.value(position))
    return dtype if dtype == "bool" else "float64" if "float" in dtype else "int64"
