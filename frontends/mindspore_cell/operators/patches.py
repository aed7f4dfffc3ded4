"""Patches of images as columns, and blocks of them as images of their own."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...formulas import patches, slice_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("Im2Col")
def patches_to_columns(call: Call) -> Value:
    """Return patches as (batch, channel, element of it, place)."""
    call.require("padding_mode", "CALCULATED")
    pads = call.ints("pads")
    if len(pads) == 4 and pads[0::2] != pads[1::2]:
        raise call.unsupported(f"expected the same pads at both ends, got {pads}")
    pads = pads[0::2] if len(pads) == 4 else pads
    kernel, dilations, strides = (_both(call.ints(name)) for name in ("ksizes", "dilations", "strides"))
    x = patches(call, call.value(0), kernel, strides, dilations, _both(pads))
    return call.reshape(x, call.type.shape or ())


@TABLE.op("Col2Im")
def columns_to_image(call: Call) -> Value:
    """Return columns (batch, channel, element, place) added up where their patches were."""
    kernel, columns = call.ints("kernel_size"), call.value(0)
    size = call.ints(1)
    _, channels, elements, count = call.type_of(columns).shape or (None,) * 4
    if not (isinstance(channels, int) and isinstance(elements, int) and isinstance(count, int)):
        raise call.unsupported(f"expected static sizes behind the batch, got {call.type_of(columns)}")
    flat = call.op("Reshape", columns, call.constant([0, channels * elements, count]))
    return call.op(
        "Col2Im",
        flat,
        call.constant(size),
        call.constant(kernel),
        strides=_both(call.ints("stride")),
        dilations=_both(call.ints("dilation")),
        pads=_both(call.ints("padding")) * 2,
    )


def _both(given: list[int]) -> list[int]:
    return given * 2 if len(given) == 1 else given


@TABLE.op("SpaceToBatchND")
def space_to_batch(call: Call) -> Value:
    """Return every so manieth place of the spatial axes as an image of its own, in front of the batch."""
    x, blocks, pads = call.value(0), call.ints("block_shape"), call.ints("paddings")
    count = len(blocks)
    _, *rest = call.shape()
    sizes = call.static_shape(x, range(-count, 0))
    kept = call.static_shape(x, range(1, 1 + len(rest) - count))
    if any(pads):
        axes = call.constant(list(range(-count, 0)))
        x = call.op("Pad", x, call.constant([*pads[0::2], *pads[1::2]]), call.scalar_like(0, x), axes)
    full = [size + sum(pads[2 * i : 2 * i + 2]) for i, size in enumerate(sizes)]
    apart = [n for size, block in zip(full, blocks, strict=True) for n in (size // block, block)]
    x = call.op("Reshape", x, call.constant([-1, *kept, *apart]))
    first = 1 + len(kept)
    perm = [*range(first + 1, first + 2 * count, 2), *range(first), *range(first, first + 2 * count, 2)]
    x = call.op("Transpose", x, perm=perm)
    return call.op("Reshape", x, call.constant([-1, *kept, *apart[0::2]]))


@TABLE.op("BatchToSpaceND")
def batch_to_space(call: Call) -> Value:
    """The way back, and the ends cut off."""
    x, blocks, cut = call.value(0), call.ints("block_shape"), call.ints("crops")
    count, rank = len(blocks), call.rank()
    sizes = call.static_shape(x, range(1, rank))
    kept, spatial = sizes[: rank - 1 - count], sizes[rank - 1 - count :]
    x = call.op("Reshape", x, call.constant([*blocks, -1, *sizes]))
    first = count + 1 + len(kept)
    pairs = [axis for i in range(count) for axis in (first + i, i)]
    x = call.op("Transpose", x, perm=[*range(count, first), *pairs])
    full = [size * block for size, block in zip(spatial, blocks, strict=True)]
    x = call.op("Reshape", x, call.constant([-1, *kept, *full]))
    axes = [i for i in range(count) if cut[2 * i] or cut[2 * i + 1]]
    ends = [full[i] - cut[2 * i + 1] for i in axes]
    return slice_axes(call, x, [rank - count + i for i in axes], [cut[2 * i] for i in axes], ends)


@TABLE.op("AffineGrid")
def affine_grid(call: Call) -> Value:
    """Return places of an even grid, moved by a matrix for each image."""
    theta, (_, _, *extent) = call.value(0), call.sizes(1)
    aligned, sizes = call.flag("align_corners"), [call.static(size) for size in extent]
    lines = []
    for size in sizes:
        line = np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
        lines.append(line if aligned else line * (size - 1) / size)
    mesh = np.meshgrid(*lines, indexing="ij")
    places = np.stack([*reversed(mesh), np.ones(sizes)], -1).reshape(-1, len(sizes) + 1)
    moved = call.op("MatMul", call.constant(places, call.dtype), call.op("Transpose", theta, perm=[0, 2, 1]))
    return call.op("Reshape", moved, call.constant([0, *sizes, len(sizes)]))


@TABLE.op("ReverseSequence")
def reverse_beginnings(call: Call) -> Value:
    """Return the beginning of each sequence read backwards, as long as it says."""
    batch, time, rank = call.int("batch_dim"), call.int("seq_dim"), call.rank()
    (size,) = call.static_shape(axes=[time])
    along = call.constant(np.arange(size).reshape([size if a == time else 1 for a in range(rank)]))
    shape = call.constant([-1 if a == batch else 1 for a in range(rank)])
    ends = call.op("Reshape", call.cast(call.value(1), "int64"), shape)
    back = call.op("Sub", call.op("Sub", ends, call.constant(1)), along)
    at = call.op("Where", call.op("Less", along, ends), back, along)
    x = call.value(0)
    return call.op("GatherElements", x, call.op("Expand", at, call.op("Shape", x)), axis=time)
