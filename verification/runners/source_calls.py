"""Puts the module calls of a source around the operators of a target without modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...formats.renames import read_renames
from ...ir import Graph, ModelError, ModuleTree


def in_source_calls(graph: Graph, renames: Path) -> Graph:
    """Return a flat target's graph with its operators in the source's module calls.

    Args:
        graph: the target's graph, whose operators know the node that each came from.
        renames: the ``renames.json`` that was written with it; one that states no calls changes nothing.

    Raises:
        ModelError: E101 when what it states of calls is not as we write it.
    """
    rows = read_renames(renames).get("calls")
    if rows is None:
        return graph
    tree, of_node = _tree(rows, str(renames))
    graph = graph.copy()
    root = tree.calls()[0].key
    for part in graph.subgraphs():
        part.modules = tree
        for operator in part.operators():
            operator.call = of_node.get(operator.location, root)
    return graph


def _tree(rows: Any, place: str) -> tuple[ModuleTree, dict[str, int]]:
    """Return the modules and calls of these rows, and the call of every node."""
    tree, calls, of_node = ModuleTree(), dict[str, int](), dict[str, int]()
    modules = {"": tree.add("")}
    for row in rows if isinstance(rows, list) and rows else [None]:
        if not isinstance(row, dict) or not isinstance(row.get("nodes"), list):
            raise ModelError("E101", "expected module calls with the nodes in each", place=place)
        name, within, class_name = row.get("call"), row.get("in"), row.get("class")
        if not isinstance(name, str) or not isinstance(class_name, str) or (calls and within not in calls):
            raise ModelError(
                "E101", "expected calls with a name, a class and the call around them", place=place
            )
        module = _module(tree, modules, name.rpartition("#")[0])
        tree.module(module).class_name = class_name
        calls[name] = tree.add_call(module, calls[str(within)] if calls else None)
        of_node |= {node: calls[name] for node in row["nodes"] if isinstance(node, str)}
    return tree, of_node


def _module(tree: ModuleTree, modules: dict[str, int], path: str) -> int:
    """Return the key of the module at a path; makes it, and those around it, if missing."""
    if path not in modules:
        around, _, name = path.rpartition(".")
        modules[path] = tree.add("", _module(tree, modules, around), name or "_")
    return modules[path]
