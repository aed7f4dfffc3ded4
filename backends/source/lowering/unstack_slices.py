"""unstack-slices: a tensor whose every slice a call takes is taken apart at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.base import Change, Pass
from ....passes.places import Places


@dataclass(frozen=True)
class UnstackSlices(Pass):
    """Write ``q, k, v = unbind(x)`` where every slice along an axis is taken once, one by one.

    What it does:
        Replaces the Gathers of single constant indices that one call makes of one tensor by an Unstack, where
        they are all the slices of an axis.

    Why:
        It is what a person writes, and one operator in place of several.

    Leaves alone:
        Axes of which a slice is missing, of more than `most` slices, and tensors of one axis.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[2,N,4]
        ...   %0 = const 0 : i64[]
        ...   %1 = Gather(%x, %0) : f32[N,4]
        ...   %2 = const 1 : i64[]
        ...   %3 = Gather(%x, %2) : f32[N,4]
        ...   %y = Add(%1, %3) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in UnstackSlices().run(graph):
        ...     print(change)
        MS110 2 slices of axis 0 are taken at once - at `Gather`
    """

    name: ClassVar[str] = "unstack-slices"
    codes: ClassVar[dict[str, str]] = {"MS110": "all slices of an axis are taken at once"}

    most: int = 8

    def run(self, graph: Graph) -> list[Change]:
        """Unstack; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for (data, axis, _), found in _slices(graph).items():
            shape = graph.known_type(data).shape
            if shape is None or shape[axis] != len(found) or not 1 < len(found) <= self.most:
                continue
            text = f"{len(found)} slices of axis {axis} are taken at once"
            changes.append(Change("MS110", text, places.of(graph, found[0].key)))
            _take_apart(graph, data, axis, [found[i] for i in range(len(found))])
        if changes:
            graph.remove_dead()
        return changes


def _slices(graph: Graph) -> dict[tuple[Value, int, int | None], dict[int, Operator]]:
    """Return (tensor, axis, call) -> index -> the Gather of that single slice."""
    slices: dict[tuple[Value, int, int | None], dict[int, Operator]] = {}
    for node in graph.operators():
        if node.qualified_name != "Gather":
            continue
        data, at = graph.operands(node.key)[:2]
        index = graph.constant_value(at)
        known = None if data is None else graph.type_of(data)
        if index is None or index.ndim or known is None or known.shape is None:
            continue
        axis = node.int("axis") % len(known.shape)
        size = known.shape[axis]
        if data is not None and isinstance(size, int) and len(known.shape) > 1:
            slices.setdefault((data, axis, node.call), {})[int(index) % size] = node
    return slices


def _take_apart(graph: Graph, data: Value, axis: int, slices: list[Operator]) -> None:
    b = Builder(graph)
    with b.inside(slices[0].call, slices[0].location):
        types = [graph.known_type(Value(s.key)) for s in slices]
        parts = b.ops("regraft.Unstack", data, outputs=len(slices), types=types, axis=axis)
    for old, new in zip(slices, parts, strict=True):
        graph.replace_uses(Value(old.key), new)
