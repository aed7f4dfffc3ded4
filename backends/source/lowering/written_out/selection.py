"""Operators that pick elements, in terms of comparisons and gathers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites import composite
from .....ir.composites.terms import Term, where, whole
from .....ir.types import dtype_of_onnx
from .table import ExpansionTable, along, backwards, constant, given, rank_of, size_of, sizes_of

TABLE = ExpansionTable()

Operands = Sequence[Value | None]


@TABLE.op("ArgMax", "ArgMin")
def last_place(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Find the last of several equal places as the first from the end."""
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
    """Return one at the place of the largest element, the first of several."""
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
    """Return the second value where the place is the index, counted from the end where it is negative."""
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
    """Return a gather of the places where the condition holds."""
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
    """Return zeros above or below a diagonal that a run gives."""
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
    """Return ones where the column is the row and so many further."""
    (x,) = given(b, operands, 1)
    if x is None or (sizes := sizes_of(x)) is None:
        return None
    to = x.dtype if node.attribute("dtype") is None else dtype_of_onnx(node.int("dtype"))
    rows, columns = (along(x, size, axis, 2, "int64") for axis, size in enumerate(sizes))
    return [(rows + node.int("k")).equals(columns).cast(to)]


@TABLE.op("ReverseSequence")
def reverse_sequence(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Reverse each row up to its own length."""
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
    """Write a ScatterND, whose kernel runs in one thread; its indices include the leading axes.

    Trailing axes along which the indices repeat and reach all of the tensor are written as slices.
    """
    x, indices, updates = given(b, operands, 3)
    if x is None or indices is None or updates is None or (rank := rank_of(indices)) is None:
        return None
    axis = node.int("axis") % rank
    last = rank
    while last - 1 > axis and _repeats(x, indices, last - 1):
        last -= 1
    if last < rank:
        indices = _first_along(indices, range(last, rank))
    return [x.op("ScatterND", _places(x, indices, axis), updates, reduction=node.str("reduction"))]


def _repeats(x: Term, indices: Term, axis: int) -> bool:
    """Whether indices are one along an axis of theirs, which reaches all of the tensor's."""
    size, whole_size = (
        None if (s := x_.b.type_of(x_.value).shape) is None else s[axis] for x_ in (indices, x)
    )
    if size is None or size != whole_size:
        return False
    array = indices.b.graph.constant_value(indices.value)
    if array is not None:
        return bool((array == array.take([0], axis)).all()) if array.size else False
    source = _spread(indices)
    return source is not None and size_of(source, axis) == 1 and size != 1


def _spread(indices: Term) -> Term | None:
    """Return what an Expand or Tile repeats to as many axes; None for anything else."""
    made = indices.b.graph.producer(indices.value)
    if not isinstance(made, Operator) or made.op_type not in ("Expand", "Tile"):
        return None
    source = indices.b.graph.operands(made.key)[0]
    assert source is not None
    found = Term(indices.b, source)
    return found if rank_of(found) == rank_of(indices) else None


def _first_along(indices: Term, axes: range) -> Term:
    """Return indices without their last axes, along which they repeat."""
    array = indices.b.graph.constant_value(indices.value)
    if array is not None:
        return constant(indices, array[(..., *(0 for _ in axes))])
    source = _spread(indices)
    assert source is not None, "indices that are neither a constant nor spread do not repeat"
    others = [indices.b.type_of(term.value).shape for term in (indices, source)]
    if others[0] is not None and others[1] is not None and others[0][: axes.start] == others[1][: axes.start]:
        return source.op("Squeeze", whole(indices, *axes))
    for axis in reversed(axes):
        indices = indices.op("Gather", Term(indices.b, indices.b.constant(0)), axis=axis)
    return indices


def _places(x: Term, indices: Term, axis: int) -> Term:
    """Return, for indices along one axis, the places along all axes up to the last that they have."""
    rank, known = rank_of(indices) or 0, indices.b.graph.constant_value(indices.value)
    indices = indices.cast("int64")
    if known is None or (known < 0).any():
        indices = where(indices < 0, indices + _length(x, axis), indices)
    own = indices.op("Unsqueeze", whole(x, -1))
    if rank == 1:
        return own
    shape = indices.op("Shape")
    parts: list[Term] = []
    for at in range(rank):
        line = Term(x.b, x.b.constant(0)).op("Range", _length(indices, at), 1)
        line = line.op("Reshape", whole(x, *(-1 if a == at else 1 for a in range(rank))))
        parts.append(own if at == axis else line.op("Expand", shape).op("Unsqueeze", whole(x, -1)))
    return parts[0].op("Concat", *parts[1:], axis=-1)


def _length(x: Term, axis: int) -> Term:
    """Return the size of an axis as a number, which a run gives where it is not known."""
    if (size := size_of(x, axis)) is not None:
        return Term(x.b, x.b.constant(size, "int64"))
    return x.op("Shape", start=axis, end=axis + 1).op("Squeeze", whole(x, 0))


@TABLE.op("regraft.MaxUnpool")
def unpooled(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Expand the operator, and write out its scatter in turn."""
    return [Term(b, value) for value in composite(node.op_type).expand(b, node, operands)]


@TABLE.op("Unique")
def unique_slices(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Compare all slices along an axis: the place of each new one is the number of earlier new ones."""
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
    """Return values scattered into zeros by their places in the whole tensor."""
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
