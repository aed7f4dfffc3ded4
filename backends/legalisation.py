"""Legalisation: composites a backend cannot emit are expanded until everything left is legal."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import DOMAIN, Builder, Graph, Missing, Operator, UnsupportedError, Value, expand, walk_operators

CanEmit = Callable[[Graph, Operator], bool]
"""Whether a backend can emit this operator as it stands."""


def legalise(graph: Graph, can_emit: CanEmit, backend: str, *, partial: bool = False) -> Graph:
    """A copy of `graph` in which `can_emit` holds for every operator; nested graphs included.

    Args:
        graph: a validated graph.
        can_emit: whether the backend can emit an operator as it stands.
        backend: its name, for the message.
        partial: whether what can be neither emitted nor expanded becomes a stub, to be written by hand.

    Raises:
        BackendError: when a composite cannot be expanded in the form it has here.
        UnsupportedError: listing every operator that can be neither emitted nor expanded.
    """
    legal = graph.copy()
    _refuse_stubs(legal, can_emit, backend)
    while pending := [
        (part, node)
        for part, node in walk_operators(legal)
        if node.domain == DOMAIN and not can_emit(part, node)
    ]:  # again, since an expansion may hold composites itself, and nested graphs with more of them
        for part, node in pending:
            expand(Builder(part), node.key)
    places: dict[str, list[str]] = {}
    for part, node in list(walk_operators(legal)):
        if can_emit(part, node):
            continue
        if partial and not node.subgraphs():
            _leave_stub(part, node, f"{backend} has no form for it")
        else:
            places.setdefault(node.qualified_name, []).append(part.describe(node.key))
    if places:
        raise UnsupportedError(
            "E601",
            f"the {backend} backend can neither emit nor expand these operators",
            missing=[Missing(name, tuple(where)) for name, where in sorted(places.items())],
            hint="add an emitter in the backend's family file (README, `Adding an operator`)",
        )
    return legal


def _leave_stub(part: Graph, node: Operator, reason: str) -> None:
    """Put a place for what a person is to write where an operator is."""
    operands = part.operands(node.key)
    given = [value for value in operands if value is not None]
    names = iter(range(len(given)))
    arguments = ["None" if value is None else f"x{next(names)}" for value in operands]
    arguments += [f"{name}={value!r}" for name, value in sorted(node.attributes.items())]
    attributes: dict[str, object] = {
        "operator": f"onnx.{node.op_type}",
        "call": f"{node.op_type}({', '.join(arguments)})",
        "reason": reason,
    }
    stub = Operator("Stub", DOMAIN, attributes, list(node.types), node.call, node.location)
    for index, value in enumerate(part.add_operator(stub, given)):
        part.replace_uses(Value(node.key, index), value)
    part.remove(node.key)


def _refuse_stubs(graph: Graph, can_emit: CanEmit, backend: str) -> None:
    """Refuse the places of operators that are to be written by hand, all of them, where they cannot be."""
    places: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for part, node in walk_operators(graph):
        if node.qualified_name == "regraft.Stub" and not can_emit(part, node):
            places.setdefault(node.str("operator"), []).append(node.location or part.describe(node.key))
            reasons.setdefault(node.str("operator"), node.str("reason"))
    if places:
        raise UnsupportedError(
            "E601",
            f"the {backend} backend has no place for an operator that is to be written by hand",
            missing=[Missing(name, tuple(where), reasons[name]) for name, where in sorted(places.items())],
            hint="only MindSpore source can hold a stub: ONNX Runtime refuses a function without a body",
        )
