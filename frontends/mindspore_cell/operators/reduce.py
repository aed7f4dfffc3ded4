"""Reductions."""

from __future__ import annotations

from math import prod

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
_REDUCTIONS = {
    "ReduceMean": "ReduceMean",
    "ReduceSum": "ReduceSum",
    "ReduceMax": "ReduceMax",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "SumExt": "ReduceSum",
    "MeanExt": "ReduceMean",
    "ProdExt": "ReduceProd",
}


@TABLE.op(*_REDUCTIONS)
def reduce(call: Call) -> Value:
    """No axes means all of them; the Ext forms may name a result type; ReduceSum may skip on empty axes."""
    x = call.value(0)
    axes = [] if call.arg(1, None) is None else call.ints(1)
    keep = call.flag(2, False)
    if call.operator in ("SumExt", "MeanExt", "ProdExt"):
        call.ignore(3)  # the result's type, which MindIR states as the node's own
        x = call.cast(x, call.dtype)
    elif call.operator == "ReduceSum" and call.arg(3, False) and not axes:
        return x
    return call.op(_REDUCTIONS[call.operator], x, call.constant(axes) if axes else None, keepdims=int(keep))


@TABLE.op("ReduceAll", "ReduceAny")
def reduce_logic(call: Call) -> Value:
    """All is the minimum of 0 and 1, any the maximum; a number other than 0 is 1."""
    x = call.cast(call.cast(call.value(0), "bool"), "int32")
    axes = [] if call.arg(1, None) is None else call.ints(1)
    op = "ReduceMin" if call.operator == "ReduceAll" else "ReduceMax"
    found = call.op(op, x, call.constant(axes) if axes else None, keepdims=call.flag(2, False))
    return call.cast(found, "bool")


@TABLE.op("Max", "Min")
def extreme(call: Call) -> Value:
    """Find the extreme over all elements."""
    return call.op("ReduceMax" if call.operator == "Max" else "ReduceMin", call.value(0), keepdims=0)


@TABLE.op("ArgMaxWithValue", "ArgMinWithValue")
def extreme_with_index(call: Call) -> tuple[Value, Value]:
    """Return (indices, values) along one axis."""
    x, axis, keep = call.value(0), call.int(1), call.flag(2, False)
    largest = call.operator == "ArgMaxWithValue"
    index = call.cast(call.op("ArgMax" if largest else "ArgMin", x, axis=axis, keepdims=keep), call.dtype)
    value = call.op("ReduceMax" if largest else "ReduceMin", x, call.constant([axis]), keepdims=keep)
    return index, value


@TABLE.op("MaxDim", "MinDim")
def extreme_of_axis(call: Call) -> tuple[Value, Value]:
    """Return (values, indices) along one axis."""
    x, axis, keep = call.value(0), call.int(1), call.flag(2)
    kind = call.operator.removesuffix("Dim")
    value = call.op(f"Reduce{kind}", x, call.constant([axis]), keepdims=keep)
    return value, call.op(f"Arg{kind}", x, axis=axis, keepdims=keep)


@TABLE.op("Argmax", "Argmin")
def arg_extreme(call: Call) -> Value:
    """Return the first of equals; the result's type is named."""
    op = "ArgMax" if call.operator == "Argmax" else "ArgMin"
    return call.cast(call.op(op, call.value(0), axis=call.int(1), keepdims=0), call.element_type(2))


@TABLE.op("CumSum")
def cumulative_sum(call: Call) -> Value:
    return call.op(
        "CumSum", call.value(0), call.constant(call.int(1)), exclusive=call.int(2), reverse=call.int(3)
    )


@TABLE.op("CumProd")
def cumulative_product(call: Call) -> Value:
    """Lower a cumulative product that is neither exclusive nor from the end."""
    call.require(2, False)
    call.require(3, False)
    return _scan(call, "CumProd")[0]


@TABLE.op("CumulativeLogsumexp")
def cumulative_log_sum_exp(call: Call) -> Value:
    call.require("exclusive", False)
    call.require("reverse", False)
    return _scan(call, "LogCumSumExp")[0]


@TABLE.op("Cummax", "Cummin")
def cumulative_extreme(call: Call) -> tuple[Value, Value]:
    """Lower a cumulative extreme, whose places are int64 or int32 by its operator."""
    values, indices = _scan(call, call.operator.replace("Cumm", "CumM"), 2)
    return values, call.cast(indices, call.result_type(1).dtype)


def _scan(call: Call, composite: str, outputs: int = 1) -> list[Value]:
    axis = call.int(1)
    call.static_shape(axes=[axis])
    return call.ops(f"regraft.{composite}", call.value(0), outputs=outputs, axis=axis)


@TABLE.op("LpNorm")
def lp_norm(call: Call) -> Value:
    """P = 1 or 2; the epsilon only guards a division that this primitive does not do."""
    order, axes = call.int("p"), call.ints("axis")
    call.ignore("epsilon")
    keep = call.flag("keep_dims")
    if order not in (1, 2):
        raise call.unsupported(f"expected p of 1 or 2, got {order}")
    return call.op(f"ReduceL{order}", call.value(0), call.constant(axes), keepdims=keep)


@TABLE.op("ReduceStd")
def std_and_mean(call: Call) -> tuple[Value, Value]:
    """Return (standard deviation, mean); unbiased divides by n - 1."""
    x, axes, keep = call.value(0), call.ints(1), call.flag(3)
    unbiased = call.flag(2)
    count = prod(call.static_shape(x, axes or None))
    picked = call.constant(axes) if axes else None
    mean = call.op("ReduceMean", x, picked, keepdims=1)
    total = call.op("ReduceSumSquare", call.op("Sub", x, mean), picked, keepdims=keep)
    variance = call.op("Div", total, call.scalar_like(count - 1 if unbiased else count, x))
    plain = mean if keep else call.op("ReduceMean", x, picked, keepdims=0)
    return call.op("Sqrt", variance), plain
