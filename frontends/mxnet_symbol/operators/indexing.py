"""Embeddings, gathering, selecting and sorting; MXNet's indices are floats by default."""

from __future__ import annotations

from math import prod

import numpy as np

from ....ir import Value, numpy_dtype
from ....ir.dims import product
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


def _clipped(call: Call, indices: Value, size: int) -> Value:
    """Return indices as integers, those outside moved to the nearest end."""
    return call.op("Clip", call.cast(indices, "int64"), call.constant(0), call.constant(size - 1))


def _wrapped(call: Call, indices: Value, size: int) -> Value:
    return call.op("Mod", call.cast(indices, "int64"), call.constant(size))


@TABLE.op("Embedding")
def embedding(call: Call) -> Value:
    """Return rows of the weight; indices outside are clipped."""
    ids, weight = call.operands()
    call.ignore("output_dim", "dtype", "sparse_grad")
    return call.op("Gather", weight, _clipped(call, ids, call.int("input_dim")), axis=0)


@TABLE.op("take")
def take(call: Call) -> Value:
    """Return slices by index along an axis; indices outside are clipped by default."""
    x, indices = call.operands()
    axis, mode = call.axis("axis", call.rank(x), 0), call.text("mode", "clip")
    if mode == "raise":
        return call.op("Gather", x, call.cast(indices, "int64"), axis=axis)
    (size,) = call.static_shape(x, [axis])
    if mode not in ("clip", "wrap"):
        raise call.unsupported(f"expected the mode clip, wrap or raise, got {mode}")
    found = _clipped(call, indices, size) if mode == "clip" else _wrapped(call, indices, size)
    return call.op("Gather", x, found, axis=axis)


@TABLE.op("pick")
def pick(call: Call) -> Value:
    """Return one element of every row."""
    x, indices = call.operands()
    axis, mode = (
        call.from_front(call.optional_int("axis", -1) or 0, call.rank(x)),
        call.text("mode", "clip"),
    )
    keep = call.flag("keepdims")
    (size,) = call.static_shape(x, [axis])
    found = _clipped(call, indices, size) if mode == "clip" else _wrapped(call, indices, size)
    if call.rank(found) < call.rank(x):
        found = call.op("Unsqueeze", found, call.constant([axis]))
    picked = call.op("GatherElements", x, found, axis=axis)
    return picked if keep else call.op("Squeeze", picked, call.constant([axis]))


@TABLE.op("batch_take")
def batch_take(call: Call) -> Value:
    """Return element `indices[i]` of row i."""
    x, indices = call.operands()
    (size,) = call.static_shape(x, [1])
    found = call.op("Unsqueeze", _clipped(call, indices, size), call.constant([1]))
    return call.op("Squeeze", call.op("GatherElements", x, found, axis=1), call.constant([1]))


@TABLE.op("gather_nd")
def gather_nd(call: Call) -> Value:
    """Return slices by coordinates, which lie along the first axis of the indices."""
    x, indices = call.operands()
    rank = call.rank(indices)
    last = call.op("Transpose", call.cast(indices, "int64"), perm=[*range(1, rank), 0])
    return call.op("GatherND", x, last)


@TABLE.op("one_hot")
def one_hot(call: Call) -> Value:
    """Return a row of `depth` for every index, all off for an index outside."""
    depth = call.int("depth")
    call.bounded(depth)
    on, off = call.float("on_value", 1.0), call.float("off_value", 0.0)
    dtype = call.text("dtype", "float32")
    ids = call.op("Unsqueeze", call.cast(call.value(0), "int64"), call.constant([call.rank()]))
    hit = call.op("Equal", ids, call.constant(list(range(depth))))  # a row outside the range is all off
    return call.op("Where", hit, call.constant(on, dtype), call.constant(off, dtype))


@TABLE.op("where")
def where(call: Call) -> Value:
    """Return one or the other; a condition of one axis selects whole rows."""
    condition, x, y = call.operands()
    if call.rank(condition) == 1 and call.rank(x) > 1:  # selects whole rows
        condition = call.reshape(condition, [*call.shape(condition), *[1] * (call.rank(x) - 1)])
    return call.op("Where", call.cast(condition, "bool"), x, y)


@TABLE.op("topk")
def topk(call: Call) -> list[Value]:
    """Return the first k in order, largest first by default; indices are float32 by default."""
    x, axis = call.value(0), call.optional_int("axis", -1)
    count, kind = call.int("k", 1), call.text("ret_typ", "indices")
    ascending, dtype = call.flag("is_ascend"), call.text("dtype", "float32")
    if kind not in ("indices", "value", "both", "mask"):
        raise call.unsupported(f"expected ret_typ indices, value, both or mask, got {kind}")
    values, indices = _sorted(call, x, axis, count, ascending=ascending)
    if kind == "mask":
        return [_mask(call, x, indices, axis)]
    found = {"value": [values], "indices": [call.cast(indices, dtype)]}
    if kind == "both":
        return [*found["value"], *found["indices"]]
    call.type_of(values)
    return found[kind]


def _mask(call: Call, x: Value, indices: Value, axis: int | None) -> Value:
    """1 at these places along an axis, or in the flattened data, and 0 elsewhere."""
    zeros = call.op("Expand", call.scalar_like(0, x), call.op("Shape", x), types=[call.type_of(x)])
    flat = call.reshape(zeros, [product(call.shape(x))]) if axis is None else zeros
    ones = call.op("Expand", call.scalar_like(1, x), call.op("Shape", indices))
    marked = call.op("ScatterElements", flat, indices, ones, axis=call.from_front(axis or 0, call.rank(flat)))
    return call.reshape(marked, call.shape(x))


@TABLE.op("sort")
def sort(call: Call) -> Value:
    """All in order, smallest first by default."""
    ascending = call.flag("is_ascend", default=True)
    return _sorted(call, call.value(0), call.optional_int("axis", -1), 0, ascending=ascending)[0]


@TABLE.op("argsort")
def argsort(call: Call) -> Value:
    """Return the indices that sort, float32 by default."""
    ascending, dtype = call.flag("is_ascend", default=True), call.text("dtype", "float32")
    found = _sorted(call, call.value(0), call.optional_int("axis", -1), 0, ascending=ascending)
    return call.cast(found[1], dtype)


def _sorted(call: Call, x: Value, axis: int | None, count: int, *, ascending: bool) -> list[Value]:
    """(values, indices) of the first `count` in order, all when it is 0; without an axis of all values."""
    if axis is None:
        x, axis = call.reshape(x, [product(call.shape(x))]), 0
    axis = call.from_front(axis, call.rank(x))
    if count < 1:
        (count,) = call.static_shape(x, [axis])
    if call.dtype_of(x) == "uint8":  # of which MindSpore's kernel has no smallest ones
        wide = call.cast(x, "int32")
        values, indices = _sorted(call, wide, axis, count, ascending=ascending)
        return [call.cast(values, "uint8"), indices]
    return call.ops("TopK", x, call.constant([count]), outputs=2, axis=axis, largest=not ascending, sorted=1)


@TABLE.op("scatter_nd", "_backward_gather_nd")
def scatter_nd(call: Call) -> Value:
    """Return zeros with elements or slices at coordinates, which lie along the first axis of the indices.

    The second, whose name says what it is for, adds up what goes to one place.
    """
    x, indices = call.operands()
    shape = call.ints("shape")
    call.bounded(prod(shape))
    places = call.op("Transpose", call.cast(indices, "int64"), perm=[*range(1, call.rank(indices)), 0])
    zeros = call.constant(np.zeros(shape, numpy_dtype(call.dtype_of(x))))
    adds = call.node.op == "_backward_gather_nd"
    return call.op("ScatterND", zeros, places, x, reduction="add" if adds else None)


@TABLE.op("_contrib_index_copy")
def index_copy(call: Call) -> Value:
    """Return rows put in the place of others."""
    x, indices, rows = call.operands()
    return call.op(
        "ScatterND", x, call.op("Unsqueeze", call.cast(indices, "int64"), call.constant([1])), rows
    )


@TABLE.op("_contrib_index_array")
def index_array(call: Call) -> Value:
    """Return the coordinates of every element, or those along some axes."""
    call.value(0)  # of which only the shape counts
    rank = call.rank()
    axes = [call.from_front(a, rank) for a in call.optional_ints("axes") or range(rank) if a is not None]
    ones = call.op("Expand", call.constant(1), call.op("Shape", call.value(0)))
    found: list[Value] = []
    for axis in axes:
        counted = call.op("CumSum", ones, call.constant(axis), exclusive=1)
        found.append(call.op("Unsqueeze", counted, call.constant([rank])))
    return call.op("Concat", *found, axis=rank)


@TABLE.op("_slice_assign", "_slice_assign_scalar")
def slice_assign(call: Call) -> Value:
    """Return a value with another, or a number, in the place of a slice."""
    x, rank = call.value(0), call.rank()
    begin, end = (call.optional_ints(key) or [] for key in ("begin", "end"))
    steps = call.optional_ints("step") or []
    put = call.value(1) if call.operator == "_slice_assign" else None
    inside: Value | None = None
    for axis in range(min(rank, len(begin))):
        cut = slice(begin[axis], end[axis], steps[axis] if axis < len(steps) else None)
        if cut in (slice(None), slice(0, None)):
            continue
        (size,) = call.static_shape(x, [axis])
        places = np.arange(size)[cut]
        sources = np.zeros(size, np.int64)
        sources[places] = np.arange(len(places))
        if not len(places):
            return x
        here = np.zeros(size, bool)
        here[places] = True
        chosen = call.constant(here.reshape(-1, *[1] * (rank - axis - 1)))
        inside = chosen if inside is None else call.op("And", inside, chosen)
        put = put if put is None else call.op("Gather", put, call.constant(sources), axis=axis)
    number = call.float("scalar", 0.0) if put is None else 0.0
    new = call.scalar_like(number, x) if put is None else put
    if inside is not None:
        return call.op("Where", inside, new, x)
    return new if put is not None else call.op("Expand", new, call.op("Shape", x))


@TABLE.op("_ravel_multi_index")
def ravel_multi_index(call: Call) -> Value:
    """Return places in a flat array from coordinates, which lie along the first axis."""
    x, shape = call.value(0), call.ints("shape")
    strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1).astype(np.float64)
    strides = call.constant(strides.reshape(-1, *[1] * (call.rank() - 1)), call.dtype_of(x))
    return call.op("ReduceSum", call.op("Mul", x, strides), call.constant([0]), keepdims=0)


@TABLE.op("_unravel_index")
def unravel_index(call: Call) -> Value:
    """Return coordinates, along a first axis, from places in a flat array."""
    x, shape = call.value(0), call.ints("shape")
    left, found = call.cast(x, "int64"), []
    for size in shape[::-1]:
        found.append(call.op("Unsqueeze", call.op("Mod", left, call.constant(size)), call.constant([0])))
        left = call.op("Div", left, call.constant(size))
    return call.cast(call.op("Concat", *found[::-1], axis=0), call.dtype_of(x))
