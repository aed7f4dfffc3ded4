"""Replaces every operator of a kind that MindSpore has no form for."""

from __future__ import annotations

from collections.abc import Callable

from .....ir import Graph, Operator
from .....passes.base import Change
from .....passes.places import Places
from ...dialect import can_emit


def replace_each(
    graph: Graph, operator: str, code: str, replace: Callable[[Graph, Operator], str]
) -> list[Change]:
    """Replace the operators of a kind that have no emitter as they are, and return what was done.

    Args:
        graph: the graph; operators of nested graphs stay.
        operator: qualified name of the kind.
        code: of the changes.
        replace: replaces one operator, and says what it became; nothing where it cannot.
    """
    places = Places(graph)
    changes: list[Change] = []
    for node in graph.operators():
        if node.qualified_name == operator and not can_emit(graph, node):
            place = places.of(graph, node.key)
            text = replace(graph, node)
            if text:
                changes.append(Change(code, text, place))
    if changes:
        graph.remove_dead()
    return changes
