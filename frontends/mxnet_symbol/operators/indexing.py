"""Embeddings, gathering, selecting and sorting; MXNet's indices are floats unless told otherwise."""

from __future__ import annotations

from ....ir import Value
from ..call import Use, new_table
from ..dimensions import product

TABLE = new_table()


def _clipped(use: Use, indices: Value, size: int) -> Value:
    """Indices as integers, those outside moved to the nearest end."""
    b = use.b
    return b.op("Clip", use.cast(indices, "int64"), b.constant(0), b.constant(size - 1))


def _wrapped(use: Use, indices: Value, size: int) -> Value:
    return use.b.op("Mod", use.cast(indices, "int64"), use.b.constant(size))


@TABLE.op("Embedding")
def embedding(use: Use) -> Value:
    """Rows of the weight; indices outside are clipped."""
    ids, weight = use.values()
    use.attrs.ignore("output_dim", "dtype", "sparse_grad")
    return use.b.op("Gather", weight, _clipped(use, ids, use.attrs.int("input_dim")), axis=0)


@TABLE.op("take")
def take(use: Use) -> Value:
    """Slices by index along an axis; indices outside are clipped unless told."""
    x, indices = use.values()
    axis, mode = use.axis(use.attrs.int("axis", 0), use.rank(x)), use.attrs.text("mode", "clip")
    if mode == "raise":
        return use.b.op("Gather", x, use.cast(indices, "int64"), axis=axis)
    (size,) = use.static(x, [axis])
    if mode not in ("clip", "wrap"):
        raise use.unsupported(f"expected the mode clip, wrap or raise, got {mode}")
    found = _clipped(use, indices, size) if mode == "clip" else _wrapped(use, indices, size)
    return use.b.op("Gather", x, found, axis=axis)


@TABLE.op("pick")
def pick(use: Use) -> Value:
    """One element of every row."""
    b, (x, indices) = use.b, use.values()
    axis, mode = (
        use.axis(use.attrs.optional_int("axis", -1) or 0, use.rank(x)),
        use.attrs.text("mode", "clip"),
    )
    keep = use.attrs.flag("keepdims")
    (size,) = use.static(x, [axis])
    found = _clipped(use, indices, size) if mode == "clip" else _wrapped(use, indices, size)
    if use.rank(found) < use.rank(x):
        found = b.op("Unsqueeze", found, b.constant([axis]))
    picked = b.op("GatherElements", x, found, axis=axis)
    return picked if keep else b.op("Squeeze", picked, b.constant([axis]))


@TABLE.op("batch_take")
def batch_take(use: Use) -> Value:
    """Element `indices[i]` of row i."""
    b, (x, indices) = use.b, use.values()
    (size,) = use.static(x, [1])
    found = b.op("Unsqueeze", _clipped(use, indices, size), b.constant([1]))
    return b.op("Squeeze", b.op("GatherElements", x, found, axis=1), b.constant([1]))


@TABLE.op("gather_nd")
def gather_nd(use: Use) -> Value:
    """Slices by coordinates, which lie along the first axis of the indices."""
    b, (x, indices) = use.b, use.values()
    rank = use.rank(indices)
    last = b.op("Transpose", use.cast(indices, "int64"), perm=[*range(1, rank), 0])
    return b.op("GatherND", x, last)


@TABLE.op("one_hot")
def one_hot(use: Use) -> Value:
    """A row of `depth` for every index, all off for an index outside."""
    b, depth = use.b, use.attrs.int("depth")
    use.bounded(depth)
    on, off = use.attrs.float("on_value", 1.0), use.attrs.float("off_value", 0.0)
    dtype = use.attrs.text("dtype", "float32")
    ids = b.op("Unsqueeze", use.cast(use.x, "int64"), b.constant([use.rank(use.x)]))
    hit = b.op("Equal", ids, b.constant(list(range(depth))))  # a row outside the range is all off
    return b.op("Where", hit, b.constant(on, dtype), b.constant(off, dtype))


@TABLE.op("where")
def where(use: Use) -> Value:
    """One or the other; a condition of one axis selects whole rows."""
    condition, x, y = use.values()
    if use.rank(condition) == 1 and use.rank(x) > 1:  # selects whole rows
        condition = use.reshape(condition, [*use.shape(condition), *[1] * (use.rank(x) - 1)])
    return use.b.op("Where", use.cast(condition, "bool"), x, y)


@TABLE.op("topk")
def topk(use: Use) -> list[Value]:
    """The first k in order, largest first unless told; indices are float32 unless told."""
    b, x, axis = use.b, use.x, use.attrs.optional_int("axis", -1)
    count, kind = use.attrs.int("k", 1), use.attrs.text("ret_typ", "indices")
    ascending, dtype = use.attrs.flag("is_ascend"), use.attrs.text("dtype", "float32")
    if kind not in ("indices", "value", "both"):
        raise use.unsupported(f"expected ret_typ indices, value or both, got {kind}")
    values, indices = _sorted(use, x, axis, count, ascending=ascending)
    found = {"value": [values], "indices": [use.cast(indices, dtype)]}
    if kind == "both":
        return [*found["value"], *found["indices"]]
    b.type_of(values)
    return found[kind]


@TABLE.op("sort")
def sort(use: Use) -> Value:
    """All in order, smallest first unless told."""
    ascending = use.attrs.flag("is_ascend", default=True)
    return _sorted(use, use.x, use.attrs.optional_int("axis", -1), 0, ascending=ascending)[0]


@TABLE.op("argsort")
def argsort(use: Use) -> Value:
    """The indices that sort, float32 unless told."""
    ascending, dtype = use.attrs.flag("is_ascend", default=True), use.attrs.text("dtype", "float32")
    found = _sorted(use, use.x, use.attrs.optional_int("axis", -1), 0, ascending=ascending)
    return use.cast(found[1], dtype)


def _sorted(use: Use, x: Value, axis: int | None, count: int, *, ascending: bool) -> list[Value]:
    """(values, indices) of the first `count` in order, all when it is 0; without an axis of all values."""
    b = use.b
    if axis is None:
        x, axis = use.reshape(x, [product(use.shape(x))]), 0
    axis = use.axis(axis, use.rank(x))
    if count < 1:
        (count,) = use.static(x, [axis])
    return b.ops("TopK", x, b.constant([count]), outputs=2, axis=axis, largest=not ascending, sorted=1)


@TABLE.op("SequenceLast")
def sequence_last(use: Use) -> Value:
    """The last step of every sequence, of its own length where that is given."""
    b, axis = use.b, use.attrs.int("axis", 0)
    if not use.attrs.flag("use_sequence_length"):
        return b.op("Gather", use.x, b.constant(-1), axis=axis)
    x, rank = use.x, use.rank(use.x)
    if axis == 0:  # to (batch, time, ...)
        x = b.op("Transpose", x, perm=[1, 0, *range(2, rank)])
    last = b.op("Sub", use.cast(use.input(1), "int64"), b.constant(1))
    return b.op("GatherND", x, b.op("Unsqueeze", last, b.constant([1])), batch_dims=1)
