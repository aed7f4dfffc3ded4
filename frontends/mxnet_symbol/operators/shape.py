"""Operators that move values without changing them."""

from __future__ import annotations

from ....ir import Dim, Value
from ..call import Use, new_table
from ..dimensions import product, quotient
from ..size_limits import MOST_OUTPUTS

TABLE = new_table()


@TABLE.op("Flatten")
def flatten(use: Use) -> Value:
    """All axes but the first become one."""
    return use.x if use.rank(use.x) == 2 else use.b.op("Flatten", use.x, axis=1)


def reshaped(use: Use, source: list[Dim], codes: list[int]) -> list[Dim]:
    """The shape that MXNet's codes ask for: 0 copy, -1 infer, -2 the rest, -3 merge two, -4 split one.

    Raises:
        UnsupportedError: when the codes do not fit the source.
    """
    target: list[Dim] = []
    at, i, infer = 0, 0, None

    def take(count: int) -> list[Dim]:
        nonlocal at
        if at + count > len(source):
            raise use.unsupported(f"expected codes that fit {source}, got {codes}")
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
                raise use.unsupported(f"expected two sizes after -4, at most one of them -1, got {codes}")
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
        raise use.unsupported(f"expected codes that keep the size of {source}, got {codes}")
    return target


@TABLE.op("Reshape")
def reshape(use: Use) -> Value:
    """By codes; see `reshaped`."""
    codes = use.attrs.ints("shape", ())
    old, keep = use.attrs.ints("target_shape", ()), use.attrs.flag("keep_highest")
    source = list(use.shape(use.x))
    if not codes:  # 0.8: 0 stands for whatever is left
        codes = [-1 if d == 0 else d for d in old]
        codes = [0, *codes[1:]] if keep else codes
    if not use.attrs.flag("reverse"):
        return use.reshape(use.x, reshaped(use, source, codes))
    if -4 in codes:  # its two sizes follow it, so that it cannot be read backwards code by code
        raise use.unsupported(f"expected no -4 together with reverse, got {codes}")
    target = reshaped(use, source[::-1], codes[::-1])[::-1]
    return use.reshape(use.x, target)


@TABLE.op("reshape_like")
def reshape_like(use: Use) -> Value:
    """The shape of another value, or a span of it in place of a span."""
    x, like = use.values()
    source, other = list(use.shape(x)), list(use.shape(like))
    left = _span(use, "lhs", len(source))
    right = _span(use, "rhs", len(other))
    return use.reshape(x, [*source[: left[0]], *other[right[0] : right[1]], *source[left[1] :]])


def _span(use: Use, side: str, rank: int) -> tuple[int, int]:
    begin, end = use.attrs.optional_int(f"{side}_begin"), use.attrs.optional_int(f"{side}_end")
    begin, end = begin or 0, rank if end is None else end
    return begin + rank * (begin < 0), end + rank * (end < 0)


@TABLE.op("transpose")
def transpose(use: Use) -> Value:
    """By `axes`, or reversed."""
    axes = use.attrs.ints("axes", ())
    rank = use.rank(use.x)
    return use.b.op("Transpose", use.x, perm=[use.axis(a, rank) for a in axes] or list(range(rank))[::-1])


@TABLE.op("SwapAxis")
def swap_axis(use: Use) -> Value:
    """Two axes change places."""
    rank = use.rank(use.x)
    first, second = (use.axis(use.attrs.int(n, 0), rank) for n in ("dim1", "dim2"))
    order = list(range(rank))
    order[first], order[second] = second, first
    return use.b.op("Transpose", use.x, perm=order)


@TABLE.op("expand_dims")
def expand_dims(use: Use) -> Value:
    """A new axis of size 1."""
    axis = use.axis(use.attrs.int("axis"), use.rank(use.x) + 1)
    return use.b.op("Unsqueeze", use.x, use.b.constant([axis]))


@TABLE.op("squeeze")
def squeeze(use: Use) -> Value:
    """Without axes of size 1; of all ones, one stays."""
    shape, axes = use.shape(use.x), use.attrs.optional_ints("axis")
    if axes is None:
        gone = [i for i, d in enumerate(shape) if d == 1]
    else:
        gone = [use.axis(a, len(shape)) for a in axes if a is not None]
    if len(gone) == len(shape):  # MXNet has no arrays without dimensions
        gone = gone[1:]
    return use.b.op("Squeeze", use.x, use.b.constant(gone)) if gone else use.x


@TABLE.op("Concat")
def concat(use: Use) -> Value:
    """Along axis 1 unless told."""
    use.attrs.ignore("num_args")
    axis = use.axis(use.attrs.int("dim", 1), use.rank(use.x))
    return use.b.op("Concat", *use.values(), axis=axis)


@TABLE.op("stack")
def stack(use: Use) -> Value:
    """Along a new axis."""
    use.attrs.ignore("num_args")
    axis = use.axis(use.attrs.int("axis", 0), use.rank(use.x) + 1)
    parts = [use.b.op("Unsqueeze", v, use.b.constant([axis])) for v in use.values()]
    return use.b.op("Concat", *parts, axis=axis)


@TABLE.op("SliceChannel")
def slice_channel(use: Use) -> list[Value]:
    """Equal parts along axis 1 unless told."""
    axis = use.axis(use.attrs.int("axis", 1), use.rank(use.x))
    count = use.attrs.int("num_outputs")
    use.bounded(count, MOST_OUTPUTS)
    (size,) = use.static(use.x, [axis])
    if count < 1 or size % count:
        raise use.unsupported(f"expected num_outputs to divide {size}, got {count}")
    return _parts(use, axis, [size // count] * count, squeeze=use.attrs.flag("squeeze_axis"))


@TABLE.op("_split_v2")
def split_v2(use: Use) -> list[Value]:
    """Equal parts, or parts that start at `indices`."""
    axis = use.axis(use.attrs.int("axis", 0), use.rank(use.x))
    sections, indices = use.attrs.int("sections", 0), use.attrs.ints("indices", ())
    (size,) = use.static(use.x, [axis])
    use.bounded(sections, MOST_OUTPUTS)
    starts = [size * i // sections for i in range(sections)] if sections else indices  # starts hold the 0
    ends = [*starts[1:], size]
    if sections and size % sections:
        raise use.unsupported(f"expected sections to divide {size}, got {sections}")
    if starts[:1] != [0] or any(not a <= b <= size for a, b in zip(starts, ends, strict=True)):
        raise use.unsupported(f"expected indices that rise from 0 to {size}, got {starts}")
    sizes = [b - a for a, b in zip(starts, ends, strict=True)]
    return _parts(use, axis, sizes, squeeze=use.attrs.flag("squeeze_axis"))


def _parts(use: Use, axis: int, sizes: list[int], *, squeeze: bool) -> list[Value]:
    b = use.b
    parts = (
        [use.x]
        if len(sizes) == 1
        else b.ops("Split", use.x, b.constant(sizes), outputs=len(sizes), axis=axis)
    )
    return [b.op("Squeeze", p, b.constant([axis])) for p in parts] if squeeze else parts


_END = 2**62  # what ONNX clips to the end, whatever the size


def sliced(
    use: Use, x: Value, axes: list[int], begins: list[int], ends: list[int], steps: list[int]
) -> Value:
    """A slice along some axes."""
    b = use.b
    return b.op("Slice", x, *(b.constant(v, "int64") for v in (begins, ends, axes, steps))) if axes else x


@TABLE.op("slice")
def slice_(use: Use) -> Value:
    """Begin, end and step for each axis from the first; None leaves a bound open."""
    begins, ends = use.attrs.optional_ints("begin") or [], use.attrs.optional_ints("end") or []
    steps = [1 if s is None else s for s in use.attrs.optional_ints("step") or []]
    steps += [1] * (len(begins) - len(steps))
    kept = [
        i for i, (a, z, s) in enumerate(zip(begins, ends, steps, strict=True)) if (a, z, s) != (None, None, 1)
    ]
    starts = [(0 if steps[i] > 0 else _END) if (a := begins[i]) is None else a for i in kept]
    stops = [(_END if steps[i] > 0 else -_END) if (z := ends[i]) is None else z for i in kept]
    return sliced(use, use.x, kept, starts, stops, [steps[i] for i in kept])


@TABLE.op("slice_axis")
def slice_axis(use: Use) -> Value:
    """Begin and end of one axis."""
    axis = use.axis(use.attrs.int("axis"), use.rank(use.x))
    begin, end = use.attrs.int("begin"), use.attrs.optional_int("end")
    size = use.shape(use.x)[axis]
    if end is not None and isinstance(size, int) and end > size:
        raise use.unsupported(f"expected an end of at most {size}, as the axis has, got {end}")
    return sliced(use, use.x, [axis], [begin], [_END if end is None else end], [1])


@TABLE.op("slice_like")
def slice_like(use: Use) -> Value:
    """As large as another value, along some axes or all."""
    x, like = use.values()
    given = use.attrs.ints("axes", ())
    axes = [use.axis(a, use.rank(x)) for a in given] or list(range(use.rank(x)))
    source, other = use.shape(x), use.shape(like)
    axes = [a for a in axes if source[a] != other[a]]
    return sliced(use, x, axes, [0] * len(axes), use.static(like, axes), [1] * len(axes))


@TABLE.op("Crop")
def crop(use: Use) -> Value:
    """The trailing two axes, at an offset or from the centre, to a size or like another value."""
    use.attrs.ignore("num_args")
    size, offset = use.attrs.ints("h_w", (0, 0)), use.attrs.ints("offset", (0, 0))
    if len(use.inputs) > 1:
        size = use.static(use.input(1), [2, 3])
    if use.attrs.flag("center_crop"):
        offset = [(n - s) // 2 for n, s in zip(use.static(use.x, [2, 3]), size, strict=True)]
    return sliced(use, use.x, [2, 3], offset, [o + s for o, s in zip(offset, size, strict=True)], [1, 1])


@TABLE.op("Pad")
def pad(use: Use) -> Value:
    """Widths for all axes, before and after."""
    b, x = use.b, use.x
    mode, widths = use.attrs.text("mode"), use.attrs.ints("pad_width")
    value = use.attrs.float("constant_value", 0.0)
    if mode not in ("constant", "edge", "reflect") or len(widths) != 2 * use.rank(x):
        raise use.unsupported(f"expected two widths for every axis and a known mode, got {widths} {mode}")
    amounts = b.constant(widths[::2] + widths[1::2])
    return b.op("Pad", x, amounts, b.scalar_like(value, x) if mode == "constant" else None, mode=mode)


@TABLE.op("tile")
def tile(use: Use) -> Value:
    """Repeated as a whole."""
    x, times = use.x, use.attrs.ints("reps")
    rank = use.rank(x)
    if len(times) > rank:
        x = use.reshape(x, [*[1] * (len(times) - rank), *use.shape(x)])
    times = [1] * (rank - len(times)) + times
    return use.b.op("Tile", x, use.b.constant(times))


@TABLE.op("repeat")
def repeat(use: Use) -> Value:
    """Every element repeated, along an axis or flattened."""
    b, x, times = use.b, use.x, use.attrs.int("repeats")
    axis = use.attrs.optional_int("axis")
    if axis is None:
        x, axis = use.reshape(x, [product(use.shape(x))]), 0
    axis, shape = use.axis(axis, use.rank(x)), list(use.shape(x))
    tiled = b.op(
        "Tile",
        b.op("Unsqueeze", x, b.constant([axis + 1])),
        b.constant([1] * (axis + 1) + [times] + [1] * (len(shape) - axis - 1)),
    )
    return use.reshape(tiled, [*shape[:axis], product([shape[axis], times]), *shape[axis + 1 :]])


@TABLE.op("reverse")
def reverse(use: Use) -> Value:
    """Axes read backwards."""
    axes = [use.axis(a, use.rank(use.x)) for a in use.attrs.ints("axis")]
    return sliced(use, use.x, axes, [-1] * len(axes), [-_END] * len(axes), [-1] * len(axes))


def expanded(use: Use, x: Value, target: list[Dim]) -> Value:
    """Broadcast to a shape whose symbolic dimensions the value has already."""
    shape = use.shape(x)
    codes = [1 if d == s else d for d, s in zip(target, shape, strict=True)]
    sizes = [c for c in codes if isinstance(c, int)]
    if len(sizes) != len(codes):
        raise use.unsupported(f"expected static sizes to broadcast {list(shape)} to, got {target}")
    return x if set(sizes) <= {1} else use.b.op("Expand", x, use.b.constant(sizes))


@TABLE.op("broadcast_to")
def broadcast_to(use: Use) -> Value:
    """To a shape in which 0 leaves an axis as it is."""
    shape, sizes = use.shape(use.x), use.attrs.ints("shape")
    return expanded(use, use.x, [s if d == 0 else d for d, s in zip(sizes, shape, strict=True)])


@TABLE.op("broadcast_axis")
def broadcast_axis(use: Use) -> Value:
    """Axes of size 1 to given sizes."""
    target = list(use.shape(use.x))
    for axis, size in zip(use.attrs.ints("axis", ()), use.attrs.ints("size", ()), strict=True):
        target[use.axis(axis, len(target))] = size
    return expanded(use, use.x, target)


@TABLE.op("broadcast_like")
def broadcast_like(use: Use) -> Value:
    """To the shape of another value, or to some of its axes."""
    x, like = use.values()
    left, right = use.attrs.optional_ints("lhs_axes"), use.attrs.optional_ints("rhs_axes")
    target, other = list(use.shape(x)), use.shape(like)
    if left is None or right is None:
        target = list(other)
    else:
        for a, z in zip(left, right, strict=True):
            target[use.axis(a or 0, len(target))] = other[use.axis(z or 0, len(other))]
    if all(isinstance(d, int) or d == s for d, s in zip(target, use.shape(x), strict=True)):
        return expanded(use, x, target)
    if left is None:  # onto a symbolic size: that of the other value, when the program runs
        return use.b.op(
            "Expand", x, use.b.op("Shape", like), types=[use.b.type_of(x).with_shape(tuple(target))]
        )
    raise use.unsupported(f"expected static sizes to broadcast to, got {target}")


@TABLE.op("depth_to_space")
def depth_to_space(use: Use) -> Value:
    """Channels to blocks of pixels."""
    return use.b.op("DepthToSpace", use.x, blocksize=use.attrs.int("block_size"), mode="DCR")


@TABLE.op("space_to_depth")
def space_to_depth(use: Use) -> Value:
    """Blocks of pixels to channels."""
    return use.b.op("SpaceToDepth", use.x, blocksize=use.attrs.int("block_size"))


@TABLE.op("shape_array")
def shape_array(use: Use) -> Value:
    """The shape, as int64."""
    return use.b.op("Shape", use.x)


@TABLE.op("size_array")
def size_array(use: Use) -> Value:
    """The number of elements, as int64 of shape (1,)."""
    return use.b.op("Unsqueeze", use.b.op("Size", use.x), use.b.constant([0]))
