"""Finds outputs whose agreement proves nothing, and what proves them in its place."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ..backends.onnx_model.boundaries import call_boundaries
from ..ir import Graph, Input, Operator, Value
from .report import ModuleRow, OutputRow


def find_unproven(graph: Graph, outputs: Sequence[OutputRow], modules: Sequence[ModuleRow]) -> dict[str, str]:
    """Return name of an output -> why no case proves it, though all cases agree.

    An output that is NaN or one number everywhere is proved by a draw on which it is not; by agreement where
    no input reaches it; or by modules: if every operator between the last proved values and the output lies
    in a module that agrees alone.

    Args:
        graph: the source's graph.
        outputs: rows of outputs, of all cases.
        modules: rows of module calls.
    """
    names = {name: key for key, name in graph.modules.call_names().items()}
    known = [r for r in modules if r.call in names]  # not the further turns of a loop
    alone = {names[r.call] for r in known if r.isolated_passed and not r.isolated_unproven}
    boundaries = call_boundaries(graph)
    agreed = {
        value
        for row in known
        if row.passed and not row.unproven
        for value in boundaries.get(names[row.call], ((), ()))[1]
    }
    values = dict(
        zip(dict.fromkeys(row.name for row in outputs), (v for _, v in graph.outputs), strict=False)
    )
    found: dict[str, str] = {}
    for name, value in values.items():
        rows = [row for row in outputs if row.name == name]
        constants = {row.unproven for row in rows if row.unproven}
        vacuous = [row for row in rows if row.unproven or row.only in constants]
        if len(vacuous) < len(rows) or not all(row.passed for row in rows):
            continue
        if all(row.max_abs == 0 for row in rows) and not _reads_input(graph, value):
            continue
        left = _unproved_operators(graph, value, alone, agreed)
        if left:
            places = ", ".join(f"`{node.op_type}`" for node in left[:3])
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            why = next(row.unproven for row in vacuous if row.unproven)
            found[name] = f"{why}, and no module alone proves {places}{more}"
    return found


def _reads_input(graph: Graph, value: Value) -> bool:
    """Whether a value depends on those of an input, and not on shapes alone."""
    shapes = {Value(node.key) for node in graph.operators() if node.traits.measuring}
    return any(isinstance(graph.node(key), Input) for key in upstream(graph, value, shapes))


def _unproved_operators(graph: Graph, value: Value, alone: Set[int], agreed: Set[Value]) -> list[Operator]:
    """Return operators between an output and agreeing values, outside modules that agree alone; last first.

    Operators that only move elements need no proof: shapes are compared, and the layers behind depend on the
    order.
    """
    nodes = (graph.node(key) for key in upstream(graph, value, agreed))
    return [
        node
        for node in nodes
        if isinstance(node, Operator)
        and not node.traits.moving
        and alone.isdisjoint(graph.modules.ancestors(node.call))
    ]


def upstream(graph: Graph, value: Value, agreed: Set[Value]) -> list[int]:
    """Return the keys of the nodes under a value, down to values that agree, nearest first."""
    found: dict[int, None] = {}
    stack = [value]
    while stack:
        current = stack.pop()
        if current in agreed or current.node in found:
            continue
        found[current.node] = None
        if isinstance(graph.node(current.node), Operator):
            operands = [*graph.operands(current.node), *graph.captured(current.node)]
            stack.extend(v for v in operands if v is not None)
    return list(found)
