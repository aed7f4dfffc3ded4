"""Lists the source's module calls for ``renames.json``, because a symbol is flat."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Graph
from ...ir.provenance import source_call_names
from .symbol import Node


def call_rows(graph: Graph, nodes: Sequence[Node]) -> list[dict[str, object]]:
    """Return one row per module call, in the order of the calls: its name, class, parent and nodes.

    Args:
        graph: the graph that was emitted.
        nodes: those of the symbol, with the calls that they were emitted in.
    """
    tree = graph.modules
    names = source_call_names(graph)
    rows: dict[str, dict[str, object]] = {}
    inside: dict[str, list[str]] = {}
    for call in tree.calls():
        within = "" if call.parent is None else names[call.parent]
        nodes_of = inside[names[call.key]] = []
        module = tree.module(call.module).class_name
        rows[names[call.key]] = {"call": names[call.key], "class": module, "in": within, "nodes": nodes_of}
    for node in nodes:
        if node.op != "null" and node.call in inside:
            inside[node.call].append(node.name)
    return list(rows.values())
