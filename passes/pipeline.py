"""Runs passes in order, and validates the graph between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Graph, validate
from ..ir.provenance import record
from ..ir.validation import blame, verifies_each
from .base import Change, Pass

_WHOLE = 2000  # nodes up to which a graph is validated whole after each pass


def run_passes(
    graph: Graph,
    passes: Sequence[Pass],
    *,
    verify_each: bool = False,
    print_after: Callable[[Pass, Graph], None] | None = None,
) -> list[tuple[Pass, list[Change]]]:
    """Run passes on a graph, in place, in order.

    The graph is validated as a whole, types included, before the first pass and after the last, and after
    each pass if `verify_each` is set. Otherwise each pass is followed by a check of the nodes whose edges it
    changed; a small graph is checked as a whole, but for the types of other nodes. A pass that reports no
    change and changes no edge is followed by no check of its own. A pass that can decide nothing about the
    graph (`Pass.skipped`) is not run.

    Args:
        graph: the graph; give a copy to keep the original.
        passes: the passes.
        verify_each: validate everything after each pass.
        print_after: called after each pass with the pass and the graph.

    Returns:
        Every pass with its changes.

    Raises:
        InvalidGraphError: naming the pass after which the graph was not valid, or the passes that may be it.
        PassError: when a pass cannot fulfil its request.
    """
    validate(graph)
    if graph.provenance is None:
        graph.provenance = record(graph)
    results: list[tuple[Pass, list[Change]]] = []
    suspects: list[str] = []  # passes since the graph was last validated whole, types included
    for number, pass_ in enumerate(passes, 1):
        graph.flow.touched.clear()
        changes = [] if pass_.skipped(graph) else pass_.run(graph)
        graph.provenance.note_dropped(graph, pass_.name)
        graph.provenance.changes += [
            (pass_.name, change.message)
            for change in changes
            if change.fixed and change.code not in pass_.rewordings
        ]
        all_types = verify_each or verifies_each() or number == len(passes)
        whole = all_types or len(graph) <= _WHOLE
        suspects.append(f"`{pass_.name}`")
        touched = graph.flow.touched
        if all_types or touched or changes:
            with blame(f"the pass{'es' if len(suspects) > 1 else ''} {', '.join(suspects)}"):
                validate(graph, None if whole else touched, typed=None if all_types else touched)
        if all_types:
            suspects.clear()
        results.append((pass_, changes))
        if print_after is not None:
            print_after(pass_, graph)
    return results
