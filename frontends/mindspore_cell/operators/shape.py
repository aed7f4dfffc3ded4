"""Shapes: what moves elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir import Operator, Value
from ....ir.dims import Size
from ... import formulas
from ...arguments import is_list
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
_END = 2**63 - 1


@TABLE.op("Reshape")
def reshape(call: Call) -> Value:
    """The batch is 0 where it keeps its place, -1 where it is the only unknown, else computed."""
    x, dims = call.value(0), call.sizes(1)
    shape = call.shape(x)
    layer = _dense_over_last_axis(call, x) or _rows_of_every_index(call, x)
    if layer is not None:
        return layer
    stated = call.type.shape or ()
    rows = {shape[0], _symbol(shape[0])} if shape else set()
    if stated[:1] == shape[:1] and _is_normalisation(call.cell):
        rows.add(-1)  # it restores its operand's shape; where the batch is open, MindSpore writes -1 for it
    if len(dims) == 2 and len(shape) > 2 and dims[0] in rows:
        return call.op("Flatten", x, axis=1)
    codes: list[int | Size] = []
    for axis, dim in enumerate(dims):
        known = stated[axis] if axis < len(stated) else None
        if isinstance(dim, Size) or (dim == -1 and not isinstance(known, int)):
            keeps = axis < len(shape) and shape[axis] == (dim.dim if isinstance(dim, Size) else known)
            codes.append(0 if keeps and all(shape[i] == stated[i] for i in range(axis)) else dim)
        else:
            codes.append(known if dim == -1 and isinstance(known, int) else dim)
    open_ = [i for i, c in enumerate(codes) if isinstance(c, Size) or c == -1]
    if len(open_) == 1:
        codes[open_[0]] = -1
    if any(isinstance(c, Size) for c in codes):
        return call.op(
            "Reshape", x, call.shape_value([c if c != 0 else dims[i] for i, c in enumerate(codes)])
        )
    return call.op("Reshape", x, call.constant([int(c) for c in codes if not isinstance(c, Size)]))


def _is_normalisation(cell: Any) -> bool:
    from mindspore import nn

    return isinstance(cell, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm))


def _dense_over_last_axis(call: Call, y: Value) -> Value | None:
    """Dense flattens its operand to two axes and restores them: a Linear over the last axis says the same.

    Its activation, a Cell of its own, comes in between.
    """
    linear = call.graph.producer(y)
    activation = None
    if isinstance(linear, Operator) and _is_activation(call, linear):
        activation = linear
        (y,) = (v for v in call.graph.operands(activation.key) if v is not None)
        linear = call.graph.producer(y)
        if call.graph.users(y) != [(activation.key, 0)]:
            return None
    if (
        not isinstance(linear, Operator)
        or linear.qualified_name != "regraft.Linear"
        or linear.call != call.b.call
    ):
        return None
    operands = call.graph.operands(y.node)
    flat = call.graph.producer(operands[0]) if operands[0] is not None else None
    if not isinstance(flat, Operator) or flat.op_type != "Reshape" or flat.call != call.b.call:
        return None
    x = call.graph.operands(flat.key)[0]
    assert x is not None
    before, after = call.shape(x), call.type.shape or ()
    if (
        not call.is_sole_reader(0)
        or before[:-1] != after[:-1]
        or before[-1:] != (call.type_of(Value(flat.key)).shape or ())[-1:]
    ):
        return None
    made = call.op("regraft.Linear", x, *operands[1:])
    if activation is None:
        return made
    attributes: dict[str, Any] = activation.attributes
    with call.b.inside(activation.call):
        return call.op(activation.qualified_name, made, **attributes)


def _is_activation(call: Call, operator: Operator) -> bool:
    """Whether an operator is all that a Cell does which this one calls, element by element."""
    tree, inner = call.graph.modules, operator.call
    called = inner is not None and inner != call.b.call and tree.call(inner).parent == call.b.call
    alone = len(call.graph.operands(operator.key)) == 1 and operator.traits.elementwise
    return called and alone and operator.traits.activation


def _rows_of_every_index(call: Call, y: Value) -> Value | None:
    """Embedding flattens its indices and gives the rows their shape: one Gather says the same."""
    gather = call.graph.producer(y)
    if not isinstance(gather, Operator) or gather.op_type != "Gather" or gather.call != call.b.call:
        return None
    rows, indices = call.graph.operands(gather.key)
    flat = call.graph.producer(indices) if indices is not None else None
    if not isinstance(flat, Operator) or flat.op_type != "Reshape" or flat.call != call.b.call:
        return None
    x = call.graph.operands(flat.key)[0]
    assert rows is not None
    assert x is not None
    of_rows, of_x = call.shape(rows), call.shape(x)
    flattened = call.type_of(Value(flat.key)).rank == 1 and gather.int("axis") == 0
    if not call.is_sole_reader(0) or not flattened or call.type.shape != (*of_x, *of_rows[1:]):
        return None
    return call.op("Gather", rows, x, axis=0)


def _symbol(dim: object) -> object:
    """Return a symbolic dimension of a type as the programs' sizes are."""
    return Size.of(dim) if isinstance(dim, str) else dim


@TABLE.op("Flatten")
def flatten(call: Call) -> Value:
    return call.op("Flatten", call.value(0), axis=1)


@TABLE.op("FlattenExt")
def flatten_axes(call: Call) -> Value:
    """The axes from a first to a last one are one."""
    x, shape = call.value(0), call.shape()
    first, last = call.axis(1), call.axis(2)
    if first == last:
        return x
    sizes = [*shape[:first], None, *shape[last + 1 :]]
    if all(size is None or isinstance(size, int) for size in sizes[1:]):
        codes = [-1 if size is None else size for size in sizes]
        return call.op("Reshape", x, call.constant([c if isinstance(c, int) else 0 for c in codes]))
    raise call.unsupported(f"expected static sizes after the first axis, got {call.type_of()}")


@TABLE.op("Transpose", "TransposeView")
def transpose(call: Call) -> Value:
    x = call.value(0)
    return call.op("Transpose", x, perm=[axis % call.rank(x) for axis in call.ints(1)])


@TABLE.op("TExt")
def transpose_matrix(call: Call) -> Value:
    """Transpose the last two axes; a tensor with fewer axes stays."""
    return call.op("Transpose", call.value(0), perm=[1, 0]) if call.rank() == 2 else call.value(0)


@TABLE.op("TransposeExtView")
def swap_axes(call: Call) -> Value:
    """Return two axes exchanged."""
    rank = call.rank()
    perm = list(range(rank))
    a, b = call.axis(1), call.axis(2)
    perm[a], perm[b] = b, a
    return call.op("Transpose", call.value(0), perm=perm)


@TABLE.op("ExpandDims", "ExpandDimsView")
def expand_dims(call: Call) -> Value:
    return call.op("Unsqueeze", call.value(0), call.constant(call.ints(1)))


@TABLE.op("Squeeze")
def squeeze(call: Call) -> Value:
    """Lower Squeeze, with the axes of size 1 named if none are given, so that a batch of 1 stays.

    An axis that has another size stays, as MindSpore has it.
    """
    x, axes = call.value(0), [] if call.arg(1, None) is None else call.ints(1)
    shape = call.shape(x)
    axes = [i for i, d in enumerate(shape) if d == 1 and (not axes or i in axes or i - len(shape) in axes)]
    return call.op("Squeeze", x, call.constant(axes)) if axes else x


@TABLE.op("Concat")
def concat(call: Call) -> Value:
    return call.op("Concat", *call.values(0), axis=call.int(1))


@TABLE.op("Stack")
def stack(call: Call) -> Value:
    """Return a new axis, counted in the result."""
    axis = call.int("axis")
    call.ignore("num", "N")
    at = call.constant([axis])
    return call.op("Concat", *(call.op("Unsqueeze", v, at) for v in call.values(0)), axis=axis)


@TABLE.op("Unstack")
def unstack(call: Call) -> tuple[Value, ...]:
    axis, count = call.int("axis"), call.int("num")
    at = call.constant([axis])
    parts = _split(call, call.value(0), axis, count)
    return tuple(call.op("Squeeze", p, at, types=[t]) for p, t in zip(parts, call.types, strict=True))


@TABLE.op("Split")
def split(call: Call) -> tuple[Value, ...]:
    return tuple(_split(call, call.value(0), call.int(1), call.int(2)))


@TABLE.op("SplitWithSize", "SplitWithSizeView")
def split_with_size(call: Call) -> tuple[Value, ...]:
    sizes = call.ints(1)
    x = call.value(0)
    return tuple(
        call.ops("Split", x, call.constant(sizes), outputs=len(sizes), types=call.types, axis=call.int(2))
    )


@TABLE.op("ChunkView", "SplitTensorView")
def split_evenly(call: Call) -> tuple[Value, ...]:
    """Into so many parts, or parts of such a size; the last may be smaller, as MindIR's types say."""
    call.ignore(1)
    axis = call.axis(2)
    sizes = [(call.result_type(i).shape or ())[axis] for i in range(len(call.types))]
    if not all(isinstance(size, int) for size in sizes):
        raise call.depends_on_batch()
    if len(sizes) == 1:
        return (call.value(0),)
    return tuple(call.ops("Split", call.value(0), call.constant(sizes), outputs=len(sizes), axis=axis))


@TABLE.op("UnstackExtView")
def unstack_view(call: Call) -> tuple[Value, ...]:
    axis = call.axis(1)
    parts = _split(call, call.value(0), axis, len(call.types))
    at = call.constant([axis])
    return tuple(call.op("Squeeze", p, at, types=[t]) for p, t in zip(parts, call.types, strict=True))


def _split(call: Call, x: Value, axis: int, count: int) -> list[Value]:
    dim = call.shape(x)[axis]
    if count == 1:
        return [x]
    if isinstance(dim, int):
        return call.ops("Split", x, call.constant([dim // count] * count), outputs=count, axis=axis)
    return call.ops("Split", x, outputs=count, num_outputs=count, axis=axis)


@TABLE.op("StridedSlice")
def strided_slice(call: Call) -> Value:
    """Lower StridedSlice, whose masks are bit sets over the positions of begin, end and strides.

    A set bit opens that bound (begin, end), inserts an axis (new_axis), or drops it (shrink_axis).
    """
    x, begin, end, strides = call.value(0), _bounds(call, 1), _bounds(call, 2), call.ints(3)
    begin_mask, end_mask, ellipsis, new_axis, shrink = (call.int(i) for i in range(4, 9))
    if ellipsis or new_axis:
        raise call.unsupported("expected no ellipsis or new axis in the masks")
    shape = call.shape(x)
    starts, ends, axes, steps, dropped = [], [], [], [], []
    for axis, (low, high, step) in enumerate(zip(begin, end, strides, strict=True)):
        if shrink >> axis & 1 and isinstance(low, Value):
            x = call.op("Gather", x, _vector(call, [low]), axis=axis)
            dropped.append(axis)
            continue
        if shrink >> axis & 1:
            start = call.static(low)
            starts.append(start)
            ends.append(_END if start == -1 else start + 1)
            axes.append(axis)
            steps.append(1)
            dropped.append(axis)
            continue
        open_low = bool(begin_mask >> axis & 1)
        open_high = bool(end_mask >> axis & 1) or _reaches(high, shape[axis])
        if step > 0 and (open_low or low == 0) and open_high and step == 1:
            continue
        starts.append((0 if step > 0 else -1) if open_low else call.static(low))
        ends.append((_END if step > 0 else -_END) if open_high else call.static(high))
        axes.append(axis)
        steps.append(step)
    if axes:
        at = [_vector(call, v) for v in (starts, ends, axes, steps)]
        x = call.op("Slice", x, *at, types=None if dropped else [call.type])
    return call.op("Squeeze", x, call.constant(dropped)) if dropped else x


def _bounds(call: Call, position: int) -> list[Any]:
    """Return bounds of a slice: numbers, sizes, and where the data say them, values."""
    found = call.arg(position)
    has_values = is_list(found) and any(isinstance(bound, Value) for bound in found)
    return list(found) if has_values else call.sizes(position)


def _vector(call: Call, bounds: Sequence[Any]) -> Value:
    """Return bounds as one int64 vector."""
    if not any(isinstance(bound, Value) for bound in bounds):
        return call.constant(bounds)
    parts = [
        call.reshape(call.cast(bound, "int64"), [1]) if isinstance(bound, Value) else call.constant([bound])
        for bound in bounds
    ]
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=0)


def _reaches(bound: int | Size, dim: object) -> bool:
    """Whether an end bound is at or past the end of its axis."""
    if isinstance(bound, Size):
        return bound.dim == dim
    return isinstance(dim, int) and bound >= dim


@TABLE.op("SelectExtView")
def select_one(call: Call) -> Value:
    """Return one place of an axis, which goes."""
    return call.op("Gather", call.value(0), call.constant(call.int(2)), axis=call.axis(1))


@TABLE.op("NarrowView", "Narrow")
def narrow(call: Call) -> Value:
    """Return so many places of an axis, from a first one."""
    axis, start = call.axis(1), call.int(2)
    bounds = [start], [start + call.int(3)], [axis]
    return call.op("Slice", call.value(0), *(call.constant(b) for b in bounds))


@TABLE.op("Slice")
def slice_(call: Call) -> Value:
    """Begin and size per axis; a size of -1 reaches the end."""
    x, begin, size = call.value(0), call.ints(1), call.sizes(2)
    shape = call.shape(x)
    axes = [i for i, s in enumerate(size) if not (begin[i] == 0 and (s == -1 or s == _symbol(shape[i])))]
    ends = [_END if size[i] == -1 else begin[i] + call.static(size[i]) for i in axes]
    if not axes:
        return x
    return call.op("Slice", x, *(call.constant(v) for v in ([begin[i] for i in axes], ends, axes)))


@TABLE.op("BroadcastTo", "BroadcastToView")
def broadcast_to(call: Call) -> Value:
    """-1 keeps a dimension; so does 1 in Expand, which is how the batch keeps its own."""
    x, dims = call.value(0), call.sizes(1)
    shape = call.shape(x)
    lead = len(dims) - len(shape)
    wanted: list[int | Size] = []
    for axis, dim in enumerate(dims):
        has = shape[axis - lead] if axis >= lead else 1
        if dim == -1 and isinstance(has, int):
            wanted.append(has)
        else:
            wanted.append(1 if dim == -1 or (isinstance(dim, Size) and has == dim.dim) else dim)
    return call.op("Expand", x, call.shape_value(wanted))


@TABLE.op("Tile")
def tile(call: Call) -> Value:
    """More repeats than axes put new axes in front."""
    x, repeats = call.value(0), call.sizes(1)
    missing = len(repeats) - call.rank(x)
    if missing > 0:
        x = call.op("Unsqueeze", x, call.constant(list(range(missing))))
    repeats = [1] * -missing + repeats
    return call.op("Tile", x, call.shape_value(repeats))


@TABLE.op("PadV3")
def pad_v3(call: Call) -> Value:
    """Return pads in torch's order: last axis first, (begin, end) pairs."""
    x, pads = call.value(0), call.ints(1)
    rank = call.rank(x)
    mode = call.text("mode", "constant")
    if not call.arg("paddings_contiguous", True):
        raise call.unsupported("expected contiguous paddings")
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    names = {"constant": "constant", "reflect": "reflect", "edge": "edge", "circular": "wrap"}
    if mode not in names:
        raise call.unsupported(f"expected a mode among {', '.join(names)}, got `{mode}`")
    if mode == "constant" and min(begins + ends) < 0:
        x, begins, ends = _cropped(call, x, begins, ends)
    value = None if call.arg(2, None) is None or mode != "constant" else call.value(2)
    if value is not None:
        value = call.scalar_like(call.float(2), x)
    return call.op("Pad", x, call.constant([*begins, *ends]), value, mode=names[mode])


def _cropped(call: Call, x: Value, begins: list[int], ends: list[int]) -> tuple[Value, list[int], list[int]]:
    """Negative pads cut: a Slice for those, and the pads that are left."""
    axes = [i for i in range(len(begins)) if begins[i] < 0 or ends[i] < 0]
    starts = [max(-begins[i], 0) for i in axes]
    stops = [ends[i] if ends[i] < 0 else _END for i in axes]
    x = formulas.slice_axes(call, x, axes, starts, stops)
    return x, [max(v, 0) for v in begins], [max(v, 0) for v in ends]


@TABLE.op("Pad")
def pad(call: Call) -> Value:
    """Zeros; (begin, end) per axis."""
    pairs = call.ints("paddings")
    return call.op("Pad", call.value(0), call.constant(formulas.begins_then_ends(pairs)), mode="constant")


@TABLE.op("MirrorPad")
def mirror_pad(call: Call) -> Value:
    """Mirrored about the edge's middle (REFLECT) or its outside (SYMMETRIC), which ONNX's Pad has not."""
    pairs, x = call.ints(1), call.value(0)
    if call.arg("mode", "REFLECT") == "REFLECT":
        return call.op("Pad", x, call.constant(formulas.begins_then_ends(pairs)), mode="reflect")
    for axis in range(call.rank()):
        before, after = pairs[2 * axis : 2 * axis + 2]
        if before or after:
            (size,) = call.static_shape(x, [axis])
            places = [*range(before - 1, -1, -1), *range(size), *range(size - 1, size - 1 - after, -1)]
            x = call.op("Gather", x, call.constant(places), axis=axis)
    return x


@TABLE.op("Padding")
def pad_last_axis(call: Call) -> Value:
    """Return zeros behind a last axis of 1."""
    pads = [0] * (2 * call.rank() - 1) + [call.int("pad_dim_size") - 1]
    return call.op("Pad", call.value(0), call.constant(pads))


@TABLE.op("ReverseV2")
def reverse(call: Call) -> Value:
    return formulas.reverse(call, call.value(0), call.ints(1))


@TABLE.op("ChannelShuffle")
def channel_shuffle(call: Call) -> Value:
    """Channels as (group, C / group) exchanged."""
    x, group = call.value(0), call.int("group")
    _, channels, *spatial = call.type_of(x).shape or (None, None)
    if not isinstance(channels, int) or not all(isinstance(d, int) for d in spatial):
        raise call.unsupported("expected static channels and spatial dimensions")
    rest = [d for d in spatial if isinstance(d, int)]
    split_ = call.op("Reshape", x, call.constant([0, group, channels // group, *rest]))
    moved = call.op("Transpose", split_, perm=[0, 2, 1, *range(3, 3 + len(rest))])
    return call.op("Reshape", moved, call.constant([0, channels, *rest]))
