"""Distinct elements, and how many fall into each bin."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...formulas import slice_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("Unique")
def unique(call: Call) -> tuple[Value, Value]:
    """Return the distinct elements in the order in which they occur, and which of them each element is."""
    return _distinct(call)


def _distinct(call: Call) -> tuple[Value, Value]:
    """Return the same; ONNX Runtime has kernels for few types."""
    x = call.value(0)
    dtype = call.dtype_of(x)
    wide = x if dtype in ("float32", "float64") else call.cast(x, "int64")
    found = call.ops("Unique", wide, outputs=3, sorted=0)
    return call.cast(found[0], dtype), call.cast(found[2], call.result_type(1).dtype)


@TABLE.op("UniqueWithPad")
def unique_filled_up(call: Call) -> tuple[Value, Value]:
    """Return the same, and as often another number as there were elements before."""
    x = call.value(0)
    values, places = _distinct(call)
    (size,) = call.static_shape()
    rest = call.op("Expand", call.operand(1, call.dtype_of(x)), call.constant([size]))
    filled = slice_axes(call, call.op("Concat", values, rest, axis=0), [0], [0], [size])
    return filled, places


@TABLE.op("Range")
def numbers_between(call: Call) -> Value:
    """Return numbers up to a limit that tensors may decide."""
    call.ignore(3)  # the most that there may be
    return call.op("Range", *(call.operand(at, call.dtype) for at in range(3)), types=[call.result_type(0)])


@TABLE.op("UniqueConsecutive")
def unique_runs(call: Call) -> tuple[Value | None, ...]:
    """The first element of each run of equal ones, which run each element is in, and how long they are."""
    if call.arg(3, None) is not None:
        raise call.unsupported("expected no axis")
    wanted = call.flag(1), call.flag(2)
    x = call.op("Reshape", call.value(0), call.constant([-1]))
    before, after = slice_axes(call, x, [0], [0], [-1]), slice_axes(call, x, [0], [1], [2**63 - 1])
    new, end = call.op("Not", call.op("Equal", before, after)), call.constant([True])
    first, last = call.op("Concat", end, new, axis=0), call.op("Concat", new, end, axis=0)
    run = count = None
    if wanted[0]:
        run = call.op("CumSum", call.cast(first, "int64"), call.constant(0))
        run = call.op("Sub", run, call.constant(1))
        run = run if call.rank() == 1 else call.op("Reshape", run, call.op("Shape", call.value(0)))
    if wanted[1]:
        begins, ends = (call.op("Reshape", call.op("NonZero", v), call.constant([-1])) for v in (first, last))
        count = call.op("Add", call.op("Sub", ends, begins), call.constant(1))
    return call.op("Compress", x, first), run, count


@TABLE.op("Histogram")
def histogram(call: Call) -> Value:
    """Count the elements in equal parts of a range; an empty range means that of the elements."""
    x = call.op("Reshape", call.value(0), call.constant([-1]))
    count, low, high = call.int("bins"), call.float("min"), call.float("max")
    x = call.cast(x, "float32")
    if low == high:
        least, most = (call.op(f"Reduce{kind}", x, keepdims=0) for kind in ("Min", "Max"))
        equal, one = call.op("Equal", least, most), call.scalar_like(1, x)
        least = call.op("Where", equal, call.op("Sub", least, one), least)
        most = call.op("Where", equal, call.op("Add", most, one), most)
    else:
        least, most = call.scalar_like(low, x), call.scalar_like(high, x)
    step = call.op("Div", call.op("Sub", most, least), call.scalar_like(count, x))
    place = call.op("Floor", call.op("Div", call.op("Sub", x, least), step))
    place = call.op("Min", place, call.scalar_like(count - 1, x))
    inside = call.op("And", call.op("GreaterOrEqual", x, least), call.op("LessOrEqual", x, most))
    place = call.op("Where", inside, place, call.scalar_like(-1, x))
    bins = call.constant(np.arange(count)[:, None], "float32")
    hits = call.cast(call.op("Equal", place, bins), call.dtype)
    return call.op("ReduceSum", hits, call.constant([1]), keepdims=0)
