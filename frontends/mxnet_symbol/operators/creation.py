"""Constants."""

from __future__ import annotations

import math

import numpy as np

from ....ir import TensorType, Value, numpy_dtype
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


@TABLE.op("_zeros", "_ones", "_full")
def filled(call: Call) -> Value:
    """Return an array of one number."""
    call.ignore("ctx")
    shape, dtype = call.ints("shape", ()), call.text("dtype", "float32")
    value = call.float("value") if call.operator == "_full" else float(call.operator == "_ones")
    if any(d < 1 for d in shape):  # 0 is a batch that only the users of the value tell
        raise call.unsupported(f"expected a known shape, got {shape}")
    call.bounded(math.prod(shape))
    return call.constant(np.full(shape, value, numpy_dtype("float32" if dtype == "None" else dtype)))


@TABLE.op("zeros_like", "ones_like")
def filled_like(call: Call) -> Value:
    """Return zeros or ones of the shape and type of another value; MXNet does not read its `dtype`."""
    x = call.value(0)
    call.ignore("dtype")
    type_ = TensorType(call.dtype_of(x), call.shape(x))
    value = call.constant(float(call.operator == "ones_like"), type_.dtype)
    return call.op("Expand", value, call.op("Shape", x), types=[type_])


@TABLE.op("_arange")
def arange(call: Call) -> Value:
    """Return numbers from `start` to before `stop`, each `repeat` times; one number alone is the stop."""
    call.ignore("ctx", "infer_range")
    start, stop = call.float("start", 0.0), call.text("stop", "None")
    step, times = call.float("step", 1.0), call.int("repeat", 1)
    dtype = call.text("dtype", "float32")
    low, high = (0.0, start) if stop == "None" else (start, call.float("stop"))
    count = max(math.ceil((high - low) / step), 0)
    call.bounded(count * times)
    return call.constant(_row(low, step, np.arange(count).repeat(times), dtype))


def _row(start: float, step: float, numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers in steps; of whole numbers, and of float16, MXNet cuts off the start and the step first."""
    if dtype not in ("float32", "float64"):
        start, step = math.trunc(start), math.trunc(step)
    return (start + step * numbers).astype(numpy_dtype(dtype))


@TABLE.op("_linspace")
def linspace(call: Call) -> Value:
    """`num` numbers from `start` to `stop`."""
    call.ignore("ctx")
    start, stop, count = call.float("start"), call.float("stop"), call.int("num")
    call.bounded(count)
    values = np.linspace(start, stop, count, endpoint=call.flag("endpoint", default=True))
    return call.constant(values.astype(numpy_dtype(call.text("dtype", "float32"))))


@TABLE.op("_eye")
def eye(call: Call) -> Value:
    """Return ones on a diagonal."""
    call.ignore("ctx")
    rows, columns, offset = call.int("N"), call.int("M", 0), call.int("k", 0)
    call.bounded(rows * (columns or rows))
    return call.constant(np.eye(rows, columns or rows, offset, numpy_dtype(call.text("dtype", "float32"))))


@TABLE.op("_contrib_arange_like")
def arange_like(call: Call) -> Value:
    """Return as many numbers as an axis, or all of another value, has."""
    x, axis = call.value(0), call.optional_int("axis")
    start, step, times = (
        call.float("start", 0.0),
        call.float("step", 1.0),
        call.int("repeat", 1),
    )
    call.ignore("ctx")
    rank = call.rank(x)
    sizes = call.static_shape(x, range(rank) if axis is None else [call.from_front(axis, rank)])
    count = int(np.prod(sizes))
    values = _row(start, step, np.arange(count) // times, call.dtype_of(x))
    return call.constant(values.reshape(sizes))
