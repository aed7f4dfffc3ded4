"""Refuses graphs whose parameters have types and no values where values are needed."""

from __future__ import annotations

from ..errors import ModelError
from ..graph import Graph


def require_values(graph: Graph) -> None:
    """Refuse a model that was read without its parameters; a graph from text has none to lose.

    Raises:
        ModelError: E101 with the first of the parameters.
    """
    absent = [p.declared for p in graph.parameters() if p.data.load is None] if graph.origin.framework else []
    if absent:
        raise ModelError(
            "E101",
            f"expected the values of {len(absent)} parameters (`{absent[0]}`, …), got only shapes",
            place=graph.origin.reference,
            hint="give them with --params FILE",
        )
