"""Running a backend's own passes: what a graph is brought to before it is written for one target."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Graph, InvalidGraphError, validate
from ..passes.base import Pass

verifies_each = False
"""Whether every graph that one of these passes changed is validated; the tests say yes."""


def lowered(graph: Graph, passes: Sequence[Pass], *, verify_each: bool = False, until: str = "") -> Graph:
    """A copy of a graph after a backend's passes.

    Args:
        graph: a validated graph, after the passes that all targets have.
        passes: the backend's passes, in order.
        verify_each: validate the graph after each of them that changes it.
        until: name of the last pass to run; empty for all of them.

    Raises:
        InvalidGraphError: naming the pass after which the graph was not valid.
        UnsupportedError: listing every operator that can be neither emitted nor expanded.
        BackendError: when the graph cannot be expressed.
    """
    lowered_graph = graph.copy()
    for part in lowered_graph.subgraphs():
        part.remove_dead()
    for pass_ in passes:
        changes = pass_.run(lowered_graph)
        if (verify_each or verifies_each) and changes:
            try:
                validate(lowered_graph)
            except InvalidGraphError as error:
                message = f"after the pass `{pass_.name}`: {error.message}"
                raise InvalidGraphError(error.code, message, place=error.place, hint=error.hint) from error
        if pass_.name == until:
            break
    return lowered_graph
