"""Describes places of nodes, for many nodes of one graph: module call and source line."""

from __future__ import annotations

from functools import cached_property

from ..ir import Graph, Operator


class Places:
    """Describes nodes; names of calls are computed once, so that a thousand changes cost no more than one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _calls(self) -> dict[int, str]:
        return self._graph.modules.call_names()

    def of(self, part: Graph, key: int) -> str:
        """Return the module call and source line of an operator; for other nodes, `Graph.describe`."""
        node = part.node(key)
        if not isinstance(node, Operator):
            return part.describe(key)
        name = "" if node.call is None else self._calls[node.call]
        call = "" if not name or name.startswith("#") else f" in `{name}`"  # the root goes without saying
        line = f" ({node.location})" if node.location else ""
        return f"`{node.qualified_name}`{call}{line}"
