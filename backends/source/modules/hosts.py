"""Decides which values of a graph are written as Python's numbers, in whatever module they are made."""

from __future__ import annotations

from ....ir import Graph, Operator, Value
from ..dialect import Dialect
from ..emission import Probe, emit_call
from ..emitting import Refused, View
from .contraction import given_value, is_argument


def find_hosts(graph: Graph, dialect: Dialect) -> dict[Value, str]:
    """Return value -> "int" or "tuple", for every value that an emitter writes as a size or sizes."""
    scope = _Following(graph, dialect)
    for key in graph.order():
        node = graph.node(key)
        if not isinstance(node, Operator) or is_argument(node):
            continue
        if node.op_type not in ("Shape", "Size") and not any(
            value is not None and scope.host(value) for value in graph.operands(key)
        ):
            continue
        try:
            host = emit_call(View(graph, node, scope)).host
        except Refused:
            continue
        if host:
            scope.hosts[Value(key)] = host
    return scope.hosts


class _Following(Probe):
    """A scope that knows what the emitters wrote so far."""

    def __init__(self, graph: Graph, dialect: Dialect) -> None:
        super().__init__(graph, dialect)
        self.hosts: dict[Value, str] = {}

    def host(self, value: Value) -> str:
        """Return "int" or "tuple" for what was written as a size or sizes, empty for a tensor."""
        return self.hosts.get(given_value(self.graph, value), "")
