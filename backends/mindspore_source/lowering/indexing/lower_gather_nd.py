"""lower-gather-nd: computed coordinates of GatherND count from the front and name their batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .....ir import Builder, Constant, Graph, Operator, Value
from .....passes.pattern import PatternPass

_COUNTED = frozenset({"ArgMax", "ArgMin", "TopK", "NonZero", "Shape", "Size", "Range"})
"""Operators whose integers are never below zero."""

_KEEPING = frozenset(
    {"Cast", "Concat", "Expand", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Operators that move integers: none is below zero where none of the operands was."""


@dataclass(frozen=True)
class LowerGatherNd(PatternPass):
    """Write out the forms that MindSpore's GatherND lacks.

    What it does:
        Adds the sizes of the axes to coordinates below zero, and puts the number of the batch before
        coordinates that count inside of one (`batch_dims`).

    Why:
        Coordinates below zero count from the end in ONNX, PyTorch and MXNet; MindSpore's kernel raises for
        them, and knows no `batch_dims`.

    Leaves alone:
        Coordinates that no input can make negative: places of maxima, counts, constants.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[3,4]
        ...   %i = input "i" : i64[N,2]
        ...   %y = GatherND(%x, %i) : f32[N]
        ...   return "y" = %y
        ... }''')
        >>> for change in LowerGatherNd().run(graph):
        ...     print(change)
        MS124 counts its coordinates from the front - at `GatherND`
    """

    name: ClassVar[str] = "lower-gather-nd"
    codes: ClassVar[dict[str, str]] = {"MS124": "computed coordinates are counted from the front"}
    operators: ClassVar[tuple[str, ...]] = ("GatherND",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Write out; see the class."""
        data, at = graph.operands(node.key)[:2]
        if data is None or at is None:
            return ""
        b = Builder(graph, call=node.call, location=node.location)
        new, batch = _from_front(b, node, data, at), node.int("batch_dims")
        if batch:
            new = _with_batch(b, new, batch)
            node.attributes["batch_dims"] = 0
        if new == at:
            return ""
        graph.set_operand(node.key, 1, new)
        return "counts its coordinates from the front"


def _from_front(b: Builder, node: Operator, data: Value, at: Value) -> Value:
    """Return coordinates of which none is below zero; themselves where that is known or cannot be told."""
    to, coordinates = b.graph.type_of(data), b.graph.type_of(at)
    if to is None or to.shape is None or coordinates is None or coordinates.shape is None:
        return at
    count, first = coordinates.shape[-1], node.int("batch_dims")
    if not isinstance(count, int) or _is_counted(b.graph, at):
        return at
    sizes = to.shape[first : first + count]
    if all(isinstance(size, int) for size in sizes):
        ends = b.constant(sizes[0] if count == 1 else list(sizes), "int64")
    else:
        ends = b.op("Shape", data, start=first, end=first + count)
    below = b.op("Less", at, b.constant(0, "int64"))
    return b.op("Where", below, b.op("Add", at, ends), at)


def _is_counted(graph: Graph, value: Value, depth: int = 16) -> bool:
    """Whether no element of a value can be below zero."""
    node = graph.node(value.node)
    if isinstance(node, Constant):
        return not bool((node.data.numpy() < 0).any())
    if not isinstance(node, Operator) or not depth:
        return False
    given = [v for v in graph.operands(node.key) if v is not None]
    if node.op_type in _COUNTED:
        return True
    if node.op_type == "Mod":  # the remainder has the sign of the divisor
        return not node.int("fmod") and _is_counted(graph, given[1], depth - 1)
    if node.op_type == "Where":  # what this pass makes
        below = graph.producer(given[0])
        return (
            isinstance(below, Operator) and below.op_type == "Less" and given[2] in graph.operands(below.key)
        )
    if node.op_type == "Clip":
        return len(given) > 1 and _is_counted(graph, given[1], depth - 1)
    parts = given if node.op_type == "Concat" else given[:1]
    return node.op_type in _KEEPING and all(_is_counted(graph, v, depth - 1) for v in parts)


def _with_batch(b: Builder, at: Value, batch: int) -> Value:
    """Return coordinates behind the numbers of their batch."""
    rank = b.type_of(at).rank or 0
    shape = b.op("Shape", at)
    whole = b.op("Concat", b.op("Slice", shape, *map(b.constant, ([0], [-1]))), b.constant([1]), axis=0)
    numbers: list[Value] = []
    for axis in range(batch):
        size = b.op("Squeeze", b.op("Slice", shape, *map(b.constant, ([axis], [axis + 1]))), b.constant([0]))
        row = b.op("Range", b.constant(0), size, b.constant(1))
        placed = b.op("Reshape", row, b.constant([-1 if a == axis else 1 for a in range(rank)]))
        numbers.append(placed if rank == 2 else b.op("Expand", placed, whole))
    return b.op("Concat", *numbers, at, axis=-1)
