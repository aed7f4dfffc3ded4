"""count-from-zero: places that a Range gives a Gather are counted from 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class CountFromZero(PatternPass):
    """Write a Range that selects, and may go below 0, as a start and a Range from 0.

    What it does:
        Replaces ``Range(start, limit, delta)`` by ``start + Range(0, limit - start, delta)`` where a Gather
        takes it for its indices, nested graphs included.

    Why:
        ONNX Runtime 1.31 makes a Slice of a Gather behind a Range, with the Range's own limits: a limit of -1
        then means the end of the axis, and a reversed batch is empty.

    Leaves alone:
        Ranges that count up from a constant of at least 0, of which that Slice is right, and those that
        select nothing.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %n = input "n" : i64[]
        ...   %0 = const -1 : i64[]
        ...   %1 = const -1 : i64[]
        ...   %2 = Range(%n, %0, %1) : i64[?]
        ...   %y = Gather(%x, %2) : f32[?,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in CountFromZero().run(graph):
        ...     print(change)
        OX104 places are counted from 0 - at `Range`
    """

    name: ClassVar[str] = "count-from-zero"
    codes: ClassVar[dict[str, str]] = {"OX104": "places that select are counted from 0"}
    operators: ClassVar[tuple[str, ...]] = ("Range",)
    nested: ClassVar[bool] = True

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Count; see the class."""
        if _counts_up(graph, node) or not _selects(graph, Value(node.key)):
            return ""
        _count_from_zero(graph, node)
        return "places are counted from 0"


def _counts_up(part: Graph, node: Operator) -> bool:
    start, _, delta = (part.constant_value(v) for v in part.operands(node.key))
    return start is not None and delta is not None and start.item() >= 0 and delta.item() > 0


def _selects(part: Graph, value: Value) -> bool:
    """Whether a value, or a cast or moved one, is the indices of a Gather."""
    for key, slot in part.users(value):
        user = part.node(key)
        if not isinstance(user, Operator) or slot < 0:
            continue
        if user.qualified_name == "Gather" and slot == 1:
            return True
        passes_on = user.qualified_name in ("Cast", "Identity") or user.traits.moving
        if passes_on and slot == 0 and _selects(part, Value(key)):
            return True
    return False


def _count_from_zero(part: Graph, node: Operator) -> None:
    start, limit, delta = part.operands(node.key)
    assert start is not None
    b = Builder(part)
    with b.inside(node.call, node.location):
        zero = b.scalar_like(0, start)
        counted = b.op("Range", zero, b.op("Sub", limit, start), delta, types=node.types)
        part.replace_uses(Value(node.key), b.op("Add", start, counted, types=node.types))
