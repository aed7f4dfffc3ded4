"""Operators that pick elements, in terms of comparisons and gathers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, where
from .....ir.types import dtype_of_onnx
from .table import ExpansionTable, along, backwards, constant, given, rank_of, size_of, sizes_of, whole

TABLE = ExpansionTable()

Operands = Sequence[Value | None]


@TABLE.op("ArgMax", "ArgMin")
def last_place(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """The last of several equal places is the first from the end."""
    (x,) = given(b, operands, 1)
    if x is None or not node.int("select_last_index") or (rank := rank_of(x)) is None:
        return None
    axis = node.int("axis") % rank
    if (size := size_of(x, axis)) is None:
        return None
    flipped = backwards(x, axis)
    return [size - 1 - flipped.op(node.op_type, axis=axis, keepdims=node.int("keepdims"))]


@TABLE.op("Hardmax")
def hardmax(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """One at the place of the largest element, the first of several."""
    (x,) = given(b, operands, 1)
    if x is None or (rank := rank_of(x)) is None:
        return None
    axis = node.int("axis") % rank
    if (size := size_of(x, axis)) is None:
        return None
    place = x.op("ArgMax", axis=axis, keepdims=1)
    return [place.equals(along(x, size, axis, rank, "int64")).cast(x.dtype)]


@TABLE.op("OneHot")
def one_hot(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """The second value where the place is the index, counted from the end where it is negative."""
    indices, depth, values = given(b, operands, 3)
    if indices is None or depth is None or values is None or (rank := rank_of(indices)) is None:
        return None
    axis = node.int("axis") % (rank + 1)
    places = indices.cast("int64")
    count = b.graph.constant_value(depth.value)
    if count is None:
        size = depth.op("Reshape", whole(places)).cast("int64")
        row = Term(b, b.constant(0, "int64")).op("Range", size, 1)
        row = row.op("Reshape", whole(places, *(-1 if a == axis else 1 for a in range(rank + 1))))
    else:
        size = Term(b, b.constant(int(count.reshape(-1)[0]), "int64"))
        row = along(places, int(count.reshape(-1)[0]), axis, rank + 1, "int64")
    places = where(places < 0, places + size, places).op("Unsqueeze", whole(places, axis))
    off, on = (values.op("Gather", Term(b, b.constant(n, "int64")), axis=0) for n in (0, 1))
    return [where(places.equals(row), on, off)]


@TABLE.op("Compress")
def compress(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """A gather of the places where the condition holds."""
    x, condition = given(b, operands, 2)
    if x is None or condition is None or (rank := rank_of(x)) is None:
        return None
    axis = node.attribute("axis")
    if axis is None:
        x, axis, rank = x.op("Reshape", whole(x, -1)), 0, 1
    assert isinstance(axis, int)
    places = condition.op("NonZero").op("Reshape", whole(x, -1))
    return [x.op("Gather", places, axis=axis % rank)]


@TABLE.op("Trilu")
def triangle(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Zeros above or below a diagonal that a run gives."""
    x, k = given(b, operands, 2)
    if x is None or k is None or (rank := rank_of(x)) is None:
        return None
    if (height := size_of(x, rank - 2)) is None or (width := size_of(x, rank - 1)) is None:
        return None
    rows, columns = along(x, height, 0, 2, "int64"), along(x, width, 1, 2, "int64")
    diagonal = rows + k.op("Reshape", whole(x))
    kept = columns >= diagonal if node.int("upper") else columns <= diagonal
    return [where(kept, x, constant(x, np.zeros(())))]


@TABLE.op("EyeLike")
def eye_like(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Ones where the column is the row and so many further."""
    (x,) = given(b, operands, 1)
    if x is None or (sizes := sizes_of(x)) is None:
        return None
    to = x.dtype if node.attribute("dtype") is None else dtype_of_onnx(node.int("dtype"))
    rows, columns = (along(x, size, axis, 2, "int64") for axis, size in enumerate(sizes))
    return [(rows + node.int("k")).equals(columns).cast(to)]


@TABLE.op("ReverseSequence")
def reverse_sequence(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Elements of the places from the end of each row, as far as the row reaches."""
    x, lengths = given(b, operands, 2)
    if x is None or lengths is None or (rank := rank_of(x)) is None:
        return None
    batch, time = node.int("batch_axis") % rank, node.int("time_axis") % rank
    if (size := size_of(x, time)) is None:
        return None
    shape = [1] * rank
    shape[batch] = -1
    lengths = lengths.op("Reshape", whole(lengths, *shape))
    at = along(x, size, time, rank, "int64")
    places = where(at < lengths, lengths - 1 - at, at)
    return [x.op("GatherElements", places.op("Expand", x.op("Shape")), axis=time)]


@TABLE.op("ScatterElements")
def scatter_elements(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """A ScatterND whose indices say the places along the other axes too."""
    x, indices, updates = given(b, operands, 3)
    if x is None or indices is None or updates is None or (sizes := sizes_of(indices)) is None:
        return None
    rank = len(sizes)
    axis = node.int("axis") % rank
    if (size := size_of(x, axis)) is None:
        return None
    last = whole(x, -1)
    indices = indices.cast("int64")
    own = where(indices < 0, indices + size, indices).op("Unsqueeze", last)
    grid = np.indices(sizes)
    parts = [own if at == axis else constant(own, grid[at][..., None]) for at in range(rank)]
    places = parts[0].op("Concat", *parts[1:], axis=-1) if rank > 1 else own
    return [x.op("ScatterND", places, updates, reduction=node.str("reduction"))]


@TABLE.op("Unique")
def unique_slices(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Slices along an axis, all compared with all: each new one's place is how many new ones precede it."""
    (x,) = given(b, operands, 1)
    if x is None or node.attribute("axis") is None or (sizes := sizes_of(x)) is None:
        return None
    axis = node.int("axis") % len(sizes)
    count = sizes[axis]
    if 0 in sizes:
        return None
    perm = [axis, *(a for a in range(len(sizes)) if a != axis)]
    rows = x.op("Transpose", perm=perm).op("Reshape", whole(x, count, -1))
    one, other = rows.op("Unsqueeze", whole(x, 1)), rows.op("Unsqueeze", whole(x, 0))
    differ = (~one.equals(other)).cast("int32")
    same = differ.op("ReduceMax", whole(x, 2), keepdims=0).equals(0)
    first = same.cast("int32").op("ArgMax", axis=1, keepdims=0)  # the place of the first alike
    is_new = first.equals(along(x, count, 0, 1, "int64"))
    if node.int("sorted"):
        at = differ.op("ArgMax", axis=2, keepdims=1)  # the first element that differs
        less = (
            (one < other)
            .cast("int32")
            .op("GatherElements", at, axis=2)
            .op("Squeeze", whole(x, 2))
            .cast("bool")
        )
    else:
        less = first.op("Unsqueeze", whole(x, 1)) < first
    precedes = (is_new.op("Unsqueeze", whole(x, 1)) & less).cast("int64")
    place = precedes.op("ReduceSum", whole(x, 0), keepdims=0)
    found = place.equals(along(x, count, 0, 2, "int64")) & is_new
    indices = found.op("NonZero").op("Gather", Term(b, b.constant(1)), axis=0)
    counts = same.cast("int64").op("ReduceSum", whole(x, 1), keepdims=0).op("Gather", indices, axis=0)
    return [x.op("Gather", indices, axis=axis), indices, place, counts][: len(node.types)]


@TABLE.op("MaxUnpool")
def max_unpool(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Values scattered into zeros by their places in the whole tensor."""
    x, indices, _ = given(b, operands, 3)
    if x is None or indices is None or (sizes := sizes_of(x)) is None:
        return None
    rank = len(sizes) - 2
    kernel, strides, pads = (
        node.ints("kernel_shape"),
        node.spatial("strides", rank),
        node.spatial("pads", rank),
    )
    steps = zip(sizes[2:], kernel, strides, pads[:rank], pads[rank:], strict=True)
    unpooled = [*sizes[:2], *((n - 1) * s - begin - end + k for n, k, s, begin, end in steps)]
    to = node.types[0]
    if to is None or not to.is_static:
        return None
    zeros = constant(x, np.zeros(int(np.prod(unpooled))))
    flat = zeros.op(
        "ScatterElements", indices.op("Reshape", whole(x, -1)), x.op("Reshape", whole(x, -1)), axis=0
    )
    found = flat.op("Reshape", whole(x, *unpooled))
    wanted = list(to.static_shape())
    if wanted != unpooled:
        more = [m - n for m, n in zip(wanted, unpooled, strict=True)]
        found = found.op("Pad", whole(x, *[0] * len(more), *more))
    return [found]
