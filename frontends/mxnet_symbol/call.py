"""One use of an MXNet operator: what a lowering reads, and how it adds to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir import Builder, Dim, TensorType, UnsupportedError, Value
from ..lowering_table import LoweringTable
from .attributes import TextAttributes
from .reader import SymbolNode

_MOST = 1 << 22  # a damaged attribute must not cost the memory it names


@dataclass(slots=True)
class Use:
    """An operator node with its operands in the graph under construction.

    Attributes:
        b: the builder, inside the module call that the node belongs to.
        node: the node of the symbol file.
        attrs: its attributes, typed.
        inputs: its operands; None for a label, which inference does not read, and for a state of zeros.
        names: names of its operands in the file.
    """

    b: Builder
    node: SymbolNode
    attrs: TextAttributes
    inputs: list[Value | None]
    names: list[str]

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.input(0)

    def input(self, slot: int) -> Value:
        """The operand in a slot.

        Raises:
            UnsupportedError: when the node has none there.
        """
        value = self.inputs[slot] if slot < len(self.inputs) else None
        if value is None:
            raise self.unsupported(f"expected an input in slot {slot}, got {len(self.inputs)} inputs")
        return value

    def values(self) -> list[Value]:
        """All operands."""
        return [self.input(i) for i in range(len(self.inputs))]

    def shape(self, value: Value) -> tuple[Dim, ...]:
        """The shape of a value, whose rank must be known."""
        shape = self.b.type_of(value).shape
        if shape is None:
            raise self.unsupported("expected an input of known rank")
        return shape

    def rank(self, value: Value) -> int:
        """The rank of a value."""
        return len(self.shape(value))

    def dtype(self, value: Value) -> str:
        """The element type of a value."""
        return self.b.type_of(value).dtype

    def static(self, value: Value, axes: Sequence[int]) -> list[int]:
        """The sizes of some axes.

        Raises:
            UnsupportedError: when one is symbolic; with a static batch it may not be.
        """
        shape = self.shape(value)
        sizes = [d for a in axes if isinstance(d := shape[a], int)]
        if len(sizes) != len(axes):
            raise self.unsupported(
                f"expected static sizes of the axes {list(axes)}, got {self.b.type_of(value)}"
            )
        return sizes

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front.

        Raises:
            UnsupportedError: when there is no such axis.
        """
        if not -rank <= axis < rank:
            raise self.unsupported(f"expected an axis of {rank} dimensions, got {axis}")
        return axis % rank

    def cast(self, value: Value, dtype: str) -> Value:
        """The value in another element type."""
        if self.dtype(value) == dtype:
            return value
        from ...ir import onnx_dtype

        return self.b.op("Cast", value, to=onnx_dtype(dtype))

    def reshape(self, value: Value, target: Sequence[Dim]) -> Value:
        """Reshape to a shape whose symbolic dimensions stay where they were, or are one.

        Raises:
            UnsupportedError: when the target cannot be said without arithmetic on the batch.
        """
        source, type_ = self.shape(value), self.b.type_of(value)
        if tuple(target) == source:
            return value
        codes: list[int] = []
        for i, dim in enumerate(target):
            if isinstance(dim, int):
                codes.append(dim)
            elif dim is not None and i < len(source) and source[i] == dim:
                codes.append(0)
            else:
                codes.append(-1)
        if codes.count(-1) > 1:
            raise self.unsupported(
                f"expected at most one dimension to infer, got {list(target)} from {type_}"
            )
        shape = self.b.constant(codes) if codes else self.b.constant([], "int64")
        return self.b.op("Reshape", value, shape, types=[TensorType(type_.dtype, tuple(target))])

    def bounded(self, count: float, most: int = _MOST) -> None:
        """Refuse to make more elements, or parts, than a model plausibly has."""
        if not 0 <= count <= most:
            raise self.unsupported(f"expected at most {most} elements or parts, got {count:g}")

    def unsupported(self, message: str) -> UnsupportedError:
        """The error for a form of the operator that its lowering does not cover."""
        return UnsupportedError("E203", f"`{self.node.op}`: {message}", place=self.node.place)


def new_table() -> LoweringTable:
    """An empty table for one family file."""
    return LoweringTable("MXNet")
