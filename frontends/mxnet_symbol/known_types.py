"""Types of nodes that were read before: a symbol is read at several sizes, and its layers are alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...ir import Constant, Graph, Operator, TensorType, Value
from .control_flow import is_control_flow
from .reader import Symbol, SymbolNode


class KnownTypes:
    """The types of a symbol's nodes, by their operators, attributes and operand types.

    Args:
        symbol: its nodes are those that are asked for.
    """

    def __init__(self, symbol: Symbol) -> None:
        numbers: dict[Hashable, int] = {}
        self._forms = {
            node.index: numbers.setdefault((node.op, *node.attributes.items()), len(numbers))
            for node in symbol.operators()
            if not is_control_flow(node)
        }
        self._types: dict[Hashable, list[TensorType | None]] = {}

    def application(self, graph: Graph, node: SymbolNode, operands: Sequence[Value | None]) -> Hashable:
        """Return all that the types of a node follow from; None where that is more than types."""
        form = self._forms.get(node.index)
        if form is None:
            return None
        parts: list[Hashable] = [form]
        for value in operands:
            if value is None:
                parts.append(None)
                continue
            producer = graph.node(value.node)
            if isinstance(producer, Constant):
                return None
            parts.append(producer.types[value.output])
        return tuple(parts)

    def note(self, graph: Graph, key: Hashable, outputs: Sequence[Value | None], since: int) -> None:
        """Keep the types of outputs, where nodes that were added `since` give them all."""
        types: list[TensorType | None] = []
        for value in outputs:
            if value is None or value.node < since or not isinstance(graph.node(value.node), Operator):
                return
            types.append(graph.type_of(value))
        self._types[key] = types

    def stand_in(self, graph: Graph, key: Hashable) -> list[Value] | None:
        """Return values of the known types, of one node that computes nothing; None for what is not known."""
        types = self._types.get(key)
        return None if types is None else graph.add_operator(Operator("Identity", types=list(types)))
