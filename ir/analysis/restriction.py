"""The part of a graph that follows from some of its inputs."""

from __future__ import annotations

from collections.abc import Collection

from ..graph import Graph


def restrict(graph: Graph, inputs: Collection[str]) -> Graph:
    """Return a copy of a graph with only those outputs that depend on no input but the named ones."""
    new = graph.copy()
    others = [n.key for n in new.input_nodes() if n.name not in inputs]
    reached = set(others).union(*(new.flow.descendants(key) for key in others))
    new.outputs = [(name, value) for name, value in new.outputs if value.node not in reached]
    new.updates = {key: value for key, value in new.updates.items() if value.node not in reached}
    new.remove_dead()
    for key in others:
        new.remove(key)
    return new
