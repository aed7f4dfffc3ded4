"""Runs a backend's own passes, which prepare a graph for one target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Graph
from ..ir.validation import validate_after
from ..passes.base import Pass


def lower(
    graph: Graph, passes: Sequence[Pass], *, print_after: Callable[[Pass, Graph], None] | None = None
) -> Graph:
    """Return a copy of a graph after a backend's passes, validated after each where `verifies_each` holds.

    Args:
        graph: a validated graph, after the passes that all targets have.
        passes: the backend's passes, in order.
        print_after: called after each pass with the pass and the graph.

    Raises:
        InvalidGraphError: naming the pass after which the graph was not valid.
        UnsupportedError: listing every operator that can be neither emitted nor expanded.
        BackendError: when the graph cannot be expressed.
    """
    lowered_graph = graph.copy()
    for part in lowered_graph.subgraphs():
        part.remove_dead()
    for pass_ in passes:
        pass_.run(lowered_graph)
        validate_after(pass_.name, lowered_graph)
        if print_after is not None:
            print_after(pass_, lowered_graph)
    return lowered_graph
