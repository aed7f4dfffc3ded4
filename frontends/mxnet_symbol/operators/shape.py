"""Operators that move values without changing them."""

from __future__ import annotations

import numpy as np

from ....ir import Dim, Value
from ....ir.dims import Size, product, quotient
from ...formulas import begins_then_ends, slice_axes
from ...lowering_table import LoweringTable
from ...size_limits import MOST_OUTPUTS
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


@TABLE.op("Flatten")
def flatten(call: Call) -> Value:
    """All axes but the first become one."""
    return call.value(0) if call.rank() == 2 else call.op("Flatten", call.value(0), axis=1)


def reshaped(call: Call, source: list[Dim], codes: list[int]) -> list[Dim]:
    """Return the shape that MXNet's codes ask for: 0 copy, -1 infer, -2 the rest, -3 merge two, -4 split one.

    Raises:
        UnsupportedError: when the codes do not fit the source.
    """
    target: list[Dim] = []
    at, i, infer = 0, 0, None

    def take(count: int) -> list[Dim]:
        nonlocal at
        if at + count > len(source):
            raise call.unsupported(f"expected codes that fit {source}, got {codes}")
        at += count
        return source[at - count : at]

    while i < len(codes):
        code = codes[i]
        i += 1
        if code == 0:
            target += take(1)
        elif code == -1:
            infer = len(target)
            target.append(None)
            at += 1
        elif code == -2:
            target += take(len(source) - at)
        elif code == -3:
            target.append(product(take(2)))
        elif code == -4:
            (whole,), parts = take(1), codes[i : i + 2]
            i += 2
            if len(parts) != 2 or parts == [-1, -1]:
                raise call.unsupported(f"expected two sizes after -4, at most one of them -1, got {codes}")
            known = parts[0] if parts[1] == -1 else parts[1]
            other = quotient(whole, known) if -1 in parts else None
            target += [other if p == -1 else p for p in parts]
        else:
            target.append(code)
            at += 1
    total = product(source)
    if infer is not None:
        target[infer] = quotient(total, product(d for j, d in enumerate(target) if j != infer))
    if any(d is None for d in target) or product(target) != total:
        raise call.unsupported(f"expected codes that keep the size of {source}, got {codes}")
    return target


@TABLE.op("Reshape")
def reshape(call: Call) -> Value:
    """Reshape by codes; see `reshaped`."""
    codes = call.ints("shape", ())
    old, keep = call.ints("target_shape", ()), call.flag("keep_highest")
    source = list(call.shape())
    if not codes:  # 0.8: 0 stands for whatever is left
        codes = [-1 if d == 0 else d for d in old]
        codes = [0, *codes[1:]] if keep else codes
    if not call.flag("reverse"):
        return call.reshape(call.value(0), reshaped(call, source, codes))
    if -4 in codes:  # its two sizes follow it, so that it cannot be read backwards code by code
        raise call.unsupported(f"expected no -4 together with reverse, got {codes}")
    target = reshaped(call, source[::-1], codes[::-1])[::-1]
    return call.reshape(call.value(0), target)


@TABLE.op("reshape_like")
def reshape_like(call: Call) -> Value:
    """Return the shape of another value, or a span of it in place of a span."""
    x, like = call.operands()
    source, other = list(call.shape(x)), list(call.shape(like))
    left = _span(call, "lhs", len(source))
    right = _span(call, "rhs", len(other))
    return call.reshape(x, [*source[: left[0]], *other[right[0] : right[1]], *source[left[1] :]])


def _span(call: Call, side: str, rank: int) -> tuple[int, int]:
    begin, end = call.optional_int(f"{side}_begin"), call.optional_int(f"{side}_end")
    begin, end = begin or 0, rank if end is None else end
    return begin + rank * (begin < 0), end + rank * (end < 0)


@TABLE.op("transpose")
def transpose(call: Call) -> Value:
    """Permute the axes by `axes`, or reverse them."""
    axes = call.ints("axes", ())
    rank = call.rank()
    return call.op(
        "Transpose", call.value(0), perm=[call.from_front(a, rank) for a in axes] or list(range(rank))[::-1]
    )


@TABLE.op("SwapAxis")
def swap_axis(call: Call) -> Value:
    """Return two axes change places."""
    rank = call.rank()
    first, second = (call.from_front(call.int(n, 0), rank) for n in ("dim1", "dim2"))
    order = list(range(rank))
    order[first], order[second] = second, first
    return call.op("Transpose", call.value(0), perm=order)


@TABLE.op("expand_dims")
def expand_dims(call: Call) -> Value:
    """Return a new axis of size 1."""
    axis = call.axis("axis", call.rank() + 1)
    return call.op("Unsqueeze", call.value(0), call.constant([axis]))


@TABLE.op("squeeze")
def squeeze(call: Call) -> Value:
    """Remove axes of size 1; if all have size 1, keep one."""
    shape, axes = call.shape(), call.optional_ints("axis")
    if axes is None:
        gone = [i for i, d in enumerate(shape) if d == 1]
    else:
        gone = [call.from_front(a, len(shape)) for a in axes if a is not None]
    if len(gone) == len(shape):  # MXNet has no arrays without dimensions
        gone = gone[1:]
    return call.op("Squeeze", call.value(0), call.constant(gone)) if gone else call.value(0)


@TABLE.op("Concat")
def concat(call: Call) -> Value:
    """Concatenate, along axis 1 by default."""
    axis, parts = call.axis("dim", default=1), call.operands()
    first = call.type_of(parts[0])
    if first.shape is None or axis >= len(first.shape):
        return call.op("Concat", *parts, axis=axis)
    found = [dim for part in parts for dim in (call.type_of(part).shape or ())[axis : axis + 1]]
    sizes = [Size.of(dim) for dim in found if dim is not None]
    if len(sizes) != len(parts):
        return call.op("Concat", *parts, axis=axis)
    dims: list[Dim] = list(first.shape)
    dims[axis] = sum(sizes, Size(())).dim
    return call.op("Concat", *parts, types=[first.with_shape(tuple(dims))], axis=axis)


@TABLE.op("stack")
def stack(call: Call) -> Value:
    """Stack along a new axis."""
    axis = call.axis("axis", call.rank() + 1, 0)
    parts = [call.op("Unsqueeze", v, call.constant([axis])) for v in call.operands()]
    return call.op("Concat", *parts, axis=axis)


@TABLE.op("SliceChannel")
def slice_channel(call: Call) -> list[Value]:
    """Equal parts along axis 1 by default."""
    axis = call.axis("axis", default=1)
    count = call.int("num_outputs")
    call.bounded(count, MOST_OUTPUTS)
    data = call.type_of(0)
    part = quotient((data.shape or ())[axis], count) if count > 1 and data.shape else None
    if isinstance(part, str):  # of several batches, one behind the other
        type_ = data.with_shape(tuple(part if i == axis else d for i, d in enumerate(data.shape or ())))
        types = [type_] * count
        parts = call.ops("Split", call.value(0), outputs=count, types=types, axis=axis, num_outputs=count)
        return _squeezed(call, parts, axis) if call.flag("squeeze_axis") else parts
    (size,) = call.static_shape(axes=[axis])
    if count < 1 or size % count:
        raise call.unsupported(f"expected num_outputs to divide {size}, got {count}")
    return _parts(call, axis, [size // count] * count, squeeze=call.flag("squeeze_axis"))


@TABLE.op("_split_v2")
def split_v2(call: Call) -> list[Value]:
    """Equal parts, or parts that start at `indices`."""
    axis = call.axis("axis", default=0)
    sections, indices = call.int("sections", 0), call.ints("indices", ())
    (size,) = call.static_shape(axes=[axis])
    call.bounded(sections, MOST_OUTPUTS)
    starts = [size * i // sections for i in range(sections)] if sections else indices  # starts hold the 0
    ends = [*starts[1:], size]
    if sections and size % sections:
        raise call.unsupported(f"expected sections to divide {size}, got {sections}")
    if starts[:1] != [0] or any(not a <= b <= size for a, b in zip(starts, ends, strict=True)):
        raise call.unsupported(f"expected indices that rise from 0 to {size}, got {starts}")
    sizes = [b - a for a, b in zip(starts, ends, strict=True)]
    return _parts(call, axis, sizes, squeeze=call.flag("squeeze_axis"))


def _parts(call: Call, axis: int, sizes: list[int], *, squeeze: bool) -> list[Value]:
    parts = (
        [call.value(0)]
        if len(sizes) == 1
        else call.ops("Split", call.value(0), call.constant(sizes), outputs=len(sizes), axis=axis)
    )
    return _squeezed(call, parts, axis) if squeeze else parts


def _squeezed(call: Call, parts: list[Value], axis: int) -> list[Value]:
    return [call.op("Squeeze", part, call.constant([axis])) for part in parts]


_END = 2**62  # what ONNX clips to the end, whatever the size


@TABLE.op("slice")
def slice_(call: Call) -> Value:
    """Begin, end and step for each axis from the first; None leaves a bound open."""
    begins, ends = call.optional_ints("begin") or [], call.optional_ints("end") or []
    steps = [1 if s is None else s for s in call.optional_ints("step") or []]
    steps += [1] * (len(begins) - len(steps))
    kept = [
        i for i, (a, z, s) in enumerate(zip(begins, ends, steps, strict=True)) if (a, z, s) != (None, None, 1)
    ]
    starts = [(0 if steps[i] > 0 else _END) if (a := begins[i]) is None else a for i in kept]
    stops = [(_END if steps[i] > 0 else -_END) if (z := ends[i]) is None else z for i in kept]
    return slice_axes(call, call.value(0), kept, starts, stops, [steps[i] for i in kept])


@TABLE.op("slice_axis")
def slice_axis(call: Call) -> Value:
    """Begin and end of one axis."""
    axis = call.axis("axis")
    begin, end = call.int("begin"), call.optional_int("end")
    size = call.shape(0)[axis]
    if end is not None and isinstance(size, int) and end > size:
        raise call.unsupported(f"expected an end of at most {size}, as the axis has, got {end}")
    return slice_axes(call, call.value(0), [axis], [begin], [_END if end is None else end], [1])


@TABLE.op("slice_like")
def slice_like(call: Call) -> Value:
    """Slice to the size of another value, along some axes or all."""
    x, like = call.operands()
    given = call.ints("axes", ())
    axes = [call.from_front(a, call.rank(x)) for a in given] or list(range(call.rank(x)))
    source, other = call.shape(x), call.shape(like)
    axes = [a for a in axes if source[a] != other[a]]
    return slice_axes(call, x, axes, [0] * len(axes), call.static_shape(like, axes), [1] * len(axes))


@TABLE.op("Crop")
def crop(call: Call) -> Value:
    """Return the trailing two axes, at an offset or from the centre, to a size or like another value."""
    call.ignore("num_args")
    size, offset = call.ints("h_w", (0, 0)), call.ints("offset", (0, 0))
    if 1 in call:
        size = call.static_shape(call.value(1), [2, 3])
    if call.flag("center_crop"):
        offset = [(n - s) // 2 for n, s in zip(call.static_shape(axes=[2, 3]), size, strict=True)]
    return slice_axes(
        call, call.value(0), [2, 3], offset, [o + s for o, s in zip(offset, size, strict=True)], [1, 1]
    )


@TABLE.op("Pad")
def pad(call: Call) -> Value:
    """Widths for all axes, before and after."""
    x = call.value(0)
    mode, widths = call.text("mode"), call.ints("pad_width")
    value = call.float("constant_value", 0.0)
    if mode not in ("constant", "edge", "reflect") or len(widths) != 2 * call.rank(x):
        raise call.unsupported(f"expected two widths for every axis and a known mode, got {widths} {mode}")
    amounts = call.constant(begins_then_ends(widths))
    return call.op("Pad", x, amounts, call.scalar_like(value, x) if mode == "constant" else None, mode=mode)


@TABLE.op("tile")
def tile(call: Call) -> Value:
    """Repeated as a whole."""
    x, times = call.value(0), call.ints("reps")
    rank = call.rank(x)
    if len(times) > rank:
        x = call.reshape(x, [*[1] * (len(times) - rank), *call.shape(x)])
    times = [1] * (rank - len(times)) + times
    return call.op("Tile", x, call.constant(times))


@TABLE.op("repeat")
def repeat(call: Call) -> Value:
    """Return every element repeated, along an axis or flattened."""
    x, times = call.value(0), call.int("repeats")
    axis = call.optional_int("axis")
    if axis is None:
        x, axis = call.reshape(x, [product(call.shape(x))]), 0
    axis, shape = call.from_front(axis, call.rank(x)), list(call.shape(x))
    tiled = call.op(
        "Tile",
        call.op("Unsqueeze", x, call.constant([axis + 1])),
        call.constant([1] * (axis + 1) + [times] + [1] * (len(shape) - axis - 1)),
    )
    return call.reshape(tiled, [*shape[:axis], product([shape[axis], times]), *shape[axis + 1 :]])


@TABLE.op("reverse")
def reverse(call: Call) -> Value:
    """Reverse along axes."""
    axes = [call.from_front(a, call.rank()) for a in call.ints("axis")]
    return slice_axes(call, call.value(0), axes, [-1] * len(axes), [-_END] * len(axes), [-1] * len(axes))


def expanded(call: Call, x: Value, target: list[Dim]) -> Value:
    """Broadcast to a shape whose symbolic dimensions the value has already."""
    shape = call.shape(x)
    codes = [1 if d == s else d for d, s in zip(target, shape, strict=True)]
    sizes = [c for c in codes if isinstance(c, int)]
    if len(sizes) != len(codes):
        raise call.unsupported(f"expected static sizes to broadcast {list(shape)} to, got {target}")
    return x if set(sizes) <= {1} else call.op("Expand", x, call.constant(sizes))


@TABLE.op("broadcast_to")
def broadcast_to(call: Call) -> Value:
    """Broadcast to a shape in which 0 keeps an axis."""
    shape, sizes = call.shape(), call.ints("shape")
    return expanded(call, call.value(0), [s if d == 0 else d for d, s in zip(sizes, shape, strict=True)])


@TABLE.op("broadcast_axis")
def broadcast_axis(call: Call) -> Value:
    """Axes of size 1 to given sizes."""
    target = list(call.shape())
    for axis, size in zip(call.ints("axis", ()), call.ints("size", ()), strict=True):
        target[call.from_front(axis, len(target))] = size
    return expanded(call, call.value(0), target)


@TABLE.op("broadcast_like")
def broadcast_like(call: Call) -> Value:
    """Broadcast to the shape of another value, or to some of its axes."""
    x, like = call.operands()
    left, right = call.optional_ints("lhs_axes"), call.optional_ints("rhs_axes")
    target, other = list(call.shape(x)), call.shape(like)
    if left is None or right is None:
        target = list(other)
    else:
        for a, z in zip(left, right, strict=True):
            target[call.from_front(a or 0, len(target))] = other[call.from_front(z or 0, len(other))]
    if all(isinstance(d, int) or d == s for d, s in zip(target, call.shape(x), strict=True)):
        return expanded(call, x, target)
    if left is None:  # onto a symbolic size: that of the other value, when the program runs
        return call.op("Expand", x, call.op("Shape", like), types=[call.type_of(x).with_shape(tuple(target))])
    raise call.unsupported(f"expected static sizes to broadcast to, got {target}")


@TABLE.op("depth_to_space")
def depth_to_space(call: Call) -> Value:
    """Channels to blocks of pixels."""
    return call.op("DepthToSpace", call.value(0), blocksize=call.int("block_size"), mode="DCR")


@TABLE.op("space_to_depth")
def space_to_depth(call: Call) -> Value:
    """Blocks of pixels to channels."""
    return call.op("SpaceToDepth", call.value(0), blocksize=call.int("block_size"))


@TABLE.op("shape_array")
def shape_array(call: Call) -> Value:
    """Return the shape, as int64."""
    return call.op("Shape", call.value(0))


@TABLE.op("size_array")
def size_array(call: Call) -> Value:
    """Return the number of elements, as int64 of shape (1,)."""
    return call.op("Unsqueeze", call.op("Size", call.value(0)), call.constant([0]))


@TABLE.op("diag")
def diagonal(call: Call) -> Value:
    """Return the elements of a diagonal; of a vector the matrix that has it there."""
    x, rank, offset = call.value(0), call.rank(), call.int("k", 0)
    first, second = call.axis("axis1", max(rank, 2), 0), call.axis("axis2", max(rank, 2), 1)
    if rank == 1:
        (size,) = call.static_shape(x)
        call.bounded((size + abs(offset)) ** 2)
        places = np.eye(size + abs(offset), k=offset, dtype=bool)
        source = np.zeros(places.shape, np.int64)
        source[places] = np.arange(size)
        return call.op(
            "Where",
            call.constant(places),
            call.op("Gather", x, call.constant(source)),
            call.scalar_like(0, x),
        )
    rows, columns = call.static_shape(x, [first, second])
    start = (0, offset) if offset >= 0 else (-offset, 0)
    count = max(min(rows - start[0], columns - start[1]), 0)
    rest = [a for a in range(rank) if a not in (first, second)]
    moved = call.op("Transpose", x, perm=[*rest, first, second])
    shape = call.shape(moved)
    flat = call.reshape(moved, [*shape[:-2], rows * columns])
    places = (start[0] + np.arange(count)) * columns + start[1] + np.arange(count)
    return call.op("Gather", flat, call.constant(places), axis=rank - 2)
