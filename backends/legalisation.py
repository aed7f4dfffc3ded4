"""Legalisation: composites a backend cannot emit are expanded until everything left is legal."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import DOMAIN, Builder, Graph, Missing, Operator, UnsupportedError, expand, walk_operators

CanEmit = Callable[[Graph, Operator], bool]
"""Whether a backend can emit this operator as it stands."""


def legalise(graph: Graph, can_emit: CanEmit, backend: str) -> Graph:
    """A copy of `graph` in which `can_emit` holds for every operator; nested graphs included.

    Args:
        graph: a validated graph.
        can_emit: whether the backend can emit an operator as it stands.
        backend: its name, for the message.

    Raises:
        BackendError: when a composite cannot be expanded in the form it has here.
        UnsupportedError: listing every operator that can be neither emitted nor expanded.
    """
    legal = graph.copy()
    while pending := [
        (part, node)
        for part, node in walk_operators(legal)
        if node.domain == DOMAIN and not can_emit(part, node)
    ]:  # again, since an expansion may hold composites itself, and nested graphs with more of them
        for part, node in pending:
            expand(Builder(part), node.key)
    places: dict[str, list[str]] = {}
    for part, node in walk_operators(legal):
        if not can_emit(part, node):
            places.setdefault(node.qualified_name, []).append(part.describe(node.key))
    if places:
        raise UnsupportedError(
            "E601",
            f"the {backend} backend can neither emit nor expand these operators",
            missing=[Missing(name, tuple(where)) for name, where in sorted(places.items())],
            hint="add an emitter in the backend's family file (README, `Adding an operator`)",
        )
    return legal
