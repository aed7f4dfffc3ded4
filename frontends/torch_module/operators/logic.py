"""Lowerings of comparison, logic, and the choice between values."""

from __future__ import annotations

from ....ir import Value
from ...formulas import is_floating
from ...lowering_table import Lowering, LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")

_COMPARISONS = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


def _comparison(op_type: str, negated: bool = False) -> Lowering[Call]:
    def compare(call: Call) -> Value:
        dtype = call.promoted("self", "other")
        if dtype == "bool" and op_type != "Equal":
            dtype = "int32"  # ONNX orders numbers only
        found = call.op(op_type, call.operand("self", dtype), call.operand("other", dtype))
        return call.op("Not", found) if negated else found

    return compare


for _name, _op_type in _COMPARISONS.items():
    TABLE.op(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_comparison(_op_type))
TABLE.op("aten.ne.Tensor", "aten.ne.Scalar")(_comparison("Equal", negated=True))


def _logical(op_type: str) -> Lowering[Call]:
    def logic(call: Call) -> Value:
        return call.op(op_type, call.operand("self", "bool"), call.operand("other", "bool"))

    return logic


def _bitwise(op_type: str) -> Lowering[Call]:
    def bitwise(call: Call) -> Value:
        kind = op_type if call.dtype == "bool" else f"Bitwise{op_type}"
        return call.op(kind, call.operand("self", call.dtype), call.operand("other", call.dtype))

    return bitwise


for _name, _op_type in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    TABLE.op(f"aten.logical_{_name}.default")(_logical(_op_type))
    TABLE.op(
        f"aten.__{_name}__.Tensor",
        f"aten.__{_name}__.Scalar",
        f"aten.bitwise_{_name}.Tensor",
        f"aten.bitwise_{_name}.Scalar",
    )(_bitwise(_op_type))


@TABLE.op("aten.logical_not.default")
def logical_not(call: Call) -> Value:
    """Not, of anything."""
    return call.op("Not", call.operand("self", "bool"))


@TABLE.op("aten.bitwise_not.default")
def bitwise_not(call: Call) -> Value:
    """Not of truth values, or of bits."""
    return call.op("Not" if call.dtype == "bool" else "BitwiseNot", call.value("self"))


# -- choice ----------------------------------------------------------------------------------------------


def _chosen(call: Call, condition: Value, x: Value, y: Value) -> Value:
    """Choose as `Where` does, which ONNX Runtime lacks for truth values."""
    if call.dtype != "bool":
        return call.op("Where", condition, x, y)
    return call.op("Or", call.op("And", condition, x), call.op("And", call.op("Not", condition), y))


@TABLE.op("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(call: Call) -> Value:
    """Return one or the other, element by element."""
    condition = call.operand("condition", "bool")
    return _chosen(call, condition, call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(call: Call) -> Value:
    """Return a value where the mask is true."""
    return _chosen(call, call.operand("mask", "bool"), call.operand("value", call.dtype), call.value("self"))


def _extreme(call: Call, op_type: str, x: Value, y: Value) -> Value:
    """Return the larger or smaller of two; of truth values, or and and."""
    return call.op({"Min": "And", "Max": "Or"}[op_type] if call.dtype == "bool" else op_type, x, y)


@TABLE.op("aten.clamp.default", "aten.clamp.Tensor")
def clamp(call: Call) -> Value:
    """Between two bounds, either of which may be absent."""
    x = call.operand("self", call.dtype)
    for name, op_type in (("min", "Max"), ("max", "Min")):
        if call.arg(name) is not None:
            x = _extreme(call, op_type, x, call.operand(name, call.dtype))
    return x


@TABLE.op("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(call: Call) -> Value:
    """No less than a bound."""
    return _extreme(call, "Max", call.operand("self", call.dtype), call.operand("min", call.dtype))


@TABLE.op("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(call: Call) -> Value:
    """No more than a bound."""
    return _extreme(call, "Min", call.operand("self", call.dtype), call.operand("max", call.dtype))


def _of_two(op_type: str, *, ignores_nan: bool) -> Lowering[Call]:
    def extreme(call: Call) -> Value:
        x, y = call.operand("self", call.dtype), call.operand("other", call.dtype)
        found = _extreme(call, op_type, x, y)
        if not ignores_nan or not is_floating(call.dtype):
            return found
        return call.op("Where", call.op("IsNaN", x), y, call.op("Where", call.op("IsNaN", y), x, found))

    return extreme


TABLE.op("aten.fmin.default")(_of_two("Min", ignores_nan=True))
TABLE.op("aten.fmax.default")(_of_two("Max", ignores_nan=True))
TABLE.op("aten.minimum.default", "aten.min.other")(_of_two("Min", ignores_nan=False))
TABLE.op("aten.maximum.default", "aten.max.other")(_of_two("Max", ignores_nan=False))
