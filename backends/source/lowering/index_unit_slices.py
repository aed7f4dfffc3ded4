"""index-unit-slices: a slice of one element whose axis is dropped is an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class IndexUnitSlices(PatternPass):
    """Write ``x[0]`` for ``x[:1].squeeze(0)``.

    What it does:
        Replaces a Slice of one element along one axis, and the Squeeze of that axis that alone reads it, by
        the Gather of a single constant index, where both are of one call.

    Why:
        Compilers and exporters make a strided slice and a squeeze of ``x[0]``; the index is what was written,
        and indices that take a tensor apart become ``q, k, v = unbind(x)``.

    Leaves alone:
        Slices that are read elsewhere, longer ones, those with computed bounds, and several axes at once.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[2,N,4]
        ...   %0 = const [1] : i64[1]
        ...   %1 = const [2] : i64[1]
        ...   %2 = const [0] : i64[1]
        ...   %3 = Slice(%x, %0, %1, %2) : f32[1,N,4]
        ...   %y = Squeeze(%3, %2) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in IndexUnitSlices().run(graph):
        ...     print(change)
        MS128 element 1 of axis 0 is an index - at `Squeeze`
    """

    name: ClassVar[str] = "index-unit-slices"
    codes: ClassVar[dict[str, str]] = {"MS128": "a slice of one element without its axis is an index"}
    operators: ClassVar[tuple[str, ...]] = ("Squeeze",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Index; see the class."""
        found = _unit_slice(graph, node)
        if found is None:
            return ""
        data, axis, index = found
        b = Builder(graph)
        with b.inside(node.call, node.location):
            at = b.constant(index, "int64")
            new = b.op("Gather", data, at, types=node.types[:1], axis=axis)
        graph.replace_uses(Value(node.key), new)
        return f"element {index} of axis {axis} is an index"


def _unit_slice(graph: Graph, squeeze: Operator) -> tuple[Value, int, int] | None:
    """Return (tensor, axis, index) where a Squeeze drops the axis of a slice of one element, else None."""
    given = graph.operands(squeeze.key)
    source = given[0] and graph.node(given[0].node)
    if not isinstance(source, Operator) or source.qualified_name != "Slice" or source.call != squeeze.call:
        return None
    value = Value(source.key)
    if graph.is_output(value) or len(graph.users(value)) != 1:
        return None
    data, *bounds = graph.operands(source.key)
    known = None if data is None else graph.type_of(data)
    if data is None or known is None or known.shape is None or len(known.shape) < 2:
        return None
    found = [_single(graph, v) for v in (*bounds, given[1] if len(given) > 1 else None)]
    start, end, axis, *steps, dropped = found
    if None in (start, end, axis, dropped) or steps not in ([], [1]):
        return None
    assert start is not None
    assert end is not None
    assert axis is not None
    assert dropped is not None
    at, size = axis % len(known.shape), known.shape[axis]
    if dropped % len(known.shape) != at:
        return None
    taken = range(size)[start:end] if isinstance(size, int) else range(start, end) if start >= 0 else ()
    return (data, at, taken[0]) if len(taken) == 1 else None


def _single(graph: Graph, value: Value | None) -> int | None:
    """Return the number of a constant vector of one; None for anything else."""
    found = None if value is None else graph.constant_value(value)
    return None if found is None or found.shape != (1,) else int(found[0])
