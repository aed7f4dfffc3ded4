"""Nested graphs while they are built: every value from outside is captured, the batch's size too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir import Builder, Constant, Graph, Value
from ...arguments import is_list
from ..batch import BatchDependenceError


class NestedGraphs:
    """The nested graphs of one operator, and what they capture from the graph around it.

    Args:
        outer: builds the graph that holds the operator.
    """

    def __init__(self, outer: Builder) -> None:
        self.outer = outer
        self.values: list[Value] = []
        self.parts: list[NestedBuilder] = []

    def enter(self, name: str) -> NestedBuilder:
        """Return the builder of a further nested graph, in the operator's own module call."""
        self.parts.append(NestedBuilder(self, name))
        return self.parts[-1]

    def complete(self) -> Sequence[Value]:
        """Give every part every capture that any of them reads; returns the values captured."""
        for part in self.parts:
            part.graph.remove_dead()
        read = [v for v in self.values if any(part.reads(v) for part in self.parts)]
        for part in self.parts:
            part.settle_captures(read)
        return read


class NestedBuilder(Builder):
    """Builds one nested graph.

    Args:
        nested: the graphs of its owner.
        name: of the graph.
    """

    def __init__(self, nested: NestedGraphs, name: str) -> None:
        outer = nested.outer
        super().__init__(Graph(name, outer.graph.modules), call=outer.call, location=outer.location)
        self.nested = nested
        self._inner: dict[Value, Value] = {}
        self._outer: dict[Value, Value] = {}

    @property
    def outer(self) -> Builder:
        """The builder of the graph around."""
        return self.nested.outer

    def captured(self, value: Value) -> Value:
        """Return what stands in this graph for a value of the graph around it."""
        if value not in self._inner:
            node = self.outer.graph.node(value.node)
            if isinstance(node, Constant):
                self._inner[value] = self.graph.add_constant(node.data)
            else:
                if value not in self.nested.values:
                    self.nested.values.append(value)
                self._inner[value] = self.graph.add_capture(self.outer.graph.known_type(value))
                self._outer[self._inner[value]] = value
        return self._inner[value]

    def origin(self, value: Value) -> Value | None:
        """Return the value of the graph around that a value of this one is, if any."""
        return self._outer.get(value)

    def reads(self, value: Value) -> bool:
        """Whether the graph reads a value of the graph around it."""
        inner = self._inner.get(value)
        return inner is not None and self.graph.is_read(inner)

    def settle_captures(self, values: Sequence[Value]) -> None:
        """Make these the graph's captures, in this order; those left out are not read."""
        kept = []
        for index, value in enumerate(values):
            inner = self._inner.get(value)
            if inner is None:
                inner = self.graph.add_capture(self.outer.graph.known_type(value))
            self.graph.node(inner.node).index = index  # pyright: ignore[reportAttributeAccessIssue]
            kept.append(inner.node)
        for key in set(self.graph.captures) - set(kept):
            self.graph.captures.remove(key)
            self.graph.remove(key)
        self.graph.captures = kept


def carry(found: Any, source: Builder, target: Builder) -> Any:
    """Return what stands in the graph of `target` for what is found in that of `source`, around it."""
    if is_list(found):
        return tuple(carry(part, source, target) for part in found)
    if not isinstance(found, Value) or source is target:
        return found
    assert isinstance(target, NestedBuilder), found
    return target.captured(carry(found, source, target.outer))


def read_parameter(builder: Builder, key: int) -> Value:
    """Return a parameter of the root graph in the graph that is built."""
    root = builder
    while isinstance(root, NestedBuilder):
        root = root.outer
    return carry(Value(key), root, builder)


def read_batch(builder: Builder) -> Value:
    """Return the size of the batch as an int64 vector of one number.

    Raises:
        BatchDependenceError: when no input of the graph has the batch as a dimension.
    """
    graph = builder.graph
    for key in [*graph.inputs, *graph.captures]:
        for axis, dim in enumerate((graph.known_type(Value(key))).shape or ()):
            if dim == "N":
                return builder.op("Shape", Value(key), start=axis, end=axis + 1)
    if isinstance(builder, NestedBuilder):
        return builder.captured(read_batch(builder.outer))
    raise BatchDependenceError("no input has the batch as a dimension")
