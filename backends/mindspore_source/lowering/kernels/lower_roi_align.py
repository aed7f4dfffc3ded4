"""lower-roi-align: regions that MindSpore's kernel does not have are products with weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, nan
from typing import ClassVar

import numpy as np

from .....ir import Builder, Graph, Operator, Value
from .....ir.composites.terms import Term, maximum, where
from .....passes.pattern import PatternPass
from ...dialect import can_emit


@dataclass(frozen=True)
class LowerRoiAlign(PatternPass):
    """Write a RoiAlign that MindSpore's kernel does not have as two products with weights.

    What it does:
        A sample between pixels weighs them by its distances down and across, and so does the mean of the
        samples of a bin: the pixels of a region's image are multiplied by the weights of its rows from the
        left and by those of its columns from the right.

    Why:
        The kernel has no number of samples that follows the size of the region (NaN and other values were
        measured), and no half pixels.

    Leaves alone:
        Those that the kernel has, maxima, and maps whose size is not known.

    Refuses:
        Nothing. Where the number of samples follows the region, one of more than twice the map is NaN.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[2,3,8,8]
        ...   %r = input "r" : f32[5,4]
        ...   %i = input "i" : i64[5]
        ...   %y = RoiAlign(%x, %r, %i) {output_height=2, output_width=2} : f32[5,3,2,2]
        ...   return "y" = %y
        ... }''')
        >>> for change in LowerRoiAlign().run(graph):
        ...     print(change)
        MS125 is a product with the weights of its samples - at `RoiAlign`
    """

    name: ClassVar[str] = "lower-roi-align"
    codes: ClassVar[dict[str, str]] = {"MS125": "regions are products with the weights of their samples"}
    operators: ClassVar[tuple[str, ...]] = ("RoiAlign",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Replace; see the class."""
        return "" if can_emit(graph, node) else _replaced(graph, node)


def _replaced(graph: Graph, node: Operator) -> str:
    data, corners, images = graph.operands(node.key)
    type_ = None if data is None else graph.type_of(data)
    sizes = () if type_ is None or type_.shape is None else type_.shape[2:]
    if node.str("mode") != "avg" or data is None or corners is None or images is None or len(sizes) != 2:
        return ""
    height, width = sizes
    if not isinstance(height, int) or not isinstance(width, int):
        return ""
    b = Builder(graph)
    with b.inside(node.call, node.location):
        rows = _weights(Term(b, corners), node, 1, height, node.int("output_height"))
        columns = _weights(Term(b, corners), node, 0, width, node.int("output_width"))
        one = Term(b, b.constant([1]))
        turned = columns.op("Transpose", perm=[0, 2, 1]).op("Unsqueeze", one)
        image = Term(b, data).op("Gather", Term(b, images), axis=0)
        found = rows.op("Unsqueeze", one).op("MatMul", image).op("MatMul", turned)
    graph.replace_uses(Value(node.key, 0), found.value)
    return "is a product with the weights of its samples"


def _weights(corners: Term, node: Operator, axis: int, length: int, bins: int) -> Term:
    """Return the weight of each place along an axis in each bin of each region: [regions, bins, length]."""
    halves = node.str("coordinate_transformation_mode") == "half_pixel"
    given, b = node.int("sampling_ratio"), corners.b

    def along(count: int) -> Term:
        return Term(b, b.constant(np.arange(count), corners.dtype))

    def corner(at: int) -> Term:
        part = corners.op("Slice", *(Term(b, b.constant([n])) for n in (at, at + 1, 1)))
        scaled = part * node.float("spatial_scale") - (0.5 if halves else 0.0)
        return scaled.op("Unsqueeze", Term(b, b.constant([2])))  # region, bin, sample

    start, size = corner(axis), corner(axis + 2) - corner(axis)
    if not halves:
        size = maximum(size, size * 0 + 1)
    step = size / bins
    count = step.op("Ceil").clip(1) if given < 1 else step * 0 + given
    most = given if given > 0 else 2 * ceil(length / bins) + 2
    bin_ = along(bins).op("Unsqueeze", Term(b, b.constant([1])))
    sample = along(most)
    at = start + bin_ * step + (sample + 0.5) * step / count
    used = (sample < count) & (at >= -1) & (at <= length)
    place = at.clip(0, length - 1).op("Unsqueeze", Term(b, b.constant([3])))
    near = (1 - abs(place - along(length))).clip(0)
    kept = where(used.op("Unsqueeze", Term(b, b.constant([3]))), near, 0.0)
    total = kept.op("ReduceSum", Term(b, b.constant([2])), keepdims=0)
    return total / (count if given > 0 else where(count <= most, count, nan))
