"""Builder functions for lowerings of every framework."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Builder, Graph, TensorType, Value


class Building:
    """A place in a graph where operators and constants are added.

    Args:
        b: builds in the module call and at the source line of an operator.
    """

    def __init__(self, b: Builder) -> None:
        self.b = b

    @property
    def graph(self) -> Graph:
        """The graph that is built."""
        return self.b.graph

    def op(
        self,
        op_type: str,
        *operands: Value | None,
        types: Sequence[TensorType | None] | None = None,
        **attributes: object,
    ) -> Value:
        """Add an operator with one output."""
        return self.b.ops(op_type, *operands, outputs=1, types=types, captures=(), **attributes)[0]

    def ops(
        self,
        op_type: str,
        *operands: Value | None,
        outputs: int,
        types: Sequence[TensorType | None] | None = None,
        **attributes: object,
    ) -> list[Value]:
        """Add an operator with several outputs."""
        return self.b.ops(op_type, *operands, outputs=outputs, types=types, captures=(), **attributes)

    def constant(self, value: object, dtype: str | None = None) -> Value:
        """Add a constant."""
        return self.b.constant(value, dtype)

    def scalar_like(self, number: float, like: Value) -> Value:
        """Add a number of the element type of a value."""
        return self.b.scalar_like(number, like)
