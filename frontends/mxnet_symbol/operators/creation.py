"""Constants."""

from __future__ import annotations

from math import prod

import numpy as np

from ....ir import TensorType, Value, numpy_dtype
from ..call import Use, new_table

TABLE = new_table()


@TABLE.op("_zeros", "_ones", "_full")
def filled(use: Use) -> Value:
    """An array of one number."""
    use.attrs.ignore("ctx")
    shape, dtype = use.attrs.ints("shape", ()), use.attrs.text("dtype", "float32")
    value = use.attrs.float("value") if use.node.op == "_full" else float(use.node.op == "_ones")
    if any(d < 1 for d in shape):  # 0 is a batch that only the users of the value tell
        raise use.unsupported(f"expected a known shape, got {shape}")
    use.bounded(prod(shape))
    return use.b.constant(np.full(shape, value, numpy_dtype("float32" if dtype == "None" else dtype)))


@TABLE.op("zeros_like", "ones_like")
def filled_like(use: Use) -> Value:
    """Zeros or ones of the shape of another value."""
    b, x, dtype = use.b, use.x, use.attrs.text("dtype", "None")
    type_ = TensorType(use.dtype(x) if dtype == "None" else dtype, use.shape(x))
    value = b.constant(float(use.node.op == "ones_like"), type_.dtype)
    return b.op("Expand", value, b.op("Shape", x), types=[type_])


@TABLE.op("_arange")
def arange(use: Use) -> Value:
    """Numbers from `start` to before `stop`, each `repeat` times; one number alone is the stop."""
    use.attrs.ignore("ctx", "infer_range")
    start, stop = use.attrs.float("start", 0.0), use.attrs.text("stop", "None")
    step, times = use.attrs.float("step", 1.0), use.attrs.int("repeat", 1)
    dtype = use.attrs.text("dtype", "float32")
    low, high = (0.0, start) if stop == "None" else (start, use.attrs.float("stop"))
    use.bounded((high - low) / step * times)
    return use.b.constant(np.repeat(np.arange(low, high, step), times).astype(numpy_dtype(dtype)))


@TABLE.op("_linspace")
def linspace(use: Use) -> Value:
    """`num` numbers from `start` to `stop`."""
    use.attrs.ignore("ctx")
    start, stop, count = use.attrs.float("start"), use.attrs.float("stop"), use.attrs.int("num")
    use.bounded(count)
    values = np.linspace(start, stop, count, endpoint=use.attrs.flag("endpoint", default=True))
    return use.b.constant(values.astype(numpy_dtype(use.attrs.text("dtype", "float32"))))


@TABLE.op("_eye")
def eye(use: Use) -> Value:
    """Ones on a diagonal."""
    use.attrs.ignore("ctx")
    rows, columns, offset = use.attrs.int("N"), use.attrs.int("M", 0), use.attrs.int("k", 0)
    use.bounded(rows * (columns or rows))
    return use.b.constant(
        np.eye(rows, columns or rows, offset, numpy_dtype(use.attrs.text("dtype", "float32")))
    )


@TABLE.op("_contrib_arange_like")
def arange_like(use: Use) -> Value:
    """As many numbers as an axis, or the whole of another value, has."""
    x, axis = use.x, use.attrs.optional_int("axis")
    start, step, times = (
        use.attrs.float("start", 0.0),
        use.attrs.float("step", 1.0),
        use.attrs.int("repeat", 1),
    )
    use.attrs.ignore("ctx")
    rank = use.rank(x)
    sizes = use.static(x, range(rank) if axis is None else [use.axis(axis, rank)])
    count = int(np.prod(sizes))
    values = start + step * (np.arange(count) // times)
    return use.b.constant(values.reshape(sizes).astype(numpy_dtype(use.dtype(x))))
