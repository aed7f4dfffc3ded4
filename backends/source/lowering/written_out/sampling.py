"""Samples at given places, as products with the weights of pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, where, whole
from .table import ExpansionTable, along, constant, given, sizes_of

TABLE = ExpansionTable()

Operands = Sequence[Value | None]

_A = -0.75
"""The coefficient of the cubic kernel."""


def _cubic(x: Term) -> Term:
    """Return what a pixel at a distance weighs."""
    far = abs(x)
    inner = ((_A + 2) * far - (_A + 3)) * far * far + 1
    outer = ((far - 5) * far + 8) * far * _A - 4 * _A
    return where(far <= 1, inner, where(far < 2, outer, 0))


@TABLE.op("GridSample")
def cubic_samples(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Return cubic samples with zeros around: the kernel's weights of all pixels of a row and of a column."""
    x, grid = given(b, operands, 2)
    if x is None or grid is None or (node.str("mode"), node.str("padding_mode")) != ("cubic", "zeros"):
        return None
    image, places = sizes_of(x), sizes_of(grid)
    if image is None or places is None or len(image) != 4:
        return None
    count = places[1] * places[2]

    def weights(axis: int, size: int, last: int) -> Term:
        share = grid.op("Gather", constant(grid, np.array(axis), "int64"), axis=3)
        share = share.op("Reshape", whole(grid, -1, 1, *((1, count) if last == 2 else (count, 1)))) + 1
        at = share * ((size - 1) / 2) if node.int("align_corners") else share * (size / 2) - 0.5
        return _cubic(at - along(grid, size, last, 4, grid.dtype))

    columns = weights(0, image[3], 3).op("Transpose", perm=[0, 1, 3, 2])  # image, 1, column, place
    rows = weights(1, image[2], 2)  # image, 1, row, place
    found = (x.op("MatMul", columns) * rows).op("ReduceSum", whole(x, 2), keepdims=0)
    return [found.op("Reshape", whole(x, -1, image[1], *places[1:3]))]


@TABLE.op("DeformConv")
def deformable_convolution(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Return samples at the moved places of every window, times the weights."""
    x, w, offset, bias, mask = given(b, operands, 5)
    if x is None or w is None or offset is None:
        return None
    image, form, moved = sizes_of(x), sizes_of(w), sizes_of(offset)
    if image is None or form is None or moved is None or len(image) != 4:
        return None
    if 1 in image[2:]:  # between whose ends there is no share
        return None
    (_, channels, *size), (outputs, _, *kernel), out = image, form, moved[2:]
    strides, dilations, pads = (node.spatial(n, 2) for n in ("strides", "dilations", "pads"))
    groups, group, taps = node.int("offset_group"), node.int("group"), kernel[0] * kernel[1]
    # where every tap of every window would be: tap, axis, row, column
    still = np.stack(
        [
            np.broadcast_to(
                np.expand_dims(np.arange(kernel[a]) * dilations[a], [n for n in range(4) if n != a])
                + np.expand_dims(
                    np.arange(out[a]) * strides[a] - pads[a], [n for n in range(4) if n != a + 2]
                ),
                (*kernel, *out),
            ).reshape(taps, *out)
            for a in (0, 1)
        ],
        axis=1,
    )
    at = offset.op("Reshape", whole(x, -1, taps, 2, *out)) + constant(x, still)
    share = at * 2 / constant(x, np.array(size).reshape(2, 1, 1) - 1) - 1
    # GridSample takes (column, row): every group's channels are an image
    grid = share.op("Gather", whole(x, 1, 0), axis=2).op("Transpose", perm=[0, 1, 3, 4, 2])
    grid = grid.op("Reshape", whole(x, -1, taps, out[0] * out[1], 2))
    images = x.op("Reshape", whole(x, -1, channels // groups, *size))
    found = images.op("GridSample", grid, mode="linear", padding_mode="zeros", align_corners=1)
    if mask is not None:
        found = found * mask.op("Reshape", whole(x, -1, 1, taps, out[0] * out[1]))
    columns = found.op("Reshape", whole(x, -1, group, channels // group * taps, out[0] * out[1]))
    rows = w.op("Reshape", whole(x, group, outputs // group, -1))
    result = rows.op("MatMul", columns).op("Reshape", whole(x, -1, outputs, *out))
    if bias is not None:
        result = result + bias.op("Reshape", whole(x, -1, 1, 1))
    return [result]
