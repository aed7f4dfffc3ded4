"""count-indices-from-front: constant indices below zero become those that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .....ir import Graph, Operator
from .....passes.pattern import PatternPass

_SELECTING = ("Gather", "GatherElements", "GatherND")


@dataclass(frozen=True)
class CountIndicesFromFront(PatternPass):
    """Count constant indices from the front.

    What it does:
        Adds the size of the axis to constant indices below zero of Gather, GatherElements and GatherND.

    Why:
        They count from the end in ONNX; MindSpore's kernels give zeros for them.

    Leaves alone:
        Indices that are computed, single ones (which become subscripts), and axes of symbolic size.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = const [-1, 0] : i64[2]
        ...   %y = Gather(%x, %0) {axis=1} : f32[N,2]
        ...   return "y" = %y
        ... }''')
        >>> for change in CountIndicesFromFront().run(graph):
        ...     print(change)
        MS105 counts its indices from the front - at `Gather`
    """

    name: ClassVar[str] = "count-indices-from-front"
    codes: ClassVar[dict[str, str]] = {"MS105": "constant indices count from the front"}
    operators: ClassVar[tuple[str, ...]] = _SELECTING

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Count; see the class."""
        counted = _count_from_front(graph, node)
        if counted is None:
            return ""
        graph.set_operand(node.key, 1, graph.add_constant(counted))
        return "counts its indices from the front"


def _count_from_front(graph: Graph, node: Operator) -> np.ndarray | None:
    """Return constant indices counted from the front; None if they already are, or cannot be."""
    data, at = graph.operands(node.key)[:2]
    indices = graph.constant_value(at)
    found = None if data is None else graph.type_of(data)
    if indices is None or not indices.ndim or not (indices < 0).any() or found is None or found.shape is None:
        return None
    if node.op_type == "GatherND":
        first = node.int("batch_dims")
        sizes = found.shape[first : first + indices.shape[-1]]
    else:
        sizes = (found.shape[node.int("axis")],)
    if not all(isinstance(s, int) for s in sizes):
        return None
    return np.where(indices < 0, indices + np.array(sizes, indices.dtype), indices)
