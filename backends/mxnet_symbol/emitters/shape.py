"""Emitters of operators that move values."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


@TABLE.op("Flatten")
def flatten(e: View) -> Reference:
    """Emit Flatten."""
    if e.operator.int("axis") != 1:
        raise e.refused("expected a Flatten from axis 1")
    return e.node("Flatten", e.inputs())


@TABLE.op("Reshape")
def reshape(e: View) -> Reference:
    """Emit Reshape, whose codes 0 and -1 are the same in MXNet, or reshape_like."""
    before = e.producer(1)
    if before is not None and before.op_type == "Shape":
        like = e.graph.operands(before.key)[0]
        assert like is not None
        return e.node("reshape_like", [e.input(), e.builder.reference(like, e.name)])
    return e.node("Reshape", [e.input()], shape=e.ints(1))


@TABLE.op("Transpose")
def transpose(e: View) -> Reference:
    """Emit Transpose."""
    return e.node("transpose", e.inputs(), axes=e.operator.ints("perm") or list(range(len(e.shape())))[::-1])


@TABLE.op("Unsqueeze")
def unsqueeze(e: View) -> Reference:
    """Emit expand_dims for every axis."""
    rank, result = len(e.shape()) + len(e.ints(1)), e.input()
    for axis in sorted(a % rank for a in e.ints(1)):
        result = e.node("expand_dims", [result], axis=axis)
    return result


@TABLE.op("Squeeze")
def squeeze(e: View) -> Reference:
    """Emit Squeeze."""
    return e.node("squeeze", [e.input()], axis=e.ints(1) if e.has(1) else None)


@TABLE.op("Concat")
def concat(e: View) -> Reference:
    """Emit Concat."""
    return e.node("Concat", e.inputs(), dim=e.operator.int("axis"), num_args=len(e.operands))


@TABLE.op("Split")
def split(e: View) -> list[Reference]:
    """Emit SliceChannel for equal parts, else _split_v2."""
    axis, count = e.operator.int("axis"), len(e.operator.types)
    sizes = e.ints(1) if e.has(1) else [1] * count
    if len(set(sizes)) == 1:
        index, _ = e.node("SliceChannel", [e.input()], num_outputs=count, axis=axis, squeeze_axis=False)
    else:
        starts = [sum(sizes[:i]) for i in range(count)]
        index, _ = e.node("_split_v2", [e.input()], indices=starts, axis=axis, squeeze_axis=False, sections=0)
    return [(index, i) for i in range(count)]


@TABLE.op("Slice")
def slice_(e: View) -> Reference:
    """Emit slice, whose open bounds are None."""
    rank = len(e.shape())
    starts, ends = e.ints(1), e.ints(2)
    axes = e.ints(3) if e.has(3) else list(range(len(starts)))
    steps = e.ints(4) if e.has(4) else [1] * len(starts)
    begin: list[int | None] = [None] * rank
    end: list[int | None] = [None] * rank
    step: list[int | None] = [None] * rank
    for axis, a, z, s in zip(axes, starts, ends, steps, strict=True):
        begin[axis] = None if (s < 0 and a == -1) or abs(a) > 1 << 31 else a
        end[axis] = None if abs(z) > 1 << 31 else z
        step[axis] = s
    return e.node("slice", [e.input()], begin=begin, end=end, step=step)


@TABLE.op("Pad")
def pad(e: View) -> Reference:
    """Emit Pad, which has the last axes of 4 or 5: those of fewer get axes before them for as long."""
    rank, widths = len(e.shape()), e.ints(1)
    axes = [a % rank for a in e.ints(3)] if e.has(3) else list(range(rank))
    value = e.constant(2)
    if e.has(2) and value is None:
        raise e.refused("expected a constant to pad with")
    both = dict(zip(axes, zip(widths[: len(axes)], widths[len(axes) :], strict=True), strict=True))
    flat = [w for a in range(rank) for w in both.get(a, (0, 0))]
    source, more = e.input(), tuple(range(5 - rank)) if 0 < rank < 4 else ()
    if more:
        flat = [0, 0] * len(more) + flat
    if any(flat[:4]) or len(flat) not in (8, 10) or min(flat) < 0:
        raise e.refused("expected pads of the trailing axes of 4 or 5, the only ones that MXNet has")
    constant = 0.0 if value is None else float(value)
    for _ in more:
        source = e.node("expand_dims", [source], axis=0)
    padded = e.node("Pad", [source], mode=e.operator.str("mode"), pad_width=flat, constant_value=constant)
    return e.node("squeeze", [padded], axis=more) if more else padded


@TABLE.op("Tile")
def tile(e: View) -> Reference:
    """Emit Tile."""
    return e.node("tile", [e.input()], reps=e.ints(1))


@TABLE.op("Expand")
def expand(e: View) -> Reference:
    """Emit broadcast_to, broadcast_like, or zeros and ones like another value."""
    before = e.producer(1)
    if before is not None and before.op_type == "Shape" and len(e.shape()) == 0:
        like = e.graph.operands(before.key)[0]
        value = e.constant(0)
        assert like is not None
        if value is None or float(value) not in (0.0, 1.0):
            raise e.refused("expected zeros or ones of a shape")
        return e.node("ones_like" if float(value) else "zeros_like", [e.builder.reference(like, e.name)])
    if before is not None and before.op_type == "Shape":
        like = e.graph.operands(before.key)[0]
        assert like is not None
        source, missing = e.input(), len(e.graph.known_type(like).shape or ()) - len(e.shape())
        for _ in range(missing):
            source = e.node("expand_dims", [source], axis=0)
        return e.node("broadcast_like", [source, e.builder.reference(like, e.name)])
    sizes = e.ints(1)
    if len(sizes) != len(e.shape()):
        raise e.refused("expected a broadcast to the same rank")
    return e.node("broadcast_to", [e.input()], shape=[0 if s == 1 else s for s in sizes])


@TABLE.op("Size")
def size(e: View) -> Reference:
    """Emit size_array; a single number has an axis in MXNet."""
    return e.node("size_array", [e.input()])


@TABLE.op("Shape")
def shape(e: View) -> Reference:
    """Emit shape_array."""
    if e.operator.int("start") or e.operator.attribute("end") is not None:
        raise e.refused_open("expected the whole shape")
    return e.node("shape_array", e.inputs())


@TABLE.op("Col2Im")
def columns_to_image(e: View) -> Reference:
    """Emit col2im; where the ends are padded otherwise than the beginnings, of the padded image, then cut."""
    size, kernel = e.ints(1), e.ints(2)
    if len(kernel) != 2:
        raise e.refused(f"expected windows of two axes, got {len(kernel)}")
    stride, dilate, pads = (e.operator.spatial(name, 2) for name in ("strides", "dilations", "pads"))
    first, last = pads[:2], pads[2:]
    settings = {"kernel": kernel, "stride": stride, "dilate": dilate}
    if first == last:
        return e.node("col2im", [e.input()], output_size=size, pad=first, **settings)
    whole = [a + n + b for a, n, b in zip(first, size, last, strict=True)]
    found = e.node("col2im", [e.input()], output_size=whole, pad=[0, 0], **settings)
    for axis, (begin, length) in enumerate(zip(first, size, strict=True), 2):
        found = e.node("slice_axis", [found], axis=axis, begin=begin, end=begin + length)
    return found
