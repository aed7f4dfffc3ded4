"""Reading elements by index, and making index tensors."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.dims import Size
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("Gather")
def gather(call: Call) -> Value:
    """Gather along an axis; if leading axes are a batch, each row by its own indices."""
    x, at, axis, batch = call.value(0), call.value(1), call.axis(2), call.int(3, 0)
    if batch == 0:
        return call.op("Gather", x, at, axis=axis)
    if batch != call.rank(at) - 1:
        raise call.unsupported(f"expected indices of {batch + 1} dimensions, got {call.type_of(at)}")
    rank = call.rank()
    at = call.op("Unsqueeze", at, call.constant([*range(batch, axis), *range(axis + 1, rank)]))
    wanted = [
        at_ if a == axis else own
        for a, (at_, own) in enumerate(zip(call.shape(at), call.shape(), strict=True))
    ]
    at = call.op("Expand", at, call.shape_value([Size.of(d) if isinstance(d, str) else d for d in wanted]))
    return call.op("GatherElements", x, at, axis=axis)


@TABLE.op("GatherD")
def gather_elements(call: Call) -> Value:
    return call.op("GatherElements", call.value(0), call.value(2), axis=call.int(1))


@TABLE.op("GatherNd")
def gather_nd(call: Call) -> Value:
    return call.op("GatherND", call.value(0), call.cast(call.value(1), "int64"))


_SCATTERED = {
    "TensorScatterUpdate": "none",
    "TensorScatterAdd": "add",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
    "TensorScatterMul": "mul",
}


@TABLE.op(*_SCATTERED, "TensorScatterSub")
def scatter_slices(call: Call) -> Value:
    """Slices written at places, or put together with what is there; what is taken away is added negated."""
    x, at, updates = call.value(0), call.cast(call.value(1), "int64"), call.value(2)
    if call.operator == "TensorScatterSub":
        return call.op("ScatterND", x, at, call.op("Neg", updates), reduction="add")
    return call.op("ScatterND", x, at, updates, reduction=_SCATTERED[call.operator])


@TABLE.op("TensorCopySlices")
def write_range(call: Call) -> Value:
    """Return a range of leading axes replaced; an empty one leaves everything as it is."""
    x, part, bounds = call.value(0), call.value(1), list(zip(call.ints(2), call.ints(3), strict=True))
    if any(step != 1 for step in call.ints(4)):
        raise call.unsupported(f"expected steps of 1, got {call.ints(4)}")
    shape = call.shape(x)
    written: list[tuple[int, range]] = []
    for axis, (start, end) in enumerate(bounds):
        size = shape[axis]
        if not isinstance(size, int):
            raise call.depends_on_batch()
        places = range(*slice(start, end).indices(size))
        if not places:
            return x
        if len(places) < size:
            written.append((axis, places))
    inside = [x]
    for axis, places in written:
        inside.append(_cut(call, inside[-1], axis, places.start, places.stop))
    for (axis, places), whole in zip(written[::-1], inside[-2::-1], strict=True):
        parts = [part]
        if places.start:
            parts.insert(0, _cut(call, whole, axis, 0, places.start))
        if places.stop < shape[axis]:
            parts.append(_cut(call, whole, axis, places.stop, shape[axis]))
        part = call.op("Concat", *parts, axis=axis)
    return part


def _cut(call: Call, x: Value, axis: int, start: int, end: int) -> Value:
    return call.op("Slice", x, *(call.constant([n]) for n in (start, end, axis)))


@TABLE.op("ScatterNd")
def scatter_into_zeros(call: Call) -> Value:
    """Return updates at places of zeros; those of one place are added."""
    updates = call.value(1)
    zeros = call.op("Expand", call.scalar_like(0, updates), call.shape_value(call.sizes(2)))
    return call.op("ScatterND", zeros, call.cast(call.value(0), "int64"), updates, reduction="add")


@TABLE.op("TensorScatterElements", "Scatter")
def scatter_elements(call: Call) -> Value:
    """Return elements written at places of one axis (0), or added to what is there (1)."""
    if call.operator == "Scatter":
        x, axis, at, updates, reduction = (
            call.value(0),
            call.int(1),
            call.value(2),
            call.value(3),
            call.int(4),
        )
    else:
        x, at, updates, axis, reduction = *(call.value(i) for i in range(3)), call.int(3), call.int(4)
    if reduction not in (0, 1):
        raise call.unsupported(f"expected a reduction of 0 (none) or 1 (add), got {reduction}")
    return call.op("ScatterElements", x, at, updates, axis=axis, reduction="add" if reduction else "none")


@TABLE.op("ScatterValue")
def scatter_number(call: Call) -> Value:
    """Return one number written at places of an axis."""
    call.require(4, 0)
    x, at = call.value(0), call.value(2)
    updates = call.op("Expand", call.operand(3, call.dtype), call.op("Shape", at))
    return call.op("ScatterElements", x, at, updates, axis=call.int(1))


@TABLE.op("TensorScatterDiv")
def divide_slices(call: Call) -> Value:
    """Return slices divided by all updates of their places."""
    x, at, updates = call.value(0), call.cast(call.value(1), "int64"), call.value(2)
    ones = call.op("Expand", call.scalar_like(1, x), call.op("Shape", x))
    return call.op("Div", x, call.op("ScatterND", ones, at, updates, reduction="mul"))


@TABLE.op("IndexFill")
def fill_at_indices(call: Call) -> Value:
    """Return one number at the indices of an axis: where any is equal to the place."""
    x, axis = call.value(0), call.axis(1)
    (size,) = call.static_shape(axes=[axis])
    places = call.constant(np.arange(size)[:, None])
    at = call.op("Reshape", call.cast(call.value(2), "int64"), call.constant([1, -1]))
    at = call.op("Where", call.op("Less", at, call.constant(0)), call.op("Add", at, call.constant(size)), at)
    hit = call.cast(call.op("Equal", places, at), "int32")
    shape = [size if a == axis else 1 for a in range(call.rank())]
    hit = call.op("Reshape", call.op("ReduceMax", hit, call.constant([1]), keepdims=0), call.constant(shape))
    return call.op("Where", call.cast(hit, "bool"), call.operand(3, call.dtype), x)


@TABLE.op("InplaceAdd", "InplaceSub", "InplaceUpdateV2")
def change_rows(call: Call) -> Value:
    """Return rows added to, taken from, or written at places that are numbers."""
    named = "indices" in call
    places, rows = (call.ints("indices"), call.value(1)) if named else (call.ints(1), call.value(2))
    at = call.constant([[place] for place in places])
    if call.operator == "InplaceUpdateV2":
        return call.op("ScatterND", call.value(0), at, rows)
    rows = call.op("Neg", rows) if call.operator == "InplaceSub" else rows
    return call.op("ScatterND", call.value(0), at, rows, reduction="add")


@TABLE.op("InTopK")
def is_among_largest(call: Call) -> Value:
    """Whether fewer than k scores are larger than the label's own."""
    scores, labels = call.value(0), call.op("Unsqueeze", call.value(1), call.constant([1]))
    own = call.op("GatherElements", scores, labels, axis=1)
    larger = call.cast(call.op("Greater", scores, own), "int32")
    return call.op(
        "Less",
        call.op("ReduceSum", larger, call.constant([1]), keepdims=0),
        call.constant(call.int("k"), "int32"),
    )


@TABLE.op("IndexAdd")
def add_at_indices(call: Call) -> Value:
    """Return slices of an axis added at its indices."""
    call.ignore("use_lock", "check_index_bound")
    x, updates = call.value(0), call.value(2)
    axis = call.axis("axis")
    at = _along(call, call.value(1), updates, axis)
    return call.op("ScatterElements", x, at, updates, axis=axis, reduction="add")


@TABLE.op("IndexAddExt")
def add_scaled_at_indices(call: Call) -> Value:
    """Return the same, the axis given before the indices, and times a number."""
    x, updates, axis, scale = call.value(0), call.value(3), call.axis(1), call.plain(4, 1)
    if scale != 1:
        updates = call.op("Mul", updates, call.scalar_like(scale, updates))
    at = _along(call, call.value(2), updates, axis)
    return call.op("ScatterElements", x, at, updates, axis=axis, reduction="add")


def _along(call: Call, indices: Value, updates: Value, axis: int) -> Value:
    """Indices of an axis in the shape of updates."""
    shape = [1] * call.rank()
    shape[axis] = -1
    at = call.op("Reshape", call.cast(indices, "int64"), call.constant(shape))
    return call.op("Expand", at, call.op("Shape", updates))


@TABLE.op("UnsortedSegmentSum")
def add_segments(call: Call) -> Value:
    """Return the slices of each segment added up, by its number; negative ones go nowhere."""
    x, at, count = call.value(0), call.value(1), call.int(2)
    ranks = call.rank(), call.rank(at)
    rest = [Size.of(size) if isinstance(size, str) else size for size in call.shape()[ranks[1] :]]
    if isinstance(call.arg(1), np.ndarray) and (call.arg(1) < 0).any():
        raise call.unsupported("expected no negative segments")
    zeros = call.op("Expand", call.scalar_like(0, x), call.shape_value([count, *rest]))
    places = call.op("Unsqueeze", call.cast(at, "int64"), call.constant([ranks[1]]))
    return call.op("ScatterND", zeros, places, x, reduction="add")


@TABLE.op("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd")
def reduce_segments(call: Call) -> Value:
    """Return the slices of each segment as one; an empty segment holds the type's bound, or 1."""
    x, at, count = call.value(0), call.value(1), call.int(2)
    rank = call.rank(at)
    rest = [Size.of(size) if isinstance(size, str) else size for size in call.shape()[rank:]]
    if not isinstance(call.arg(1), np.ndarray) or (call.arg(1) < 0).any():
        raise call.unsupported("expected segments that are constant and not negative")
    how = call.operator.removeprefix("UnsortedSegment").lower()
    limits = np.finfo(call.dtype) if "float" in call.dtype else np.iinfo(call.dtype)
    start = {"max": limits.min, "min": limits.max, "prod": 1}[how]
    filled = call.op("Expand", call.constant(start, call.dtype), call.shape_value([count, *rest]))
    places = call.op("Unsqueeze", call.cast(at, "int64"), call.constant([rank]))
    return call.op("ScatterND", filled, places, x, reduction="mul" if how == "prod" else how)


@TABLE.op("NonZero")
def nonzero(call: Call) -> Value:
    """Return the places that are not zero, one a row."""
    return call.op("Transpose", call.op("NonZero", call.value(0)), perm=[1, 0])


@TABLE.op("MaskedSelect")
def masked_select(call: Call) -> Value:
    """Return the elements where a mask is true."""
    x, mask = call.value(0), call.value(1)
    if call.shape(x) != call.shape(mask):
        shape = call.op("Shape", call.op("Where", mask, x, x))  # of the broadcast
        x, mask = call.op("Expand", x, shape), call.op("Expand", mask, shape)
    flat = call.constant([-1])
    return call.op("Compress", call.op("Reshape", x, flat), call.op("Reshape", mask, flat))


@TABLE.op("OneHot")
def one_hot(call: Call) -> Value:
    """Lower OneHot; a negative index is no class, while ONNX's own operator counts it from the end."""
    indices, depth, axis = call.value(0), call.int(1), call.int(4)
    rank = call.rank(indices)
    axis += (rank + 1) * (axis < 0)
    classes = np.arange(depth, dtype=call.dtype_of(indices)).reshape([-1, *[1] * (rank - axis)])
    found = call.op("Equal", call.op("Unsqueeze", indices, call.constant([axis])), call.constant(classes))
    return call.op("Where", found, call.value(2), call.value(3))


@TABLE.op("TopK")
def top_k(call: Call) -> tuple[Value, Value]:
    values, indices = call.ops(
        "TopK",
        call.value(0),
        call.constant([call.int(1)]),
        outputs=2,
        sorted=call.flag("sorted"),
    )
    return values, call.cast(indices, call.result_type(1).dtype)


@TABLE.op("FillV2")
def fill(call: Call) -> Value:
    return call.op("Expand", call.value(1), call.shape_value(call.sizes(0)))


@TABLE.op("Sort")
def sort(call: Call) -> tuple[Value, Value]:
    """TopK of the whole axis; ONNX says nothing of the order of equals."""
    x, axis = call.value(0), call.int("axis")
    axis %= call.rank(x)
    size = call.shape(x)[axis]
    is_known = isinstance(size, int)  # else it is what `unique` finds, or the batch
    count = call.constant([size]) if is_known else call.op("Shape", x, start=axis, end=axis + 1)
    largest = call.flag("descending")
    values, indices = call.ops("TopK", x, count, outputs=2, axis=axis, largest=largest)
    return values, call.cast(indices, call.result_type(1).dtype)
