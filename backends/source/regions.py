"""Regions: the content of a former nested graph as a call of its own, entered by an If or a While."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Graph, ModuleTree, Operator, Value
from .operators import ENTRY, IF, WHILE

REGION = "region"
"""Kind of the modules that stand for nested graphs; each is a child of its operator's module."""


@dataclass(frozen=True, slots=True)
class Region:
    """One region of an If or a While.

    Attributes:
        name: what it is in ONNX: ``then_branch``, ``else_branch``, ``body``.
        call: its operators' call.
        results: the values that it returns; a While's condition first.
        state: the values of a While that change with every turn.
    """

    name: str
    call: int
    results: tuple[Value, ...]
    state: tuple[Value, ...] = ()


def regions(graph: Graph, node: Operator) -> list[Region]:
    """Return the regions of an operator; none unless it is an If or While of ours."""
    if node.qualified_name not in (IF, WHILE):
        return []
    operands = [v for v in graph.operands(node.key) if v is not None]
    count = len(node.types)
    if node.qualified_name == IF:
        then_entry, else_entry, *results = operands[1:]
        return [
            Region("then_branch", _call_of(graph, then_entry), tuple(results[:count])),
            Region("else_branch", _call_of(graph, else_entry), tuple(results[count:])),
        ]
    entry = operands[1]
    state = tuple(Value(entry.node, 1 + at) for at in range(count))
    return [Region("body", _call_of(graph, entry), tuple(operands[2 + count :]), state)]


def _call_of(graph: Graph, entry: Value) -> int:
    call = graph.operator(entry.node).call
    assert call is not None
    return call


def is_entry(node: object) -> bool:
    """Whether a node only marks where a region is entered."""
    return isinstance(node, Operator) and node.qualified_name == ENTRY


def entries(node: Operator) -> slice:
    """Return the slice of an operator's operands that mark its regions and are no values."""
    return {IF: slice(1, 3), WHILE: slice(1, 2)}.get(node.qualified_name, slice(0, 0))


def is_region(tree: ModuleTree, module: int) -> bool:
    """Whether a module stands for a nested graph."""
    return tree.module(module).container == REGION


def is_leaf(tree: ModuleTree, module: int) -> bool:
    """Whether a module contains no other but regions of its own operators."""
    return all(is_region(tree, child) for child in tree.module(module).children.values())


def home_of(tree: ModuleTree, module: int) -> int:
    """Return the module whose method contains a region; any other module itself."""
    while is_region(tree, module):
        parent = tree.calls(module)[0].parent
        module = 0 if parent is None else tree.call(parent).module
    return module


def add_region(tree: ModuleTree, around: int, name: str) -> int:
    """Register a module for a region under a free name; returns its key."""
    holder = tree.module(around)
    names = (name, *(f"{name}{number}" for number in range(2, 10_000)))
    free = next(n for n in names if n not in holder.children and n not in holder.parameters)
    return tree.add("Region", around, free, container=REGION)


def move_regions(tree: ModuleTree, call: int, made: dict[tuple[int, int], int]) -> None:
    """Register the regions made in a call in that call's module, after the module has changed.

    Args:
        tree: the modules.
        call: the call.
        made: (module, region's module before) -> the region's module now; shared by calls moved together.
    """
    module = tree.call(call).module
    for inner in tree.calls():
        if inner.parent == call and is_region(tree, inner.module):
            key = (module, inner.module)
            if key not in made:
                name = tree.path(inner.module).rpartition(".")[2] or "body"
                made[key] = add_region(tree, module, name.rstrip("0123456789"))
            tree.replace_call(inner.key, module=made[key], parent=call)
