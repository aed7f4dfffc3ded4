"""Lowerings of operators that rearrange, join and split."""

from __future__ import annotations

import math
from itertools import accumulate
from math import prod

from ....ir import Value
from ...formulas import begins_then_ends, reverse
from ...lowering_table import Lowering, LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


def _identity(call: Call) -> Value:
    call.ignore("memory_format")
    return call.value("self")


TABLE.op("aten.contiguous.default", "aten.clone.default")(_identity)


@TABLE.op("aten.alias.default", "aten.lift_fresh_copy.default")
def alias(call: Call) -> Value:
    """Return the same values."""
    return call.value("self")


@TABLE.op("aten.detach.default", "aten.detach_copy.default")
def detach(call: Call) -> Value:
    """Return the same values without a gradient."""
    return call.context.stop_gradient(call.value("self"))


def _reshaped(call: Call) -> Value:
    """The result's shape is torch's own; how it was asked for matters where that is true of some sizes alone.

    Of `x.view(n // 2, 2, -1)` torch says that the second size is ``n // (n // 2)``, which 5 contradicts.
    """
    name = next((n for n in ("size", "shape") if n in call), None)
    asked = call.sizes(name) if name is not None else []
    call.ignore("size", "shape", "dim", "sizes", "other", "start_dim", "end_dim")
    shape = call.result_shape
    if any(
        isinstance(a, int) and a > 0 and not isinstance(s, int) for a, s in zip(asked, shape, strict=False)
    ):
        x = call.value("self")
        dims = tuple(None if size == -1 else call.as_dim(size) for size in asked)
        types = [call.graph.known_type(x).with_shape(dims)]
        return call.op("Reshape", x, call.shape_value(asked), allowzero=1, types=types)
    return call.reshape(call.value("self"), shape)


TABLE.op(
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.reshape_as.default",
    "aten.view_as.default",
    "aten.unflatten.int",
    "aten.ravel.default",
)(_reshaped)


@TABLE.op("aten.flatten.using_ints")
def flatten(call: Call) -> Value:
    """Flatten where the first axis stays and the result has two; Reshape otherwise."""
    x, rank = call.value("self"), call.rank("self")
    start, end = call.axis("start_dim"), call.axis("end_dim")
    if start == 1 and end == rank - 1 and rank >= 2:
        return x if rank == 2 else call.op("Flatten", x, axis=1)
    return call.reshape(x, call.result_shape)


@TABLE.op("aten.unsqueeze.default")
def unsqueeze(call: Call) -> Value:
    """Return a new axis of size 1."""
    axis = call.from_front(call.int("dim"), call.rank("self") + 1)
    return call.op("Unsqueeze", call.value("self"), call.constant([axis]))


@TABLE.op("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default")
def squeeze(call: Call) -> Value:
    """Remove those of the given axes that have size 1."""
    axes = call.axes("dim", default=None)
    sizes = [call.shape("self")[a] for a in axes] if call.rank("self") else []
    if call.context.ones.intersection(sizes):
        raise call.unsupported("expected axes of static size, got one that is 1 in the example only")
    axes = [a for a, size in zip(axes, sizes, strict=bool(sizes)) if size == 1]
    return call.op("Squeeze", call.value("self"), call.constant(axes)) if axes else call.value("self")


def _permuted(call: Call, perm: list[int]) -> Value:
    x = call.value("self")
    return x if perm == sorted(perm) else call.op("Transpose", x, perm=perm)


@TABLE.op("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(call: Call) -> Value:
    """Return two axes swapped."""
    perm = list(range(call.rank("self")))
    names = ("dim0", "dim1") if "dim0" in call else ("axis0", "axis1")
    a, b = (call.axis(name) for name in names)
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return _permuted(call, perm)


@TABLE.op("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def t(call: Call) -> Value:
    """Return the last two axes swapped; of rank 2, but for `mT`."""
    perm = list(range(call.rank("self")))
    if "numpy_T" in call.operator:
        return _permuted(call, perm[::-1])
    return _permuted(call, perm[:-2] + perm[-2:][::-1])


@TABLE.op("aten.permute.default")
def permute(call: Call) -> Value:
    """Axes in a given order."""
    return _permuted(call, [call.from_front(a, call.rank("self")) for a in call.ints("dims")])


@TABLE.op("aten.movedim.int", "aten.movedim.intlist")
def movedim(call: Call) -> Value:
    """Some axes moved to given places, the others in their order."""
    rank = call.rank("self")
    source = [call.from_front(a, rank) for a in call.ints("source")]
    target = [call.from_front(a, rank) for a in call.ints("destination")]
    placed = dict(zip(target, source, strict=True))
    others = iter(a for a in range(rank) if a not in source)
    return _permuted(call, [placed[i] if i in placed else next(others) for i in range(rank)])


def _expanded(call: Call) -> Value:
    call.ignore("size", "implicit", "other")
    x, shape = call.value("self"), call.result_shape
    if tuple(call.shape("self")) == tuple(shape):
        return x
    return call.op("Expand", x, call.shape_value(shape))


TABLE.op("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")(_expanded)


@TABLE.op("aten.repeat.default")
def repeat(call: Call) -> Value:
    """Return tiles; leading repeats make new axes."""
    x, repeats = call.value("self"), call.sizes("repeats")
    added = len(repeats) - call.rank("self")
    if added:
        x = call.reshape(x, [1] * added + list(call.shape("self")))
    return call.op("Tile", x, call.shape_value(repeats))


@TABLE.op("aten.tile.default")
def tile(call: Call) -> Value:
    """Return tiles; missing leading repeats are 1."""
    x, repeats = call.value("self"), call.sizes("dims")
    repeats = [1] * (call.rank("self") - len(repeats)) + repeats
    added = len(repeats) - call.rank("self")
    if added:
        x = call.reshape(x, [1] * added + list(call.shape("self")))
    return call.op("Tile", x, call.shape_value(repeats))


# -- joining and splitting -------------------------------------------------------------------------------


@TABLE.op("aten.cat.default", "aten.concat.default")
def cat(call: Call) -> Value:
    """Concatenate along an axis; torch skips empty vectors, whatever the rank of the others."""
    rank = len(call.result_shape)
    values = [v for v in call.values("tensors") if call.type_of(v).rank == rank]
    values = [call.cast(v, call.dtype) for v in values]
    axis = call.from_front(call.int("dim"), rank)
    return values[0] if len(values) == 1 else call.op("Concat", *values, axis=axis)


@TABLE.op("aten.stack.default")
def stack(call: Call) -> Value:
    """Stack along a new axis."""
    axis = call.from_front(call.int("dim"), len(call.result_shape))
    parts = [
        call.op("Unsqueeze", call.cast(v, call.dtype), call.constant([axis])) for v in call.values("tensors")
    ]
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=axis)


def _split(call: Call) -> list[Value]:
    """Into the sizes that torch's own results have, symbolic ones too."""
    call.ignore("split_size", "split_sizes", "chunks", "sections", "indices", "indices_or_sections")
    axis = call.axis("dim")
    sizes = [call.context.symbols.size(f.shape[axis]) for f in call.fake]
    if len(sizes) == 1:
        return [call.value("self")]
    x, count = call.value("self"), len(sizes)
    if all(isinstance(s, int) for s in sizes):
        return call.ops("Split", x, call.constant(sizes), outputs=count, axis=axis)
    if len(set(sizes)) == 1:
        return call.ops("Split", x, outputs=count, axis=axis, num_outputs=count)
    ends = list(accumulate(sizes))
    starts = [0, *ends[:-1]]
    return [
        call.op("Slice", x, call.shape_value([start]), call.shape_value([end]), call.constant([axis]))
        for start, end in zip(starts, ends, strict=True)
    ]


TABLE.op(
    "aten.split.Tensor",
    "aten.split_copy.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.chunk.default",
    "aten.tensor_split.sections",
    "aten.tensor_split.indices",
)(_split)


@TABLE.op("aten.unbind.int")
def unbind(call: Call) -> list[Value]:
    """Return every slice along an axis, without the axis."""
    axis = call.axis("dim")
    return [call.op("Gather", call.value("self"), call.constant(i), axis=axis) for i in range(len(call.fake))]


@TABLE.op("aten.roll.default")
def roll(call: Call) -> Value:
    """Slices that swap places; without axes, of the flattened values."""
    x, shifts, dims = call.value("self"), call.ints("shifts"), call.ints("dims")
    shape = list(call.shape("self"))
    if not dims:
        x, shape, dims = (
            call.reshape(x, [prod(call.static_shape("self"))]),
            [prod(call.static_shape("self"))],
            [0],
        )
    for shift, dim in zip(shifts, dims, strict=True):
        axis = call.from_front(dim, len(shape))
        size = shape[axis]
        if not isinstance(size, int):
            raise call.unsupported(f"expected a static size of the rolled axis {axis}, got `{size}`")
        if size and shift % size:
            cut = call.constant([size - shift % size, shift % size])
            head, tail = call.ops("Split", x, cut, outputs=2, axis=axis)
            x = call.op("Concat", tail, head, axis=axis)
    return call.reshape(x, call.shape("self"))


@TABLE.op("aten.flip.default")
def flip(call: Call) -> Value:
    """Reversed along axes: slices with step -1."""
    axes = call.axes("dims") if call.ints("dims") else []
    return reverse(call, call.value("self"), axes)


# -- padding ---------------------------------------------------------------------------------------------

_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(call: Call, mode: str, value: Value | None) -> Value:
    """Torch lists pads from the last axis backwards, ONNX all begins and then all ends."""
    given, rank = call.ints("pad" if "pad" in call else "padding"), call.rank("self")
    axes = [rank - 1 - i for i in range(len(given) // 2)]
    pads = call.constant(begins_then_ends(given))
    return call.op("Pad", call.value("self"), pads, value, call.constant(axes), mode=mode)


@TABLE.op("aten.pad.default")
def pad(call: Call) -> Value:
    """Any mode; negative pads crop."""
    mode = call.text("mode")
    value = call.arg("value")
    constant = call.constant(value or 0, call.dtype) if mode == "constant" else None
    return _padded(call, _PAD_MODES[mode], constant)


@TABLE.op("aten.constant_pad_nd.default")
def constant_pad_nd(call: Call) -> Value:
    """Pad with a value; negative pads crop."""
    return _padded(call, "constant", call.operand("value", call.dtype))


def _mode_pad(mode: str) -> Lowering[Call]:
    return lambda call: _padded(call, mode, None)


for _rank in (1, 2, 3):
    TABLE.op(f"aten.reflection_pad{_rank}d.default")(_mode_pad("reflect"))
    TABLE.op(f"aten.replication_pad{_rank}d.default")(_mode_pad("edge"))


@TABLE.op("aten.pixel_shuffle.default")
def pixel_shuffle(call: Call) -> Value:
    """Channels into space, channel-first blocks; without a batch too."""
    x, shape = call.value("self"), call.shape("self")
    if len(shape) != 4:
        x = call.reshape(x, [math.prod(shape[:-3]), *shape[-3:]])
    found = call.op("DepthToSpace", x, blocksize=call.int("upscale_factor"), mode="CRD")
    return found if len(shape) == 4 else call.reshape(found, call.result_shape)


@TABLE.op("aten.channel_shuffle.default")
def channel_shuffle(call: Call) -> Value:
    """Channels of each group in turn."""
    shape, groups = list(call.shape("self")), call.int("groups")
    split = call.reshape(call.value("self"), [shape[0], groups, shape[1] // groups, *shape[2:]])
    perm = [0, 2, 1, *range(3, len(shape) + 1)]
    return call.reshape(call.op("Transpose", split, perm=perm), shape)


@TABLE.op("aten.meshgrid.indexing", "aten.meshgrid.default")
def meshgrid(call: Call) -> list[Value]:
    """Return every vector spread over an axis of its own; "xy" swaps the first two."""
    vectors = call.values("tensors")
    order = list(range(len(vectors)))
    if "indexing" in call and call.arg("indexing") == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    sizes = [call.context.symbols.size(s) for s in call.fake[0].shape]
    out: list[Value] = []
    for vector, axis in zip(vectors, order, strict=True):
        shape = [-1 if a == axis else 1 for a in range(len(vectors))]
        out.append(
            call.op("Expand", call.op("Reshape", vector, call.constant(shape)), call.shape_value(sizes))
        )
    return out


@TABLE.op("aten.diagonal.default")
def diagonal(call: Call) -> Value:
    """Return the main or another diagonal of two axes, last: a gather of their flattened product."""
    a, b, offset, rank = call.axis("dim1"), call.axis("dim2"), call.int("offset"), call.rank("self")
    shape = call.shape("self")
    rows, columns = shape[a], shape[b]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise call.unsupported("expected static axes of a diagonal")
    others = [i for i in range(rank) if i not in (a, b)]
    x = _permuted(call, [*others, a, b])
    x = call.reshape(x, [*(shape[i] for i in others), rows * columns])
    picked = [i * columns + i + offset for i in range(rows) if 0 <= i + offset < columns]
    return call.op("Gather", x, call.constant(picked, "int64"), axis=-1)
