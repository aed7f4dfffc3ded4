"""separate-indices: tensors of indices that were stacked for GatherND are a subscript each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....ir.dims import broadcast
from ....passes.pattern import PatternPass
from ...source.operators import INDEX


@dataclass(frozen=True)
class SeparateIndices(PatternPass):
    """Write ``x[i, j]`` for a GatherND of stacked indices.

    What it does:
        Replaces a GatherND whose indices are tensors that were expanded to one shape and joined on a new last
        axis by a subscript of these tensors, which torch broadcasts itself. Transposes that bring the axes to
        the front and back go with it: ``x[:, i, j]``.

    Why:
        ONNX has one tensor of indices. torch's frontend and exporters stack the several that a subscript has.

    Leaves alone:
        Indices that come as one tensor, axes of a batch, and indices whose common shape is not known.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[4,5]
        ...   %i = input "i" : i64[3]
        ...   %j = input "j" : i64[3]
        ...   %0 = const [-1] : i64[1]
        ...   %1 = Unsqueeze(%i, %0) : i64[3,1]
        ...   %2 = Unsqueeze(%j, %0) : i64[3,1]
        ...   %3 = Concat(%1, %2) {axis=-1} : i64[3,2]
        ...   %y = GatherND(%x, %3) : f32[3]
        ...   return "y" = %y
        ... }''')
        >>> for change in SeparateIndices().run(graph):
        ...     print(change)
        TS104 has 2 tensors of indices - at `GatherND`
    """

    name: ClassVar[str] = "separate-indices"
    codes: ClassVar[dict[str, str]] = {"TS104": "stacked indices are a subscript each"}
    operators: ClassVar[tuple[str, ...]] = ("GatherND",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Separate; see the class."""
        data, stacked = graph.operands(node.key)
        indices = _separate(graph, stacked) if stacked is not None else []
        if data is None or not indices or node.int("batch_dims") or not _broadcasts(graph, node, indices):
            return ""
        found = _between_transposes(graph, node, data, len(indices), stacked)
        last, axis = node, 0
        if found is not None:
            last, data, axis = found
        b = Builder(graph)
        with b.inside(last.call, last.location):
            new = b.op(INDEX, data, *indices, types=last.types[:1], axis=axis)
        graph.replace_uses(Value(last.key), new)
        return f"has {len(indices)} tensors of indices"


def _separate(graph: Graph, stacked: Value) -> list[Value]:
    """Return the tensors that were stacked on a new last axis; none where they were not."""
    joined, known = graph.producer(stacked), graph.type_of(stacked)
    if not isinstance(joined, Operator) or joined.qualified_name != "Concat" or known is None:
        return []
    parts = graph.operands(joined.key)
    shape = known.shape
    if shape is None or joined.int("axis") % len(shape) != len(shape) - 1 or shape[-1] != len(parts):
        return []
    found = [_column(graph, part, len(shape)) for part in parts if part is not None]
    indices = [value for value in found if value is not None]
    return indices if len(indices) == len(parts) else []


def _broadcasts(graph: Graph, node: Operator, indices: Sequence[Value]) -> bool:
    """Whether the indices broadcast to the shape that they were expanded to: that of the result's places."""
    shapes = [t.shape for v in indices if (t := graph.type_of(v)) is not None and t.shape is not None]
    found = None if node.types[0] is None else node.types[0].shape
    data = graph.operands(node.key)[0]
    rank = None if data is None or (known := graph.type_of(data)) is None else known.rank
    if len(shapes) != len(indices) or found is None or rank is None:
        return False
    places = tuple(found[: len(found) - (rank - len(indices))])
    try:
        return None not in places and broadcast(*shapes) == places
    except ValueError:
        return False


def _column(graph: Graph, part: Value, rank: int) -> Value | None:
    """Return a tensor of indices before it was expanded and given a last axis; None for anything else."""
    column = graph.producer(part)
    if not isinstance(column, Operator) or column.qualified_name != "Unsqueeze":
        return None
    data, axes = graph.operands(column.key)
    at = None if axes is None else graph.constant_value(axes)
    if data is None or at is None or at.size != 1 or int(at.reshape(-1)[0]) % rank != rank - 1:
        return None
    spread = graph.producer(data)
    if isinstance(spread, Operator) and spread.qualified_name == "Expand":
        return graph.operands(spread.key)[0]
    return data


def _between_transposes(
    graph: Graph, node: Operator, data: Value, count: int, stacked: Value | None
) -> tuple[Operator, Value, int] | None:
    """Return the Transpose behind a GatherND, what the one before it has, and the first axis; else None."""
    before, users = graph.producer(data), graph.users(Value(node.key))
    types = graph.type_of(data), None if stacked is None else graph.type_of(stacked)
    if len(users) != 1 or graph.is_output(Value(node.key)) or not isinstance(before, Operator):
        return None
    behind = graph.node(users[0][0])
    if before.qualified_name != "Transpose" or not isinstance(behind, Operator):
        return None
    ranks = [None if t is None else t.rank for t in types]
    if behind.qualified_name != "Transpose" or behind.call != node.call or None in ranks:
        return None
    rank, places = ranks[0] or 0, (ranks[1] or 0) - 1
    axis = before.ints("perm")[0]
    moved = list(range(axis, axis + count))
    order = [*moved, *(a for a in range(rank) if a not in moved)]
    if before.ints("perm") != order or behind.ints("perm") != _back(places, axis, rank - count + places):
        return None
    source = graph.operands(before.key)[0]
    return None if source is None else (behind, source, axis)


def _back(places: int, axis: int, rank: int) -> Sequence[int]:
    """Return the order in which so many axes of places, which come first, stand behind `axis` others."""
    return [*range(places, places + axis), *range(places), *range(places + axis, rank)]
