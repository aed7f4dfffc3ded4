"""One use of a primitive: arguments by position, attributes by name."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir import Builder, Dim, Parameter, TensorType, Value
from ...ir.dims import Size
from .. import call
from ..arguments import REQUIRED, Key, is_list
from .batch import BATCH, BatchDependenceError, BatchFill
from .branching.nested_graphs import NestedBuilder, read_batch, read_parameter
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
    "grad_scale",
)
"""Attributes of any primitive that say how MindSpore runs it, not what it computes."""
_PARTS = {"complex64": "float32", "complex128": "float64"}
"""Element types of complex numbers, and those of their parts."""


class Call(call.Call):
    """One use of a primitive.

    Args:
        node: the MindIR node.
        arguments: per input a Value, or a Python value where MindIR has a constant; tuples may hold both.
        b: builder, in the right module call.
        cell: the Cell in whose call the node is.
        place: where it is used, for messages.
        users: per argument, the number of nodes that read it.
        reads: the numbers of the results that are read, where it has several.
    """

    framework = "MindSpore"

    def __init__(
        self,
        node: Node,
        arguments: Sequence[Any],
        b: Builder,
        *,
        cell: Any,
        place: str,
        users: Sequence[int],
        reads: Container[int] = (),
    ) -> None:
        given = {i: a for i, a in enumerate(arguments) if a is not MONAD}
        super().__init__(b, node.op, {**given, **node.attributes}, place)
        self.node, self.cell, self.users, self.reads = node, cell, users, reads
        self.ignore(*_BOOKKEEPING)

    @property
    def types(self) -> Sequence[TensorType | None]:
        """Return MindIR's types of the node's results; None for a result that is not data."""
        return self.node.type if isinstance(self.node.type, tuple) else (self.node.type,)

    def plain(self, key: Key, default: Any = REQUIRED) -> Any:
        """Return an argument as a Python number, flag, None or list; an array of one element is a number."""
        found = self.arg(key, default)
        if isinstance(found, np.ndarray) and found.size == 1:
            return found.reshape(()).item()
        return found

    @property
    def real_dtype(self) -> str:
        """The element type of a complex result's parts, or of a real result."""
        return _PARTS.get(self.dtype, self.dtype)

    def holds(self, kind: type) -> bool:
        """Whether an argument, or an item of one, is of a class."""
        return any(_holds(argument, kind) for argument in self._arguments.values())

    def with_parts(self, part: Callable[[Any], Any]) -> Call:
        """Return the call on a part of its arguments, the results of which are real."""
        found = copy(self)
        found._arguments = {key: part(argument) for key, argument in self._arguments.items()}
        found.node = replace(self.node, type=_real_type(self.node.type))
        return found

    def values(self, key: Key) -> list[Value]:
        """Return an argument that is a list of tensors, some of which may be constants."""
        found = self.arg(key)
        return [self.as_value(item) for item in (found if is_list(found) else [found])]

    def items(self, found: Any) -> list[Any]:
        """Return the elements of nested tuples and arrays in one list."""
        if isinstance(found, np.ndarray):
            return found.reshape(-1).tolist()
        return [item for part in found for item in self.items(part)] if is_list(found) else [found]

    def mismatch(self, key: Key, expected: str, found: object) -> Exception:
        """Return the error for an argument of another kind; the batch where a number must stand is one."""
        if any(isinstance(item, Size) for item in self.items(found)):
            return self.depends_on_batch()
        return super().mismatch(key, expected, found)

    def as_value(self, found: Any, what: str = "an argument") -> Value:
        """Return an argument of any kind as a value; a number, a tuple or an array becomes a constant."""
        if isinstance(found, BatchFill):
            shape = self.shape_value(found.shape)
            return self.op(
                "Expand", self.constant(found.value, str(found.value.dtype)), shape, types=[_fill_type(found)]
            )
        if isinstance(found, Size):
            return self.op("Squeeze", self.shape_value([found]), self.constant([0]))
        if is_list(found) and any(isinstance(item, Size) for item in found):
            return self.shape_value(found)
        plain = isinstance(found, (np.ndarray, bool, int, float)) or is_list(found)
        if plain and not _holds(found, Value):
            return self.constant(found)
        return super().as_value(found, what)

    def sizes(self, key: Key) -> list[int | Size]:
        """Return integers among which may be multiples of the batch."""
        found = super().sizes(key)
        if not all(isinstance(size, (int, Size)) for size in found):
            raise self.mismatch(key, "static integers", found)
        return found

    def static(self, size: int | Size) -> int:
        """Return a size that may not depend on the batch."""
        if isinstance(size, Size):
            raise self.depends_on_batch()
        return size

    def static_shape(self, of: Key | Value | None = None, axes: Sequence[int] | None = None) -> list[int]:
        """Return the sizes of all axes, or of some; the batch may not be among them."""
        shape = self.shape(of)
        if any(isinstance(shape[a], str) for a in (range(len(shape)) if axes is None else axes)):
            raise self.depends_on_batch()
        return super().static_shape(of, axes)

    def depends_on_batch(self) -> BatchDependenceError:
        """Return the error for a size that must be a number, with which the batch's is tried."""
        return BatchDependenceError(f"`{self.operator}` needs a number where the batch size stands")

    def element_type(self, key: Key) -> str:
        """Return our name of an element type, which MindIR gives by its TypeId."""
        number = self.int(key)
        if number not in _TYPE_IDS:
            raise self.unsupported(f"expected a tensor's element type, got TypeId {number}")
        return _TYPE_IDS[number]

    def is_read(self, result: int) -> bool:
        """Whether anything reads one result of several."""
        return result in self.reads

    def parameter(self, key: int) -> Value:
        """Return the parameter of that key, which is the root graph's, in the graph that is built."""
        return read_parameter(self.b, key)

    def is_parameter(self, value: Value) -> bool:
        """Whether a value is a parameter, be it of a graph around this one."""
        builder = self.b
        while isinstance(builder, NestedBuilder) and (outer := builder.origin(value)) is not None:
            builder, value = builder.outer, outer
        return isinstance(builder.graph.producer(value), Parameter)

    def is_sole_reader(self, position: int) -> bool:
        """Whether nothing else reads an argument."""
        return self.users[position] == 1

    def as_dim(self, size: int | Size) -> Dim:
        """Return a size as a dimension of a type."""
        return size.dim if isinstance(size, Size) else size

    def shape_value(self, sizes: Sequence[int | Size]) -> Value:
        """Return sizes as an int64 vector, the batch read from the first input that has it."""
        if not any(isinstance(size, Size) for size in sizes):
            return super().shape_value(sizes)
        parts: list[Value] = []
        for size in sizes:
            if isinstance(size, Size):
                batch, multiple = read_batch(self.b), size.divide(BATCH)
                assert multiple is not None, size
                if multiple.number != 1:
                    batch = self.op("Mul", batch, self.constant([multiple.number]))
                parts.append(batch)
            else:
                parts.append(self.constant([size]))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)


def _holds(argument: Any, kind: type) -> bool:
    return isinstance(argument, kind) or (is_list(argument) and any(_holds(a, kind) for a in argument))


def _real_type(stated: Any) -> Any:
    if isinstance(stated, tuple):
        return tuple(map(_real_type, stated))
    return stated if stated is None else replace(stated, dtype=_PARTS.get(stated.dtype, stated.dtype))


def _fill_type(fill: BatchFill) -> TensorType:
    return TensorType(str(fill.value.dtype), tuple(d.dim if isinstance(d, Size) else d for d in fill.shape))
