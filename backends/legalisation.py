"""Legalisation: composites a backend cannot emit are expanded until everything left is legal."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import DOMAIN, Builder, Graph, Missing, Operator, UnsupportedError, expand, walk_operators

CanEmit = Callable[[Graph, Operator], bool]
"""Whether a backend can emit this operator as it stands."""


def legalise(graph: Graph, can_emit: CanEmit, backend: str) -> Graph:
    """A copy of `graph` in which `can_emit` holds for every operator; nested graphs included.

    Raises:
        UnsupportedError: listing every operator that can be neither emitted nor expanded.
    """
    legal = graph.copy()
    for part in list(legal.subgraphs()):
        builder = Builder(part)
        pending = [n.key for n in part.operators() if n.domain == DOMAIN and not can_emit(part, n)]
        while pending:
            key = pending.pop(0)
            before = part._next
            expand(builder, key)
            pending += [
                k
                for k in range(before, part._next)
                if k in part
                and isinstance(node := part.node(k), Operator)
                and node.domain == DOMAIN
                and not can_emit(part, node)
            ]
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
