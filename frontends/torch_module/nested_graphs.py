"""Nested graphs while they are lowered: every value from outside is captured, sizes included."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Constant, Graph, Value
from .context import Context, Result
from .symbols import Size


class NestedGraphs:
    """The nested graphs of one operator, and what they capture from the graph around it.

    Args:
        outer: the context of the graph that holds the operator.
    """

    def __init__(self, outer: Context) -> None:
        self.outer = outer
        self.values: list[Value] = []
        self.parts: list[NestedContext] = []

    def enter(self, name: str) -> NestedContext:
        """The context of a further nested graph, whose operators are in the operator's own module call."""
        self.parts.append(NestedContext(self, name))
        return self.parts[-1]

    def complete(self) -> Sequence[Value]:
        """Give every part every capture, as their owner does; returns the values captured."""
        for part in self.parts:
            for index in range(len(part.graph.captures), len(self.values)):
                part.graph.add_capture(self.outer.graph.known_type(self.values[index]))
        return self.values


class NestedContext(Context):
    """State of the lowering of one nested graph.

    Args:
        nested: the graphs of its owner.
        name: of the graph.
    """

    def __init__(self, nested: NestedGraphs, name: str) -> None:
        outer = nested.outer
        super().__init__(Graph(name, outer.graph.modules), outer.symbols)
        self.notes = outer.notes
        self.b.call, self.b.location = outer.b.call, outer.b.location
        self._nested = nested
        self._inner: dict[Value, Value] = {}
        self._outer: dict[int, Value] = {}

    def captured(self, operand: Result) -> Result:
        """Return the value of an owner's operand in this graph; sizes, numbers and None stay."""
        if not isinstance(operand, Value):
            return operand
        if operand not in self._inner:
            self._inner[operand] = self._capture(operand)
        return self._inner[operand]

    def _capture(self, value: Value) -> Value:
        outer, shared = self._nested.outer, self._nested.values
        node = outer.graph.node(value.node)
        if isinstance(node, Constant):
            return self.graph.add_constant(node.data)
        if value not in shared:
            shared.append(value)
        index = shared.index(value)
        for missing in range(len(self.graph.captures), index + 1):
            self.graph.add_capture(outer.graph.known_type(shared[missing]))
        found = Value(self.graph.captures[index])
        self._outer[found.node] = value
        self.state_training(found, trains=outer.trains(value))
        return found

    def parameter_of(self, value: Value) -> int | None:
        """Return the parameter that a captured value is."""
        outer = self._outer.get(value.node)
        return None if outer is None else self._nested.outer.parameter_of(outer)

    def _here(self) -> int | None:
        return None  # a nested graph is read as a whole: its values are at hand in all of it

    def _elsewhere(self, size: Size) -> Value:
        """Return the value of a size that has none in this graph: a constant, or one computed around it."""
        if size in self._counts:
            return self._counts[size]
        return self.captured(self._nested.outer.shape_value([size]))
