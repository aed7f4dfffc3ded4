"""Emitters of embeddings, gathering and selecting."""

from __future__ import annotations

import numpy as np

from ....ir import Constant, Operator, Parameter, Value
from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


@TABLE.op("Gather")
def gather(e: View) -> Reference:
    """Emit Embedding for rows of a matrix by clipped indices, a slice for one index, take for the rest."""
    axis, indices = e.operator.int("axis"), e.constant(1)
    if indices is not None and indices.ndim == 0:
        at = int(indices)
        part = e.node("slice_axis", [e.input()], axis=axis, begin=at, end="None" if at == -1 else at + 1)
        return e.node("squeeze", [part], axis=(axis,))
    source = _clipped_indices(e, axis)
    weight = e.graph.producer(e.value(0))
    if axis == 0 and source is not None and isinstance(weight, Parameter) and len(weight.data.shape) == 2:
        rows, width = weight.data.shape
        ids = e.builder.reference(source, e.name)
        return e.node("Embedding", [ids, e.input()], input_dim=rows, output_dim=width)
    mode = "wrap" if source is None else "clip"  # as ONNX does, indices below 0 count from the end
    return e.node("take", e.inputs(), axis=axis, mode=mode)


def _clipped_indices(e: View, axis: int) -> Value | None:
    """Return the value behind ``Clip(Cast(value), 0, size - 1)`` of an axis, else None."""
    clip = e.producer(1)
    if clip is None or clip.op_type != "Clip":
        return None
    source, low, high = (*e.graph.operands(clip.key), None, None)[:3]
    bounds = [e.graph.producer(v) for v in (low, high) if v is not None]
    size = e.shape(0)[axis]
    limits = [int(c.data.numpy()) for c in bounds if isinstance(c, Constant)]
    if source is None or not isinstance(size, int) or limits != [0, size - 1]:
        return None
    cast = e.graph.producer(source)
    if isinstance(cast, Operator) and cast.op_type == "Cast":
        return e.graph.operands(cast.key)[0]
    return source


@TABLE.op("Where")
def where(e: View) -> Reference:
    """Emit where, with numbers and smaller operands expanded, because it does not broadcast."""
    on, off = (
        None if a is None or a.size != 1 else float(a.ravel()[0]) for a in (e.constant(1), e.constant(2))
    )
    if on is not None and off is not None:
        result = e.operator.types[0]
        assert result is not None
        chosen = e.node("Cast", [e.input()], dtype=result.dtype)
        return e.node("_plus_scalar", [e.node("_mul_scalar", [chosen], scalar=on - off)], scalar=off)
    condition = _as_result(e, 0)
    if on is not None:
        off_branch = _as_result(e, 2)
        on_branch = e.node("_plus_scalar", [e.node("zeros_like", [off_branch])], scalar=on)
    else:
        on_branch = _as_result(e, 1)
        off_branch = (
            _as_result(e, 2)
            if off is None
            else e.node("_plus_scalar", [e.node("zeros_like", [on_branch])], scalar=off)
        )
    return e.node("where", [condition, on_branch, off_branch])


def _as_result(e: View, slot: int) -> Reference:
    """Return an operand, broadcast to the shape of the result where it has another."""
    type_ = e.operator.types[0]
    assert type_ is not None
    source, wanted = e.input(slot), type_.shape or ()
    if e.shape(slot) == wanted:
        return source
    full = next((e.input(at) for at in range(len(e.operands)) if e.shape(at) == wanted), None)
    if full is None:
        raise e.refused("expected an operand of the shape of the result")
    for _ in range(len(wanted) - len(e.shape(slot))):
        source = e.node("expand_dims", [source], axis=0)
    return e.node("broadcast_like", [source, full])


@TABLE.op("GatherElements")
def gather_elements(e: View) -> Reference:
    """Emit gather_nd of the indices along one axis and of counts along the others."""
    axis, rank = e.operator.int("axis") % len(e.shape()), len(e.shape())
    size = e.shape()[axis]
    if not isinstance(size, int) or rank == 0:
        raise e.refused("expected a known size along the axis that is gathered from")
    return e.node("gather_nd", [e.input(), _places_along(e, axis, rank, size)])


def _places_along(e: View, axis: int, rank: int, size: int) -> Reference:
    """Emit places by indices along one axis, which may count from the end, and by counts along the others."""
    indices = e.input(1)
    if e.type(1).dtype != "int64":
        indices = e.node("Cast", [indices], dtype="int64")
    parts: list[Reference] = []
    for other in range(rank):
        if other == axis:
            parts.append(e.node("_mod_scalar", [indices], scalar=size))
            continue
        counts = e.node("_contrib_arange_like", [indices], axis=other)
        shape = tuple(-1 if at == other else 1 for at in range(rank))
        parts.append(e.node("broadcast_like", [e.node("Reshape", [counts], shape=shape), indices]))
    return e.node("stack", parts, axis=0, num_args=rank)


@TABLE.op("GatherND")
def gather_nd(e: View) -> Reference:
    """Emit gather_nd, which has the numbers of a place along the first axis of its indices."""
    batch, rank = e.operator.int("batch_dims"), len(e.shape(1))
    turned = e.node("transpose", [e.input(1)], axes=(rank - 1, *range(rank - 1)))
    if not batch:
        return e.node("gather_nd", [e.input(), turned])
    counted = [_counted(e, turned, 1 + axis, rank) for axis in range(batch)]
    places = e.node("Concat", [*counted, turned], dim=0, num_args=batch + 1)
    return e.node("gather_nd", [e.input(), places])


def _counted(e: View, places: Reference, axis: int, rank: int) -> Reference:
    """Emit the numbers of the places along an axis, one for each column of indices."""
    first = e.node("slice_axis", [places], axis=0, begin=0, end=1)
    counts = e.node("_contrib_arange_like", [first], axis=axis)
    shape = tuple(-1 if at == axis else 1 for at in range(rank))
    counts = e.node("broadcast_like", [e.node("Reshape", [counts], shape=shape), first])
    return e.node("Cast", [counts], dtype="int64")


@TABLE.op("ScatterND")
def scatter_nd(e: View) -> Reference:
    """Emit the data, and what scatter_nd puts into zeros where it puts ones into others."""
    rank = len(e.shape(1))
    places = e.node("transpose", [e.input(1)], axes=(rank - 1, *range(rank - 1)))
    known, sizes = e.constant(1), e.static_shape(0)[: e.static_shape(1)[-1]]
    if known is None or (known < 0).any():  # scatter_nd counts no index from the end
        rows = [e.node("slice_axis", [places], axis=0, begin=n, end=n + 1) for n in range(len(sizes))]
        rows = [e.node("_mod_scalar", [row], scalar=size) for row, size in zip(rows, sizes, strict=True)]
        places = e.node("Concat", rows, dim=0, num_args=len(rows)) if len(rows) > 1 else rows[0]
    return _scattered(e, places)


@TABLE.op("ScatterElements")
def scatter_elements(e: View) -> Reference:
    """Emit scatter_nd of the indices along one axis and of counts along the others."""
    axis, rank = e.operator.int("axis") % len(e.shape()), len(e.shape())
    return _scattered(e, _places_along(e, axis, rank, e.static_shape(0)[axis]))


def _scattered(e: View, places: Reference) -> Reference:
    reduction, shape, updates = e.operator.str("reduction"), e.static_shape(0), e.input(2)
    if reduction == "add":  # what the gradient of gather_nd is made of adds up
        added = e.node("_backward_gather_nd", [updates, places], shape=shape)
        return e.node("elemwise_add", [e.input(), added])
    if reduction != "none":
        raise e.refused(f"expected updates that replace elements or are added, got `{reduction}`")
    put = e.node("scatter_nd", [updates, places], shape=shape)
    marks = e.node("scatter_nd", [e.node("ones_like", [updates]), places], shape=shape)
    return e.node("where", [marks, put, e.input()])


@TABLE.op("Trilu")
def triangle(e: View) -> Reference:
    """Emit where, by the distance of each place from the diagonal."""
    offset, rank = e.constant(1) if e.has(1) else np.array(0), len(e.shape())
    rows, columns = e.shape()[-2:]
    if offset is None or not isinstance(rows, int) or not isinstance(columns, int):
        raise e.refused("expected known sizes and a constant diagonal")
    down = e.node("_arange", [], start=0.0, stop=float(rows), step=1.0, dtype="float32")
    across = e.node("_arange", [], start=0.0, stop=float(columns), step=1.0, dtype="float32")
    across = e.node("Reshape", [across], shape=(*[1] * (rank - 1), columns))
    distance = e.node(
        "broadcast_sub", [across, e.node("Reshape", [down], shape=(*[1] * (rank - 2), rows, 1))]
    )
    keeps = "_greater_equal_scalar" if e.operator.int("upper") else "_lesser_equal_scalar"
    kept = e.node(keeps, [distance], scalar=float(offset.reshape(-1)[0]))
    data = e.input()
    return e.node("where", [e.node("broadcast_like", [kept, data]), data, e.node("zeros_like", [data])])


@TABLE.op("OneHot")
def one_hot(e: View) -> Reference:
    """Emit one_hot, whose classes are on the last axis; indices below 0 count from the end."""
    depth, values = e.constant(1), e.constant(2)
    if depth is None or values is None:
        raise e.refused("expected a number of classes and two values that are constants")
    count, rank = int(depth.ravel()[0]), len(e.shape()) + 1
    axis = e.operator.int("axis") % rank
    below = e.node("_mul_scalar", [e.node("_lesser_scalar", [e.input()], scalar=0.0)], scalar=float(count))
    at = e.node("elemwise_add", [e.input(), below])
    off, on = (float(value) for value in values.ravel())
    found = e.node("one_hot", [at], depth=count, on_value=on, off_value=off, dtype=str(values.dtype))
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return found if axis == rank - 1 else e.node("transpose", [found], axes=order)


@TABLE.op("TopK")
def top_k(e: View) -> list[Reference]:
    """Emit topk; it sorts stably, as ONNX does, only where it sorts more than an eighth of all."""
    axis = e.operator.int("axis") % len(e.shape())
    size, (count,) = e.shape()[axis], e.ints(1)
    whole = not isinstance(size, int) or 8 * count <= size
    index, _ = e.node(
        "topk",
        [e.input()],
        axis=axis,
        k=0 if whole else count,
        ret_typ="both",
        is_ascend=not e.operator.int("largest"),
        dtype="int64",
    )
    found = [(index, 0), (index, 1)]
    return [e.node("slice_axis", [part], axis=axis, begin=0, end=count) for part in found] if whole else found
