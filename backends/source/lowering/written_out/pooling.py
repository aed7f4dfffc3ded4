"""Pooling that a framework's kernels may not have: sums over windows are convolutions with ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, sqrt, whole
from .table import ExpansionTable, constant, given, sizes_of

TABLE = ExpansionTable()

Operands = Sequence[Value | None]


@dataclass(frozen=True)
class _Axis:
    """The windows along one axis.

    Attributes:
        size: of the input.
        out: number of windows.
        ends: the padding that the operator states at the end; windows may reach further.
    """

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    ends: int

    @property
    def reach(self) -> int:
        """Elements from the first of a window to its last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def end(self) -> int:
        """Padding at the end that the windows need."""
        return max((self.out - 1) * self.stride + self.reach - self.size - self.begin, 0)

    def counts(self, *, padded: bool) -> np.ndarray:
        """Return elements in each window, those of the stated padding too if `padded`."""
        first, last = (-self.begin, self.size + self.ends) if padded else (0, self.size)
        starts = np.arange(self.out)[:, None] * self.stride - self.begin
        at = starts + np.arange(self.kernel) * self.dilation
        return ((at >= first) & (at < last)).sum(1)


def _axes(node: Operator, sizes: list[int]) -> list[_Axis] | None:
    """Return how windows lie along every spatial axis."""
    to, rank = node.types[0], len(sizes) - 2
    if to is None or not to.is_static or rank not in (1, 2, 3):
        return None
    kernel, strides = node.ints("kernel_shape"), node.spatial("strides", rank)
    dilations = node.spatial("dilations", rank)
    pads = node.spatial("pads", rank) if node.str("auto_pad") == "NOTSET" else [0] * 2 * rank
    found: list[_Axis] = []
    for at, (size, out) in enumerate(zip(sizes[2:], to.static_shape()[2:], strict=True)):
        axis = _Axis(size, out, kernel[at], strides[at], dilations[at], pads[at], pads[rank + at])
        if node.str("auto_pad").startswith("SAME"):
            short, long = axis.end // 2, axis.end - axis.end // 2
            begin, end = (short, long) if node.str("auto_pad") == "SAME_UPPER" else (long, short)
            axis = _Axis(size, out, axis.kernel, axis.stride, axis.dilation, begin, end)
        found.append(axis)
    return found


def _sum(x: Term, sizes: list[int], axes: list[_Axis]) -> Term:
    """Return the sums over all windows: each channel is an image of its own, convolved with ones."""
    images = x.op("Reshape", whole(x, -1, 1, *sizes[2:]))
    if any(axis.begin or axis.end for axis in axes):
        pads = whole(x, *(a.begin for a in axes), *(a.end for a in axes))
        images = images.op("Pad", pads, None, whole(x, *range(2, 2 + len(axes))))
    window = np.zeros([axis.reach for axis in axes])
    window[tuple(slice(None, None, axis.dilation) for axis in axes)] = 1
    found = images.op(
        "Conv",
        constant(x, window[None, None]),
        kernel_shape=list(window.shape),
        strides=[a.stride for a in axes],
    )
    return found.op("Reshape", whole(x, -1, sizes[1], *(axis.out for axis in axes)))


def _read(b: Builder, node: Operator, operands: Operands) -> tuple[Term, list[int], list[_Axis]] | None:
    (x,) = given(b, operands, 1)
    if x is None or x.dtype not in ("float16", "float32") or (sizes := sizes_of(x)) is None:
        return None
    axes = _axes(node, sizes)
    return None if axes is None else (x, sizes, axes)


@TABLE.op("AveragePool")
def average_pool(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Return sums over windows, divided by how many elements each has."""
    if (read := _read(b, node, operands)) is None:
        return None
    x, sizes, axes = read
    padded = bool(node.int("count_include_pad"))
    counts = reduce(np.multiply.outer, [axis.counts(padded=padded) for axis in axes])
    found = _sum(x, sizes, axes)
    if (counts == counts.flat[0]).all():
        return [found / int(counts.flat[0])]
    return [found / constant(x, counts)]


@TABLE.op("LpPool")
def lp_pool(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Return the root of the sum of powers over each window."""
    if (read := _read(b, node, operands)) is None:
        return None
    x, sizes, axes = read
    p = node.int("p")
    powers = x * x if p == 2 else abs(x) if p == 1 else abs(x) ** p
    found = _sum(powers, sizes, axes)
    return [sqrt(found) if p == 2 else found if p == 1 else found ** (1 / p)]


def _is_in_plane(b: Builder, node: Operator) -> bool:
    """Whether places are only used as those within their plane, as an emitter has them."""
    places = Value(node.key, 1)
    users = [b.graph.node(key) for key, _ in b.graph.users(places)]
    are_reduced = all(isinstance(user, Operator) and user.op_type == "Mod" for user in users)
    return bool(users) and are_reduced and not b.graph.is_output(places)


@TABLE.op("MaxPool")
def max_pool(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Pool, and turn places within a plane into places in the whole tensor."""
    (x,) = given(b, operands, 1)
    if x is None or len(node.types) < 2 or (sizes := sizes_of(x)) is None or _is_in_plane(b, node):
        return None
    if node.int("storage_order") and len(sizes) != 4:
        return None
    planes, plane = sizes[0] * sizes[1], int(np.prod(sizes[2:]))
    attributes: dict[str, Any] = {k: v for k, v in node.attributes.items() if k != "storage_order"}
    if node.str("auto_pad") != "NOTSET":
        if (axes := _axes(node, sizes)) is None:
            return None
        attributes |= {"auto_pad": "NOTSET", "pads": [*(a.begin for a in axes), *(a.end for a in axes)]}
    values, places = (
        Term(b, v) for v in b.ops("MaxPool", x.value, outputs=2, types=node.types, **attributes)
    )
    places = places.op("Mod", plane)
    if node.int("storage_order"):  # of the last two axes, columns first
        rows, columns = sizes[2:]
        places = places.op("Mod", columns) * rows + places / columns
    before = np.arange(planes).reshape(sizes[0], sizes[1], *[1] * (len(sizes) - 2)) * plane
    return [values, places + constant(places, before)]
