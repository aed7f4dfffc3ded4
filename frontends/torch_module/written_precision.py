"""Finds the operators that a program computes in float32 in a copy of lower precision too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .export.written_casts import MARK
from .nodes import target_name

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_LIKE = frozenset({"aten.type_as.default", "aten.to.other"})


def computed_in_float32(program: ExportedProgram) -> frozenset[Node]:
    """Return the nodes that give float32 though a net's parameters and inputs were of a smaller type.

    Those are the casts that code writes out, and what computes with their results until another cast, which
    goes back to the type of some other tensor.
    """
    found: set[Node] = set()
    nodes = list(program.graph.nodes)
    if not any(MARK in node.meta for node in nodes):
        return frozenset()
    for node in nodes:
        if node.op == "call_function" and _keeps(node, found):
            found.add(node)
    return frozenset(found)


def _keeps(node: Node, found: set[Node]) -> bool:
    import torch

    name = target_name(node.target)
    given = node.all_input_nodes
    if MARK in node.meta:
        return _element_type(node) == torch.float32 and [_element_type(n) for n in given] == [torch.float32]
    if name in _LIKE:
        return len(given) > 1 and given[1] in found
    return not _states_type(node) and any(n in found for n in given)


def _states_type(node: Node) -> bool:
    """Whether a call is given the element type of its result."""
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    given = dict(zip((a.name for a in arguments), node.args, strict=False)) | node.kwargs
    return given.get("dtype") is not None


def _element_type(node: Node) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)
