"""The base view of an operator that all emitters have; a backend adds how operands are written."""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Operator, TensorType, Value


class OperatorView:
    """An operator in its graph.

    Attributes:
        graph: the graph.
        operator: the operator.
        operands: its inputs by slot, None where an optional one is absent.
    """

    def __init__(self, graph: Graph, operator: Operator) -> None:
        self.graph, self.operator = graph, operator
        self.operands: list[Value | None] = graph.operands(operator.key)

    def refused(self, message: str) -> Exception:
        """Return the exception for a form of the operator that the backend does not have."""
        raise NotImplementedError(message)

    def has(self, slot: int) -> bool:
        """Whether an operand is there."""
        return slot < len(self.operands) and self.operands[slot] is not None

    def value(self, slot: int) -> Value:
        """Return the operand in a slot, which must be there."""
        value = self.operands[slot] if slot < len(self.operands) else None
        if value is None:
            raise self.refused(f"expected an operand in slot {slot}")
        return value

    def type(self, slot: int = 0) -> TensorType:
        """Return the type of an operand, which must be known; only its shape may be None."""
        found = self.graph.type_of(self.value(slot))
        if found is None:
            raise self.refused(f"expected operand {slot} of known type")
        return found

    def shape(self, slot: int = 0) -> tuple[int | str | None, ...]:
        """Return the shape of an operand, whose rank must be known."""
        shape = self.type(slot).shape
        if shape is None:
            raise self.refused("expected an operand of known rank")
        return shape

    def rank(self, slot: int = 0) -> int:
        """Return the rank of an operand, which must be known."""
        return len(self.shape(slot))

    def static_shape(self, slot: int) -> tuple[int, ...]:
        """Return the shape of an operand, which must be static."""
        type_ = self.type(slot)
        if not type_.is_static:
            raise self.refused(f"expected operand {slot} of a static shape, got {type_}")
        return type_.static_shape()

    def constant(self, slot: int) -> np.ndarray | None:
        """Return the values of an operand that is a constant, else None."""
        return self.graph.constant_value(self.operands[slot]) if self.has(slot) else None

    def ints(self, slot: int) -> list[int]:
        """Return the values of an operand that must be a constant of integers."""
        found = self.constant(slot)
        if found is None:
            raise self.refused(f"expected operand {slot} to be a constant")
        return [int(v) for v in found.reshape(-1)]
