"""Shapes: what moves elements without computing on them."""

from __future__ import annotations

from ....ir import Operator, Value
from ...lowering_table import LoweringTable
from ..batch import Batch
from ..call import Lowering, Use

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")
_END = 2**63 - 1


@TABLE.op("Reshape")
def reshape(use: Use) -> Value:
    """The batch is 0 where it keeps its place, -1 where it is the only unknown, else computed."""
    x, dims = use.tensor(0), use.dims(1)
    shape = use.b.type_of(x).shape or ()
    layer = _dense_over_last_axis(use, x) or _rows_of_every_index(use, x)
    if layer is not None:
        return layer
    if len(dims) == 2 and len(shape) > 2 and dims[0] in (shape[0], _symbol(shape[0])):
        return use.emit("Flatten", x, axis=1)
    stated = use.type.shape or ()
    codes: list[int | Batch] = []
    for axis, dim in enumerate(dims):
        known = stated[axis] if axis < len(stated) else None
        if isinstance(dim, Batch) or (dim == -1 and not isinstance(known, int)):
            keeps = axis < len(shape) and shape[axis] == (dim.symbol if isinstance(dim, Batch) else known)
            codes.append(0 if keeps and all(shape[i] == stated[i] for i in range(axis)) else dim)
        else:
            codes.append(known if dim == -1 and isinstance(known, int) else dim)
    open_ = [i for i, c in enumerate(codes) if isinstance(c, Batch) or c == -1]
    if len(open_) == 1:
        codes[open_[0]] = -1
    if any(isinstance(c, Batch) for c in codes):
        return use.emit(
            "Reshape", x, use.shape_value([c if c != 0 else dims[i] for i, c in enumerate(codes)])
        )
    return use.emit("Reshape", x, use.b.constant([int(c) for c in codes if not isinstance(c, Batch)]))


def _dense_over_last_axis(use: Use, y: Value) -> Value | None:
    """Dense flattens its operand to two axes and restores them: a Linear over the last axis says the same."""
    linear = use.graph.producer(y)
    if (
        not isinstance(linear, Operator)
        or linear.qualified_name != "regraft.Linear"
        or linear.call != use.b.call
    ):
        return None
    operands = use.graph.operands(y.node)
    flat = use.graph.producer(operands[0]) if operands[0] is not None else None
    if not isinstance(flat, Operator) or flat.op_type != "Reshape" or flat.call != use.b.call:
        return None
    x = use.graph.operands(flat.key)[0]
    assert x is not None
    before, after = use.b.type_of(x).shape or (), use.type.shape or ()
    if (
        not use.sole_reader(0)
        or before[:-1] != after[:-1]
        or before[-1:] != (use.b.type_of(Value(flat.key)).shape or ())[-1:]
    ):
        return None
    return use.emit("regraft.Linear", x, *operands[1:])


def _rows_of_every_index(use: Use, y: Value) -> Value | None:
    """Embedding flattens its indices and gives the rows their shape: one Gather says the same."""
    gather = use.graph.producer(y)
    if not isinstance(gather, Operator) or gather.op_type != "Gather" or gather.call != use.b.call:
        return None
    rows, indices = use.graph.operands(gather.key)
    flat = use.graph.producer(indices) if indices is not None else None
    if not isinstance(flat, Operator) or flat.op_type != "Reshape" or flat.call != use.b.call:
        return None
    x = use.graph.operands(flat.key)[0]
    assert rows is not None
    assert x is not None
    of_rows, of_x = use.b.type_of(rows).shape or (), use.b.type_of(x).shape or ()
    flattened = use.b.type_of(Value(flat.key)).rank == 1 and gather.int("axis", 0) == 0
    if not use.sole_reader(0) or not flattened or use.type.shape != (*of_x, *of_rows[1:]):
        return None
    return use.emit("Gather", rows, x, axis=0)


def _symbol(dim: object) -> object:
    """The Batch that a symbolic dimension of a type stands for."""
    if isinstance(dim, str):
        head, _, tail = dim.partition("*")
        return Batch(int(head)) if tail else Batch(1)
    return dim


@TABLE.op("Flatten")
def flatten(use: Use) -> Value:
    return use.emit("Flatten", use.tensor(0), axis=1)


@TABLE.op("Transpose")
def transpose(use: Use) -> Value:
    x = use.tensor(0)
    return use.emit("Transpose", x, perm=[axis % use.rank(x) for axis in use.ints(1)])


@TABLE.op("ExpandDims")
def expand_dims(use: Use) -> Value:
    return use.emit("Unsqueeze", use.tensor(0), use.b.constant(use.ints(1)))


@TABLE.op("Squeeze")
def squeeze(use: Use) -> Value:
    """Without axes every dimension of 1 goes; they are named, so that a batch of 1 stays."""
    x, axes = use.tensor(0), [] if use.argument(1) is None else use.ints(1)
    axes = axes or [i for i, d in enumerate(use.b.type_of(x).shape or ()) if d == 1]
    return use.emit("Squeeze", x, use.b.constant(axes)) if axes else x


@TABLE.op("Concat")
def concat(use: Use) -> Value:
    return use.emit("Concat", *use.values(0), axis=use.int(1))


@TABLE.op("Stack")
def stack(use: Use) -> Value:
    """A new axis, counted in the result."""
    axis = use.attribute_int("axis")
    use.attributes.ignore("num", "N")
    at = use.b.constant([axis])
    return use.emit("Concat", *(use.b.op("Unsqueeze", v, at) for v in use.values(0)), axis=axis)


@TABLE.op("Unstack")
def unstack(use: Use) -> tuple[Value, ...]:
    axis, count = use.attribute_int("axis"), use.attribute_int("num")
    at = use.b.constant([axis])
    parts = _split(use, use.tensor(0), axis, count)
    return tuple(use.b.op("Squeeze", p, at, types=[t]) for p, t in zip(parts, use.types, strict=True))


@TABLE.op("Split")
def split(use: Use) -> tuple[Value, ...]:
    return tuple(_split(use, use.tensor(0), use.int(1), use.int(2)))


@TABLE.op("SplitWithSize")
def split_with_size(use: Use) -> tuple[Value, ...]:
    sizes = use.ints(1)
    x = use.tensor(0)
    return tuple(
        use.b.ops("Split", x, use.b.constant(sizes), outputs=len(sizes), types=use.types, axis=use.int(2))
    )


def _split(use: Use, x: Value, axis: int, count: int) -> list[Value]:
    dim = (use.b.type_of(x).shape or ())[axis]
    if count == 1:
        return [x]
    if isinstance(dim, int):
        return use.b.ops("Split", x, use.b.constant([dim // count] * count), outputs=count, axis=axis)
    return use.b.ops("Split", x, outputs=count, num_outputs=count, axis=axis)


@TABLE.op("StridedSlice")
def strided_slice(use: Use) -> Value:
    """Masks are bit sets over the positions of begin, end and strides.

    A set bit opens that bound (begin, end), inserts an axis (new_axis), or drops it (shrink_axis).
    """
    x, begin, end, strides = use.tensor(0), use.dims(1), use.dims(2), use.ints(3)
    begin_mask, end_mask, ellipsis, new_axis, shrink = (use.int(i) for i in range(4, 9))
    if ellipsis or new_axis:
        raise use.unsupported("expected no ellipsis or new axis in the masks")
    shape = use.b.type_of(x).shape or ()
    starts, ends, axes, steps, dropped = [], [], [], [], []
    for axis, (low, high, step) in enumerate(zip(begin, end, strides, strict=True)):
        if shrink >> axis & 1:
            start = use.bound(low)
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
        starts.append((0 if step > 0 else _END) if open_low else use.bound(low))
        ends.append((_END if step > 0 else -_END) if open_high else use.bound(high))
        axes.append(axis)
        steps.append(step)
    if axes:
        at = [use.b.constant(v) for v in (starts, ends, axes, steps)]
        x = use.b.op("Slice", x, *at, types=None if dropped else [use.type])
    return use.emit("Squeeze", x, use.b.constant(dropped)) if dropped else x


def _reaches(bound: int | Batch, dim: object) -> bool:
    """Whether an end bound is at or past the end of its axis."""
    if isinstance(bound, Batch):
        return bound.symbol == dim
    return isinstance(dim, int) and bound >= dim


@TABLE.op("Slice")
def slice_(use: Use) -> Value:
    """Begin and size per axis; a size of -1 reaches the end."""
    x, begin, size = use.tensor(0), use.ints(1), use.dims(2)
    shape = use.b.type_of(x).shape or ()
    axes = [i for i, s in enumerate(size) if not (begin[i] == 0 and (s == -1 or s == _symbol(shape[i])))]
    ends = [_END if size[i] == -1 else begin[i] + use.bound(size[i]) for i in axes]
    if not axes:
        return x
    return use.emit("Slice", x, *(use.b.constant(v) for v in ([begin[i] for i in axes], ends, axes)))


@TABLE.op("BroadcastTo")
def broadcast_to(use: Use) -> Value:
    """-1 keeps a dimension; so does 1 in Expand, which is how the batch keeps its own."""
    x, dims = use.tensor(0), use.dims(1)
    shape = use.b.type_of(x).shape or ()
    lead = len(dims) - len(shape)
    wanted: list[int | Batch] = []
    for axis, dim in enumerate(dims):
        has = shape[axis - lead] if axis >= lead else 1
        if dim == -1 and isinstance(has, int):
            wanted.append(has)
        else:
            wanted.append(1 if dim == -1 or (isinstance(dim, Batch) and has == dim.symbol) else dim)
    return use.emit("Expand", x, use.shape_value(wanted))


@TABLE.op("Tile")
def tile(use: Use) -> Value:
    """More repeats than axes put new axes in front."""
    x, repeats = use.tensor(0), use.dims(1)
    missing = len(repeats) - use.rank(x)
    if missing > 0:
        x = use.b.op("Unsqueeze", x, use.b.constant(list(range(missing))))
    repeats = [1] * -missing + repeats
    return use.emit("Tile", x, use.shape_value(repeats))


@TABLE.op("PadV3")
def pad_v3(use: Use) -> Value:
    """Pads in torch's order: last axis first, (begin, end) pairs."""
    x, pads = use.tensor(0), use.ints(1)
    rank = use.rank(x)
    mode = str(use.attributes.get("mode", "constant"))
    if not use.attributes.get("paddings_contiguous", True):
        raise use.unsupported("expected contiguous paddings")
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    names = {"constant": "constant", "reflect": "reflect", "edge": "edge", "circular": "wrap"}
    if mode not in names:
        raise use.unsupported(f"expected a mode among {', '.join(names)}, got `{mode}`")
    if mode == "constant" and min(begins + ends) < 0:
        x, begins, ends = _cropped(use, x, begins, ends)
    value = None if use.argument(2) is None or mode != "constant" else use.tensor(2)
    if value is not None:
        value = use.b.scalar_like(use.float(2), x)
    return use.emit("Pad", x, use.b.constant([*begins, *ends]), value, mode=names[mode])


def _cropped(use: Use, x: Value, begins: list[int], ends: list[int]) -> tuple[Value, list[int], list[int]]:
    """Negative pads cut: a Slice for those, and the pads that are left."""
    axes = [i for i in range(len(begins)) if begins[i] < 0 or ends[i] < 0]
    starts = [max(-begins[i], 0) for i in axes]
    stops = [ends[i] if ends[i] < 0 else _END for i in axes]
    x = use.b.op("Slice", x, *(use.b.constant(v) for v in (starts, stops, axes)))
    return x, [max(v, 0) for v in begins], [max(v, 0) for v in ends]


@TABLE.op("Pad")
def pad(use: Use) -> Value:
    """Zeros; (begin, end) per axis."""
    pairs = use.attribute_ints("paddings")
    return use.emit("Pad", use.tensor(0), use.b.constant([*pairs[0::2], *pairs[1::2]]), mode="constant")


@TABLE.op("MirrorPad")
def mirror_pad(use: Use) -> Value:
    pairs = use.ints(1)
    if use.attributes.get("mode", "REFLECT") != "REFLECT":
        raise use.unsupported("expected mode REFLECT: ONNX has no symmetric padding")
    return use.emit("Pad", use.tensor(0), use.b.constant([*pairs[0::2], *pairs[1::2]]), mode="reflect")


@TABLE.op("Tril", "Triu")
def triangle(use: Use) -> Value:
    diagonal = use.attributes.get("diagonal") if "diagonal" in use.attributes else use.argument(1, 0)
    return use.emit("Trilu", use.tensor(0), use.b.constant(diagonal), upper=int(use.node.op == "Triu"))


@TABLE.op("ReverseV2")
def reverse(use: Use) -> Value:
    x, axes = use.tensor(0), use.ints(1)
    at = [use.b.constant(v) for v in ([-1] * len(axes), [-_END] * len(axes), axes, [-1] * len(axes))]
    return use.emit("Slice", x, *at)


@TABLE.op("ChannelShuffle")
def channel_shuffle(use: Use) -> Value:
    """Channels as (group, C / group) exchanged."""
    x, group = use.tensor(0), use.attribute_int("group")
    _, channels, *spatial = use.b.type_of(x).shape or (None, None)
    if not isinstance(channels, int) or not all(isinstance(d, int) for d in spatial):
        raise use.unsupported("expected static channels and spatial dimensions")
    rest = [d for d in spatial if isinstance(d, int)]
    split_ = use.b.op("Reshape", x, use.b.constant([0, group, channels // group, *rest]))
    moved = use.b.op("Transpose", split_, perm=[0, 2, 1, *range(3, 3 + len(rest))])
    return use.emit("Reshape", moved, use.b.constant([0, channels, *rest]))
