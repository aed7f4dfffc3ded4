"""What a lowering sees: one use of a primitive, its arguments and attributes, and where to build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir import Builder, Graph, TensorType, UnsupportedError, Value
from ..lowering_table import Attributes
from .batch import Batch, BatchDependenceError, BatchFill
from .mindir import MONAD, Node

_TYPE_IDS = {
    30: "bool",
    32: "int8",
    33: "int16",
    34: "int32",
    35: "int64",
    37: "uint8",
    38: "uint16",
    39: "uint32",
    40: "uint64",
    42: "float16",
    43: "float32",
    44: "float64",
    45: "bfloat16",
    31: "int64",
    41: "float32",
}
"""MindSpore's TypeId, as `Cast` and `ArgMax` are given it."""


_BOOKKEEPING = (
    "input_names",
    "output_names",
    "IsFeatureMapInputList",
    "IsFeatureMapOutput",
    "is_ref",
    "primitive_target",
    "side_effect_mem",
    "visited",
)
"""Attributes of any primitive that say how MindSpore runs it, not what it computes."""


class Use:
    """One use of a primitive.

    Attributes:
        node: the MindIR node.
        arguments: per input a Value, or a Python value where MindIR has a constant; tuples may hold both.
        attributes: the primitive's own attributes.
        b: builder, in the right module call.
        cell: the Cell in whose call the node is.
        types: what the node yields, one per result.
        users: per argument, the number of nodes that read it.
    """

    def __init__(
        self, node: Node, arguments: Sequence[Any], b: Builder, *, cell: Any, place: str, users: Sequence[int]
    ) -> None:
        self.node, self.arguments, self.b, self.cell, self.place, self.users = (
            node,
            list(arguments),
            b,
            cell,
            place,
            users,
        )
        self.attributes = Attributes(node.attributes, node.op, place)
        self.attributes.ignore(*_BOOKKEEPING)
        self.types: tuple[Any, ...] = node.type if isinstance(node.type, tuple) else (node.type,)
        self._unread = {i for i, a in enumerate(self.arguments) if a is not MONAD}

    @property
    def graph(self) -> Graph:
        """The graph that is built."""
        return self.b.graph

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.types[0]

    def argument(self, index: int, default: Any = None) -> Any:
        """One argument as it is."""
        self._unread.discard(index)
        return self.arguments[index] if index < len(self.arguments) else default

    def ignore(self, *indices: int) -> None:
        """Say that these arguments do not matter for what is computed."""
        self._unread.difference_update(indices)

    def tensor(self, index: int, dtype: str | None = None) -> Value:
        """One argument as a value; a Python scalar or an array becomes a constant."""
        return self.as_value(self.argument(index), dtype)

    def as_value(self, argument: Any, dtype: str | None = None) -> Value:
        """A value from an argument of any kind."""
        if isinstance(argument, Value):
            return argument
        if isinstance(argument, BatchFill):
            shape = self.shape_value(argument.shape)
            return self.b.op("Expand", self.b.constant(argument.value), shape, types=[_fill_type(argument)])
        if isinstance(argument, Batch):
            size = self.shape_value([argument])
            return self.b.op("Squeeze", size, self.b.constant([0]))
        if is_tuple(argument) and any(isinstance(a, Batch) for a in argument):
            return self.shape_value(argument)
        if isinstance(argument, (np.ndarray, bool, int, float, tuple)) and not _holds_values(argument):
            return self.b.constant(argument, dtype)
        raise self.unsupported(f"expected a tensor, got `{argument!r}`")

    def values(self, index: int) -> list[Value]:
        """One argument as a list of values."""
        found = self.argument(index)
        return [self.as_value(v) for v in (found if is_tuple(found) else (found,))]

    def ints(self, index: int) -> list[int]:
        """One argument as integers; a scalar counts as one."""
        return [self._int(v) for v in self.dims(index)]

    def dims(self, index: int) -> list[int | Batch]:
        """One argument as integers among which there may be multiples of the batch."""
        return self._dims(self.argument(index))

    def int(self, index: int) -> int:
        """One argument as an integer."""
        return self._int(self.argument(index))

    def float(self, index: int) -> float:
        """One argument as a float."""
        found = self.argument(index)
        if isinstance(found, np.ndarray) and found.size == 1:
            return float(found.reshape(()))
        if isinstance(found, (bool, int, float)):
            return float(found)
        raise self.unsupported(f"expected a constant number as argument {index}, got `{found!r}`")

    def bound(self, dim: int | Batch) -> int:
        """A bound of a slice, which must be a number."""
        return self._int(dim)

    def sole_reader(self, index: int) -> bool:
        """Whether nothing else reads an argument."""
        return self.users[index] == 1

    def dtype(self, index: int) -> str:
        """One argument, a TypeId, as our name of the element type."""
        number = self.int(index)
        if number not in _TYPE_IDS:
            raise self.unsupported(f"expected a tensor's element type, got TypeId {number}")
        return _TYPE_IDS[number]

    def attribute_ints(self, name: str) -> list[int]:
        """An attribute as integers."""
        return [self._int(v) for v in self._dims(self.attributes.get(name))]

    def attribute_int(self, name: str) -> int:
        """An attribute as an integer."""
        return self._int(self.attributes.get(name))

    def attribute_float(self, name: str) -> float:
        """An attribute as a number."""
        found = self.attributes.get(name)
        if not isinstance(found, (int, float)):
            raise self.unsupported(f"expected a number as `{name}`, got `{found!r}`")
        return float(found)

    def emit(self, op_type: str, *operands: Value | None, **attributes: object) -> Value:
        """Add the operator that yields the node's first result, typed as MindIR says."""
        return self.b.op(op_type, *operands, types=[self.type], **attributes)

    def rank(self, value: Value) -> int:
        """The rank of a value."""
        return len(self.b.type_of(value).shape or ())

    def shape_value(self, dims: Sequence[int | Batch]) -> Value:
        """An int64 vector of dimensions, the batch read from the first input that has it."""
        if not any(isinstance(d, Batch) for d in dims):
            return self.b.constant([int(d) for d in dims if not isinstance(d, Batch)])
        parts: list[Value] = []
        for dim in dims:
            if isinstance(dim, Batch):
                size = self._batch_size()
                parts.append(
                    size if dim.multiple == 1 else self.b.op("Mul", size, self.b.constant([dim.multiple]))
                )
            else:
                parts.append(self.b.constant([dim]))
        return parts[0] if len(parts) == 1 else self.b.op("Concat", *parts, axis=0)

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """E203 at this use."""
        return UnsupportedError("E203", f"`{self.node.op}`: {message}", place=self.place, hint=hint)

    def finish(self) -> None:
        """Check that every argument and attribute was read or ignored.

        Raises:
            UnsupportedError: naming those that were not.
        """
        self.attributes.finish()
        if self._unread:
            unread = ", ".join(f"argument {i}={self.arguments[i]!r}" for i in sorted(self._unread))
            raise UnsupportedError(
                "E202", f"the lowering of `{self.node.op}` does not read {unread}", place=self.place
            )

    def _batch_size(self) -> Value:
        for node in self.graph.input_nodes():
            for axis, dim in enumerate(node.type.shape or ()):
                if dim == "N":
                    return self.b.op("Shape", Value(node.key), start=axis, end=axis + 1)
        raise BatchDependenceError("no input has the batch as a dimension")

    def _dims(self, found: Any) -> list[int | Batch]:
        if isinstance(found, np.ndarray) and found.dtype.kind in "iu":
            return [int(v) for v in found.reshape(-1)]
        if isinstance(found, (bool, int, Batch)):
            return [found]
        if is_tuple(found):
            return [d for v in found for d in self._dims(v)]
        raise self.unsupported(f"expected constant integers, got `{found!r}`")

    def _int(self, found: Any) -> int:
        if isinstance(found, np.ndarray) and found.size == 1:
            found = found.reshape(()).item()
        if isinstance(found, Batch):
            raise BatchDependenceError(f"`{self.node.op}` needs a number where the batch size stands")
        if not isinstance(found, int):
            raise self.unsupported(f"expected a constant integer, got `{found!r}`")
        return int(found)


Lowering = Callable[[Use], Any]
"""Builds what a primitive computes; returns a Value, or a tuple of them for a tuple result."""


def is_tuple(found: Any) -> bool:
    """Whether something is a tuple of MindIR's; a Value is a tuple only to Python."""
    return isinstance(found, tuple) and not isinstance(found, Value)


def _holds_values(argument: Any) -> bool:
    return isinstance(argument, Value) or (isinstance(argument, tuple) and any(map(_holds_values, argument)))


def _fill_type(fill: BatchFill) -> TensorType:
    return TensorType(
        str(fill.value.dtype), tuple(d.symbol if isinstance(d, Batch) else d for d in fill.shape)
    )
