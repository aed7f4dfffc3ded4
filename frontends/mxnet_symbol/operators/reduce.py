"""Reductions; MXNet has no arrays without dimensions, so that a full one gives the shape (1,)."""

from __future__ import annotations

import math

from ....ir import Value
from ...formulas import is_floating
from ...lowering_table import LoweringTable
from ..call import Call
from .functions import in_floats

TABLE = LoweringTable[Call]("MXNet")

_REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
}


def _axes(call: Call, rank: int) -> tuple[list[int], bool]:
    """Return the axes to reduce, and whether they are kept with size 1."""
    given = call.optional_ints("axis")
    axes = [call.from_front(a, rank) for a in given or [] if a is not None]
    if call.flag("exclude"):
        axes = [a for a in range(rank) if a not in axes]
    elif not axes:
        axes = list(range(rank))
    return axes, call.flag("keepdims")


def _finish(call: Call, y: Value) -> Value:
    return call.op("Reshape", y, call.constant([1])) if call.rank(y) == 0 else y


def reduced(call: Call, target: str, x: Value, axes: list[int], *, keep: bool) -> Value:
    """Return a reduction over some axes, without dimensions where it is over all."""
    if not axes:
        return x
    dtype = call.dtype_of(x)
    if dtype in ("int8", "uint8") and target not in ("ReduceMax", "ReduceMin"):  # ONNX has no sums of 8 bits
        return call.cast(reduced(call, target, call.cast(x, "int32"), axes, keep=keep), dtype)
    sizes = [call.shape(x)[a] for a in axes]
    if target == "ReduceMean" and not is_floating(dtype) and all(isinstance(n, int) for n in sizes):
        total = reduced(call, "ReduceSum", x, axes, keep=keep)
        return call.op("Div", total, call.scalar_like(math.prod(sizes), total))
    return call.op(target, x, call.constant(axes), keepdims=keep)


@TABLE.op(*_REDUCTIONS)
def reduction(call: Call) -> Value:
    """Reduce over `axis`, or over all other axes with `exclude`."""
    axes, keep = _axes(call, call.rank())
    if call.text("dtype", "None") != "None":
        raise call.unsupported("expected no dtype to accumulate in")
    return _finish(call, reduced(call, _REDUCTIONS[call.operator], call.value(0), axes, keep=keep))


@TABLE.op("nansum", "nanprod")
def reduction_without_nan(call: Call) -> Value:
    """Return sums and products that leave NaN out."""
    x = call.value(0)
    axes, keep = _axes(call, call.rank(x))
    neutral = 0 if call.operator == "nansum" else 1
    if is_floating(call.dtype_of(x)):
        x = call.op("Where", call.op("IsNaN", x), call.scalar_like(neutral, x), x)
    found = reduced(call, _REDUCTIONS[call.operator.removeprefix("nan")], x, axes, keep=keep)
    return _finish(call, found)


@TABLE.op("norm")
def norm(call: Call) -> Value:
    """Return the sum of absolute values, or the root of the sum of squares."""
    order = call.int("ord", 2)
    axes, keep = _axes(call, call.rank())
    call.ignore("out_dtype")
    if order not in (1, 2):
        raise call.unsupported(f"expected ord 1 or 2, got {order}")
    found = in_floats(call, lambda x: reduced(call, f"ReduceL{order}", x, axes, keep=keep), call.value(0))
    return _finish(call, found)


@TABLE.op("argmax", "argmin")
def arg_extreme(call: Call) -> Value:
    """Return the place of the extreme, in the type of the data; without an axis, in the flattened data."""
    x, axis = call.value(0), call.optional_int("axis")
    keep = call.flag("keepdims")
    target = "ArgMax" if call.operator == "argmax" else "ArgMin"
    if axis is None:
        flat = call.op("Reshape", x, call.constant([-1]))
        found, rank = call.op(target, flat, axis=0, keepdims=1), call.rank(x)
        found = call.op("Reshape", found, call.constant([1] * rank)) if keep else found
    else:
        found = _finish(call, call.op(target, x, axis=call.from_front(axis, call.rank(x)), keepdims=keep))
    return call.cast(found, call.dtype_of(x))


@TABLE.op("argmax_channel")
def argmax_channel(call: Call) -> Value:
    """Return the place of the maximum along axis 1, in the type of the data."""
    return call.cast(call.op("ArgMax", call.value(0), axis=1, keepdims=0), call.dtype_of())


@TABLE.op("moments")
def moments(call: Call) -> list[Value]:
    """Mean and variance."""
    x, keep = call.value(0), call.flag("keepdims")
    given = call.optional_ints("axes") or range(call.rank(x))
    axes = call.constant([call.from_front(a or 0, call.rank(x)) for a in given])
    centred = call.op("Sub", x, call.op("ReduceMean", x, axes))
    mean, variance = (
        call.op("ReduceMean", v, axes, keepdims=keep) for v in (x, call.op("Mul", centred, centred))
    )
    return [_finish(call, mean), _finish(call, variance)]


@TABLE.op("_np_cumsum")
def running_sum(call: Call) -> Value:
    """Return the sums of all elements up to each, along an axis or of all in order."""
    x, axis, dtype = call.value(0), call.optional_int("axis"), call.text("dtype", "None")
    x = x if dtype == "None" else call.cast(x, dtype)
    if axis is None:
        x, axis = call.op("Reshape", x, call.constant([-1])), 0
    return call.op("CumSum", x, call.constant(axis))
