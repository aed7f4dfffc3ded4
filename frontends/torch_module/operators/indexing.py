"""Lowerings of slices, look-ups and writes by index."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...formulas import is_floating, patches, windows
from ...lowering_table import LoweringTable
from ..call import Call
from ..symbols import Size

TABLE = LoweringTable[Call]("torch")
_END = np.iinfo(np.int64).max


@TABLE.op("aten.embedding.default")
def embedding(call: Call) -> Value:
    """Rows by number; how gradients are scaled and stored does not matter, that padding has none does."""
    call.ignore("scale_grad_by_freq", "sparse")
    weight, indices, padding = call.value("weight"), call.value("indices"), call.int("padding_idx")
    if padding >= 0 and call.context.trains(weight):
        return call.op("regraft.PaddedEmbedding", weight, indices, padding_idx=padding)
    return call.op("Gather", weight, indices, axis=0)


@TABLE.op("aten.select.int", "aten.select_copy.int")
def select(call: Call) -> Value:
    """Return one slice, without its axis."""
    index = call.arg("index")
    at = call.constant(index) if isinstance(index, int) else call.size_value(index)
    return call.op("Gather", call.value("self"), at, axis=call.axis("dim"))


@TABLE.op("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(call: Call) -> Value:
    """Return a range of an axis; the whole of it is the value itself."""
    x, axis, step = call.value("self"), call.axis("dim"), call.int("step")
    start, end = call.arg("start"), call.arg("end")
    start, end = 0 if start is None else start, _END if end is None else end
    size = call.shape("self")[axis]
    whole = isinstance(end, int) and (end == _END or (isinstance(size, int) and end >= size))
    if step == 1 and isinstance(start, int) and start == 0 and (whole or end == size):
        return x
    if not isinstance(size, int) and isinstance(call.result_shape[axis], int):
        call.unsure = frozenset([axis])  # torch.export takes the axis to be as long as in the example
    bounds = (call.shape_value([v]) for v in (start, end))
    return call.op("Slice", x, *bounds, call.constant([axis]), call.constant([step]))


@TABLE.op("aten.narrow.default", "aten.narrow_copy.default")
def narrow(call: Call) -> Value:
    """Return a range by its start and length."""
    start = call.arg("start")
    bounds = (call.shape_value([v]) for v in (start, start + call.arg("length")))
    return call.op("Slice", call.value("self"), *bounds, call.constant([call.axis("dim")]))


@TABLE.op("aten.index_select.default")
def index_select(call: Call) -> Value:
    """Return slices by number; a single number has none but itself."""
    x, at = (_with_axis(call, call.value(name), call.rank(name)) for name in ("self", "index"))
    found = call.op("Gather", x, at, axis=call.axis("dim"))
    return found if call.rank("self") else call.op("Squeeze", found, call.constant([0]))


@TABLE.op("aten.unfold.default")
def unfold(call: Call) -> Value:
    """Return windows of an axis, their elements on a new last axis: one Gather by a table of places."""
    rank, length, step = call.rank("self"), call.int("size"), call.int("step")
    axis = call.axis("dimension")
    places = windows(call, call.shape("self")[axis], length, 1, step)
    y = call.op("Gather", call.value("self"), places, axis=axis)
    return call.op("Transpose", y, perm=[a for a in range(rank + 1) if a != axis] + [axis])


@TABLE.op("aten.im2col.default")
def im2col(call: Call) -> Value:
    """Return patches of two axes as columns."""
    kernel, dilation = call.ints("kernel_size"), call.ints("dilation")
    padding, stride = call.ints("padding"), call.ints("stride")
    batched = call.rank("self") == 4
    x = call.value("self") if batched else call.op("Unsqueeze", call.value("self"), call.constant([0]))
    found = patches(call, x, kernel, stride, dilation, padding, call.shape("self")[-2:])
    return call.reshape(found, call.result_shape)


@TABLE.op("aten.gather.default")
def gather(call: Call) -> Value:
    """Element by element along an axis."""
    call.ignore("sparse_grad")
    x, at = (_with_axis(call, call.value(name), call.rank(name)) for name in ("self", "index"))
    found = call.op("GatherElements", x, at, axis=call.axis("dim"))
    return found if call.rank("index") else call.op("Squeeze", found, call.constant([0]))


@TABLE.op("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(call: Call) -> Value:
    """Advanced indexing; the indexed axes come first where they are not next to each other."""
    x, indices = call.value("self"), _without_masks(call)
    axes = [a for a, i in enumerate(indices) if i is not None]
    given = [i for i in indices if i is not None]
    if len(given) == 1:
        return call.op("Gather", x, given[0], axis=axes[0])
    rank = call.rank("self")
    perm = axes + [a for a in range(rank) if a not in axes]
    if perm != sorted(perm):
        x = call.op("Transpose", x, perm=perm)
    y = call.op("GatherND", x, _stacked(call, given))
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    found = len(call.fake.shape) - (rank - len(axes))  # rank of the broadcast indices
    if not adjacent or axes[0] == 0:
        return y
    before = axes[0]
    order = [*range(found, found + before), *range(found), *range(found + before, len(call.fake.shape))]
    return call.op("Transpose", y, perm=order)


def _without_masks(call: Call) -> list[Value | None]:
    """Return the indices, one an axis: a mask stands for the places where it is true."""
    found: list[Value | None] = []
    for given in call.arg("indices"):
        if given is None or call.dtype_of(given) != "bool":
            found.append(given)
            continue
        rank = call.type_of(given).rank or 0
        if not rank:
            raise call.unsupported("expected indices with axes, got a single truth value")
        places = call.op("NonZero", given)
        found += [call.op("Gather", places, call.constant(a), axis=0) for a in range(rank)]
    return found


def _stacked(call: Call, indices: list[Value]) -> Value:
    """Index tensors broadcast together, stacked on a new last axis."""
    total = call.cast(indices[0], "int64")
    for other in indices[1:]:
        total = call.op("Add", total, call.cast(other, "int64"))
    shape = call.op("Shape", total)  # of the broadcast: a sum has it
    parts = [
        call.op("Unsqueeze", call.op("Expand", call.cast(i, "int64"), shape), call.constant([-1]))
        for i in indices
    ]
    return call.op("Concat", *parts, axis=-1)


@TABLE.op("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(call: Call) -> Value:
    """Return a write by advanced indices."""
    call.ignore("unsafe") if "unsafe" in call else None
    indices = call.arg("indices")
    x, values = call.value("self"), call.cast(call.value("values"), call.dtype)
    mask = indices[0] if len(indices) == 1 else None
    masked = 0 if mask is None else call.type_of(mask).rank or 0
    same = call.rank("values") <= call.rank("self") - masked and not call.flag("accumulate")
    if mask is not None and call.dtype_of(mask) == "bool" and same:
        for _ in range(call.rank("self") - (call.type_of(mask).rank or 0)):
            mask = call.op("Unsqueeze", mask, call.constant([-1]))
        return call.op("Where", mask, values, x)
    indices = _without_masks(call)
    axes = [a for a, i in enumerate(indices) if i is not None]
    rank = call.rank("self")
    at = _stacked(call, [i for i in indices if i is not None])
    found = (call.type_of(at).rank or 1) - 1
    perm = axes + [a for a in range(rank) if a not in axes]
    moved = perm != sorted(perm)
    x = call.op("Transpose", x, perm=perm) if moved else x
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    if moved and adjacent and call.rank("values"):  # the places stand where the axes did
        wanted = rank - len(axes) + found
        missing = list(range(wanted - call.rank("values")))
        values = call.op("Unsqueeze", values, call.constant(missing)) if missing else values
        lead = list(range(axes[0], axes[0] + found))
        values = call.op("Transpose", values, perm=lead + [a for a in range(wanted) if a not in lead])
    shape = call.op("Concat", call.op("Shape", at, end=-1), call.op("Shape", x, start=len(axes)), axis=0)
    reduction = "add" if call.flag("accumulate") else "none"
    y = call.op("ScatterND", x, at, call.op("Expand", values, shape), reduction=reduction)
    return call.op("Transpose", y, perm=[perm.index(a) for a in range(rank)]) if moved else y


@TABLE.op("aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default")
def scatter(call: Call) -> Value:
    """Return a write element by element along an axis; a single number is written as a vector of one."""
    axis, reduction = call.axis("dim"), "add" if "scatter_add" in call.operator else "none"
    x, at = (_with_axis(call, call.value(name), call.rank(name)) for name in ("self", "index"))
    if "src" in call:
        source = _with_axis(call, call.value("src"), call.rank("src"))
        if call.shape("src") != call.shape("index"):
            starts = call.constant([0] * max(call.rank("index"), 1))
            source = call.op("Slice", source, starts, call.op("Shape", at))
    else:
        source = call.op("Expand", call.operand("value", call.dtype), call.op("Shape", at))
    found = call.op("ScatterElements", x, at, source, axis=axis, reduction=reduction)
    return found if call.rank("self") else call.op("Squeeze", found, call.constant([0]))


def _with_axis(call: Call, x: Value, rank: int) -> Value:
    return x if rank else call.op("Unsqueeze", x, call.constant([0]))


@TABLE.op("aten.bincount.default")
def bincount(call: Call) -> Value:
    """Count each number from 0, or sum its weights; the data determine the number of bins."""
    x = call.cast(call.value("self"), "int64")
    least = call.constant([call.int("minlength", 0) - 1])
    largest = call.op("ReduceMax", call.op("Concat", x, least, axis=0), keepdims=0)
    count = call.op("Add", largest, call.constant(1))
    numbers = call.op("Range", call.constant(0), count, call.constant(1))
    found = call.op("Equal", call.op("Unsqueeze", x, call.constant([1])), numbers)
    if call.arg("weights") is None:
        amounts = call.cast(found, "int64")
    else:
        if not is_floating(call.dtype):
            raise call.unsupported("torch before 2.13 states no type of weighted counts")
        weights = call.cast(call.value("weights"), call.dtype)
        columns = call.op("Unsqueeze", weights, call.constant([1]))
        amounts = call.op("Where", found, columns, call.scalar_like(0, weights))
    return call.op("ReduceSum", amounts, call.constant([0]), keepdims=0)


@TABLE.op("aten.nonzero.default", "aten.argwhere.default")
def nonzero(call: Call) -> Value:
    """Return the places that are not zero, one a row."""
    x = call.value("self")
    if not call.rank("self"):
        places = call.op("NonZero", call.op("Reshape", x, call.constant([1])))  # of the only one
        rows = call.op("Transpose", places, perm=[1, 0])
        return call.op("Slice", rows, *(call.constant([n]) for n in (0, 0, 1)))
    return call.op("Transpose", call.op("NonZero", x), perm=[1, 0])


@TABLE.op("aten.masked_select.default")
def masked_select(call: Call) -> Value:
    """Return the elements where a mask is true."""
    x, mask = call.value("self"), call.value("mask")
    if call.shape("self") != call.shape("mask"):
        shape = call.op("Shape", call.op("Where", mask, x, x))  # of the broadcast
        x, mask = call.op("Expand", x, shape), call.op("Expand", mask, shape)
    flat = call.constant([-1])
    return call.op("Compress", call.op("Reshape", x, flat), call.op("Reshape", mask, flat))


@TABLE.op("aten._unique2.default", "aten.unique_dim.default", "aten._unique.default")
def unique(call: Call) -> list[Value | None]:
    """Return each value once, sorted; where each went, and how often it was."""
    call.ignore("sorted")
    asked = [n in call and call.flag(n) for n in ("return_inverse", "return_counts")]
    axis = call.axis("dim") if "dim" in call else None
    y, _, inverse, counts = call.ops("Unique", call.value("self"), outputs=4, sorted=1, axis=axis)
    inverse = call.reshape(inverse, call.shape("self")) if axis is None else inverse
    return [y, *(v if given else None for given, v in zip(asked, (inverse, counts), strict=True))]


@TABLE.op("aten.select_scatter.default")
def select_scatter(call: Call) -> Value:
    """Return one slice replaced."""
    axis, at = call.axis("dim"), call.arg("index")
    part = call.op("Unsqueeze", call.cast(call.value("src"), call.dtype), call.constant([axis]))
    return replaced(call, call.value("self"), part, axis, at, at + 1 if at != -1 else None)


@TABLE.op("aten.slice_scatter.default")
def slice_scatter(call: Call) -> Value:
    """Return a range of an axis replaced."""
    part = call.cast(call.value("src"), call.dtype)
    start, end, step = call.arg("start"), call.arg("end"), call.int("step")
    return replaced(call, call.value("self"), part, call.axis("dim"), start, end, step)


def replaced(
    call: Call, x: Value, part: Value, axis: int, start: Size | None, end: Size | None, step: int = 1
) -> Value:
    """Replace a range of an axis of `x` by `part`; negative bounds count from the end.

    A range whose start is past its end is empty, at some sizes or at all: `x` stays there as it is.
    """
    size = call.shape("self")[axis]
    start, end = 0 if start is None else start, _END if end is None else end
    if isinstance(size, int):
        start, end = _inside(start, size), _inside(end, size)
        if isinstance(start, int) and isinstance(end, int) and start >= end:
            return x
    if step != 1:
        return _strided(call, x, part, axis, start, end, step)
    parts = [part]
    if start != 0:
        parts.insert(0, _cut(call, x, axis, 0, start))
    if end not in (_END, size):
        parts.append(_behind(call, x, parts, axis, start, end))
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=axis)


def _behind(call: Call, x: Value, parts: list[Value], axis: int, start: Size, end: Size) -> Value:
    """Return the rest of an axis after a range: from its end or, if that is later, from its start."""
    if isinstance(start, int) and isinstance(end, int) and (start < 0) == (end < 0):
        return _cut(call, x, axis, max(start, end), _END)
    # which is later depends on the size; MindSpore cannot slice an empty slice, so the parts are counted
    lengths = [call.op("Shape", part, start=axis, end=axis + 1) for part in parts]
    before = lengths[0] if len(lengths) == 1 else call.op("Add", *lengths)
    return call.op("Slice", x, before, call.constant([_END]), call.constant([axis]))


def _cut(call: Call, x: Value, axis: int, start: Size, end: Size) -> Value:
    bounds = (call.shape_value([bound]) for bound in (start, end))
    return call.op("Slice", x, *bounds, call.constant([axis]))


def _inside(bound: Size, size: int) -> Size:
    """Return a bound of a range counted from the front and within the axis; a symbolic one as it is."""
    if not isinstance(bound, int):
        return bound
    return min(max(bound + size if bound < 0 else bound, 0), size)


def _strided(call: Call, x: Value, part: Value, axis: int, start: Size, end: Size, step: int) -> Value:
    """Return the elements at some places replaced: a look-up in both, one after the other."""
    size, table = call.shape("self")[axis], None
    if all(isinstance(known, int) for known in (size, start, end)):
        places = np.arange(size)
        places[start:end:step] = size + np.arange(len(range(start, end, step)))
        table = call.constant(places)
    else:
        count = call.op("Squeeze", call.op("Shape", x, start=axis, end=axis + 1), call.constant([0]))
        whole = call.op("Range", call.constant(0), count, call.constant(1))
        bounds = (call.shape_value([bound]) for bound in (start, end))
        places = call.op("Slice", whole, *bounds, call.constant([0]), call.constant([step]))
        last = call.op("Add", count, call.op("Squeeze", call.op("Shape", places), call.constant([0])))
        new = call.op("Range", count, last, call.constant(1))
        table = call.op("ScatterElements", whole, places, new, axis=0)
    return call.op("Gather", call.op("Concat", x, part, axis=axis), table, axis=axis)
