"""The dataflow of a graph: a networkx graph that counts its changes and has fast accessors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import networkx as nx

if TYPE_CHECKING:
    from .nodes import Node

    _IntegerGraph = nx.MultiDiGraph[int]
else:
    _IntegerGraph = nx.MultiDiGraph  # which takes no type of nodes when it runs


Edge = tuple[int, int, int]
"""(slot, producer, output number) of an edge into a node."""

_NETWORKX: Any = nx
"""Networkx's functions whose annotations leave out what nodes are."""


class Dataflow(_IntegerGraph):
    """Nodes and the edges between them; every algorithm of networkx works on it.

    A node has its `Node` under "node". An edge's key is the consumer's input slot (negative slots are
    captures: slot -1-i is capture i), its "output" the producer's output number.

    Attributes:
        version: grows with every change of nodes and edges; what was computed from them holds while it stays.
        touched: keys of the nodes that were added or given other operands since somebody cleared it.
    """

    _node: dict[int, dict[str, Node]]  # networkx's own tables, which its documentation leaves to subclasses
    _succ: dict[int, dict[int, dict[int, dict[str, int]]]]
    _pred: dict[int, dict[int, dict[int, dict[str, int]]]]

    def __init__(self, incoming_graph_data: Any = None, **attributes: Any) -> None:
        self.version = 0
        self.touched: set[int] = set()
        self._operands: dict[int, tuple[Edge, ...]] = {}  # of nodes whose edges have been asked for
        _NETWORKX.MultiDiGraph.__init__(self, incoming_graph_data, **attributes)

    # -- reading -------------------------------------------------------------------------------

    def node(self, key: int) -> Node:
        """Return the node of that key."""
        return self._node[key]["node"]

    def operands(self, key: int) -> tuple[Edge, ...]:
        """Return (slot, producer, output number) of every edge into a node, by slot, its captures last."""
        found = self._operands.get(key)
        if found is None:
            edges = [
                (slot, source, data["output"])
                for source, slots in self._pred[key].items()
                for slot, data in slots.items()
            ]
            if len(edges) > 1:
                edges.sort()
                if edges[0][0] < 0:
                    edges.sort(key=lambda edge: (edge[0] < 0, abs(edge[0])))
            found = self._operands[key] = tuple(edges)
        return found

    def all_nodes(self) -> Iterator[Node]:
        """Yield every node, in the order in which they were added."""
        return (data["node"] for data in self._node.values())

    def users(self, key: int) -> list[tuple[int, int, int]]:
        """Return (consumer, slot, output number) of every edge out of a node, by consumer."""
        return sorted(
            (user, slot, data["output"])
            for user, slots in self._succ[key].items()
            for slot, data in slots.items()
        )

    def descendants(self, key: int) -> set[int]:
        """Return the keys of all nodes reachable from a node, itself not included."""
        return _NETWORKX.descendants(self, key)

    # -- changing ------------------------------------------------------------------------------

    def add(self, key: int, node: Node) -> None:
        """Add a node of a key that is new, as `add_node` does."""
        self._note_change(key)
        self._node[key] = {"node": node}
        self._succ[key], self._pred[key] = {}, {}

    def connect(self, source: int, key: int, slot: int, output: int) -> None:
        """Add an edge between two nodes that are there, in a slot that is empty, as `add_edge` does."""
        self._note_change(key)
        slots = self._succ[source].get(key)
        if slots is None:
            self._succ[source][key] = self._pred[key][source] = {slot: {"output": output}}
        else:
            slots[slot] = {"output": output}

    def take_edges(self, other: Dataflow) -> None:
        """Add the edges of a graph of the same nodes, as it got them, to this one, which has none."""
        for source, users in other._succ.items():
            mine = self._succ[source]
            for user, slots in users.items():
                copied = {slot: {"output": data["output"]} for slot, data in slots.items()}
                mine[user] = self._pred[user][source] = copied
        self._operands = dict(other._operands)
        self.version = other.version

    def _note_change(self, *keys: int) -> None:
        """Count a change of the edges into some nodes, or of the nodes themselves."""
        self.version += 1
        self.touched.update(keys)
        for key in keys:
            self._operands.pop(key, None)

    def add_node(self, node_for_adding: Any, **attr: Any) -> None:
        """Add a node; see networkx."""
        self._note_change(node_for_adding)
        super().add_node(node_for_adding, **attr)

    def add_nodes_from(self, nodes_for_adding: Iterable[Any], **attr: Any) -> None:
        """Add nodes; see networkx."""
        nodes = list(nodes_for_adding)
        self._note_change(*(cast("tuple[int, object]", n)[0] if isinstance(n, tuple) else n for n in nodes))
        super().add_nodes_from(nodes, **attr)

    def remove_node(self, n: Any) -> None:
        """Remove a node; see networkx."""
        self._note_change(*self._succ.get(n, ()))
        self._operands.pop(n, None)
        super().remove_node(n)

    def remove_nodes_from(self, nodes: Iterable[Any]) -> None:
        """Remove nodes; see networkx."""
        gone = list(nodes)
        self._note_change(*(user for n in gone for user in self._succ.get(n, ())))
        for n in gone:
            self._operands.pop(n, None)
        super().remove_nodes_from(gone)

    def add_edge(self, u_for_edge: Any, v_for_edge: Any, key: Hashable | None = None, **attr: Any) -> Any:
        """Add an edge; see networkx."""
        self._note_change(v_for_edge)
        return super().add_edge(u_for_edge, v_for_edge, key, **attr)

    def remove_edge(self, u: Any, v: Any, key: Hashable | None = None) -> None:
        """Remove an edge; see networkx."""
        self._note_change(v)
        super().remove_edge(u, v, key)

    def clear(self) -> None:
        """Remove all nodes and edges; see networkx."""
        self.version += 1
        self._operands.clear()
        super().clear()

    def clear_edges(self) -> None:
        """Remove all edges; see networkx."""
        self._note_change(*self._node)
        super().clear_edges()
