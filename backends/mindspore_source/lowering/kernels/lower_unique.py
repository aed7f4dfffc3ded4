"""lower-unique: places and counts of Unique are found by comparing all elements with all values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .....ir import Builder, Graph, Operator, Value, onnx_dtype
from .....passes.pattern import PatternPass
from ...dialect import can_emit


@dataclass(frozen=True)
class LowerUnique(PatternPass):
    """Compute by comparison where each value of Unique was first, where it went and how often it was.

    What it does:
        Replaces a Unique of which more is used than the values by one of the values alone, and compares all
        elements with all of them: places are where the first is equal, counts are sums.

    Why:
        MindSpore's own function numbers the values in the order in which they occur, not sorted.

    Leaves alone:
        A Unique of which only the values are used, and one along an axis.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : i64[6]
        ...   %0 = Unique(%x) : i64[?], i64[?], i64[6]
        ...   return "y" = %0:2
        ... }''')
        >>> for change in LowerUnique().run(graph):
        ...     print(change)
        MS108 finds places and counts by comparison - at `Unique`
    """

    name: ClassVar[str] = "lower-unique"
    codes: ClassVar[dict[str, str]] = {"MS108": "the places and counts of Unique are found by comparison"}
    operators: ClassVar[tuple[str, ...]] = ("Unique",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Replace; see the class."""
        data = graph.operands(node.key)[0]
        if can_emit(graph, node) or data is None or node.attribute("axis") is not None:
            return ""
        _compare(graph, node, data)
        return "finds places and counts by comparison"


def _compare(graph: Graph, node: Operator, data: Value) -> None:
    b = Builder(graph)
    with b.inside(node.call, node.location):
        flat = b.op("Reshape", data, b.constant([-1]))
        values = b.op("Unique", flat, sorted=node.int("sorted"), types=[node.types[0]])
        equal = b.op("Equal", b.op("Unsqueeze", flat, b.constant([-1])), values)
        ones = b.op("Cast", equal, to=onnx_dtype("int32"))
        found = [
            values,
            b.op("ArgMax", ones, axis=0, keepdims=0),
            b.op("ArgMax", ones, axis=1, keepdims=0),
            b.op("ReduceSum", b.op("Cast", equal, to=onnx_dtype("int64")), b.constant([0]), keepdims=0),
        ]
    for index in range(len(node.types)):
        graph.replace_uses(Value(node.key, index), found[index])
