"""One view of a source operator: its arguments, its types, and where to build what it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import (
    Builder,
    Dim,
    InvalidGraphError,
    Operator,
    TensorType,
    Value,
    merge_types,
    onnx_dtype,
)
from ..ir.types import contradicts
from .arguments import REQUIRED, Arguments, Key, described, is_list
from .building import Building

__all__ = ["REQUIRED", "Call", "Key"]


class Call(Arguments, Building):
    """One use of a source operator, as its lowering sees it.

    The frontends' subclasses say what their frameworks have otherwise: how arguments are written, which
    sizes are symbolic, and the types that the framework states of the results.

    Args:
        b: builds in the module call and at the source line of the operator.
        operator: name of the source operator.
        arguments: name or position -> value, number, text, None, or a list of these.
        place: where it is used, for messages.
    """

    framework = ""
    """For messages."""

    def __init__(self, b: Builder, operator: str, arguments: Mapping[Any, object], place: str) -> None:
        Arguments.__init__(self, arguments, operator, place)
        Building.__init__(self, b)

    # -- tensors -------------------------------------------------------------------------------

    def value(self, key: Key) -> Value:
        """Return a tensor argument.

        Raises:
            UnsupportedError: when it is not a tensor.
        """
        return self.as_value(self.arg(key), described(key))

    def optional(self, key: Key) -> Value | None:
        """Return a tensor argument that may be None or absent."""
        return None if self.arg(key, None) is None else self.value(key)

    def values(self, key: Key) -> list[Value]:
        """Return an argument that is a list of tensors."""
        return [self.as_value(item, described(key)) for item in self.items(self.arg(key))]

    def operands(self) -> list[Value]:
        """Return all positional operands."""
        return [self.value(position) for position in range(self.count)]

    @property
    def count(self) -> int:
        """Return the number of positional operands."""
        return sum(isinstance(key, int) for key in self._arguments)

    def operand(self, key: Key, dtype: str) -> Value:
        """Return a tensor or number argument as a value of one element type."""
        found = self.arg(key)
        if isinstance(found, (bool, int, float)):
            return self.constant(found, dtype)
        return self.cast(self.as_value(found, described(key)), dtype)

    def as_value(self, found: Any, what: str = "an argument") -> Value:
        """Return an argument of any kind as a value.

        Raises:
            UnsupportedError: when it is not a tensor.
        """
        if not isinstance(found, Value):
            raise self.unsupported(f"expected {what} to be a tensor, got `{found!r}`")
        return found

    # -- sizes and types -----------------------------------------------------------------------

    @property
    def first(self) -> Key:
        """The first argument, of which types and shapes are asked unless another is named."""
        return 0

    def shape(self, of: Key | Value | None = None) -> tuple[Any, ...]:
        """Return the shape of an argument or a value: numbers and what the framework has for symbols."""
        shape = self.type_of(of).shape
        if shape is None:
            raise self.unsupported("expected an input of known rank")
        return shape

    def rank(self, of: Key | Value | None = None) -> int:
        """Return the rank of an argument or a value."""
        return len(self.shape(of))

    def static_shape(self, of: Key | Value | None = None, axes: Sequence[int] | None = None) -> list[int]:
        """Return the sizes of all axes, or of some.

        Raises:
            UnsupportedError: when one is symbolic; with a static batch it may not be.
        """
        shape = self.shape(of)
        wanted = list(shape) if axes is None else [shape[a] for a in axes]
        sizes = [size for size in wanted if isinstance(size, int)]
        if len(sizes) != len(wanted):
            which = "a static shape" if axes is None else f"static sizes of the axes {list(axes)}"
            raise self.unsupported(f"expected {which}, got {self.type_of(of)}")
        return sizes

    def dtype_of(self, of: Key | Value | None = None) -> str:
        """Return the element type of an argument or a value."""
        return self.type_of(of).dtype

    def type_of(self, of: Key | Value | None = None) -> TensorType:
        """Return the type of an argument or a value; looking at a type does not count as reading."""
        if not isinstance(of, Value):
            key = self.first if of is None else of
            of = self.as_value(self._arguments.get(key), described(key))
        return self.graph.known_type(of)

    def sizes(self, key: Key) -> list[Any]:
        """Return integers among which may be symbolic sizes; one alone stands for a list of one."""
        return self.items(self.arg(key))

    def axis(self, key: Key, rank: int | None = None, default: Any = REQUIRED) -> int:
        """Return an axis counted from the front; of the first argument, unless a rank is given."""
        return self.from_front(self.int(key, default), self.rank() if rank is None else rank)

    def axes(self, key: Key, rank: int | None = None, default: Any = REQUIRED) -> list[int]:
        """Return axes counted from the front; None or an empty list means all of them."""
        rank = self.rank() if rank is None else rank
        found = self.plain(key, default)
        if found is None or not rank or not self.items(found):
            return list(range(rank))
        return [self.from_front(axis, rank) for axis in self.ints(key, default)]

    def from_front(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front; a value without axes counts as having one.

        Raises:
            UnsupportedError: when there is no such axis.
        """
        count = max(rank, 1)
        if not -count <= axis < count:
            raise self.unsupported(f"expected an axis of {rank} dimensions, got {axis}")
        return axis % count

    @property
    def types(self) -> Sequence[TensorType | None]:
        """The types that the framework states of the results; empty where it states none."""
        return ()

    @property
    def type(self) -> TensorType:
        """The type that the framework states of the first result."""
        return self.result_type(0)

    def result_type(self, number: int) -> TensorType:
        """Return the type that the framework states of one of several results."""
        stated = self.types[number]
        assert stated is not None, self.operator
        return stated

    @property
    def dtype(self) -> str:
        """The element type of the first result."""
        return self.type.dtype

    # -- building ------------------------------------------------------------------------------

    def cast(self, value: Value, dtype: str) -> Value:
        """Return the value with another element type; itself where it has it."""
        return value if self.dtype_of(value) == dtype else self.op("Cast", value, to=onnx_dtype(dtype))

    def reshape(self, value: Value, shape: Sequence[Any]) -> Value:
        """Reshape, with 0 and -1 codes rather than arithmetic where there is one symbolic size."""
        known = self.graph.known_type(value)
        dims = tuple(self.as_dim(size) for size in shape)
        if known.shape == dims and None not in dims:
            return value
        types = [known.with_shape(dims)]
        if 0 in shape:  # a 0 in the shape would be read as "copy"
            return self.op("Reshape", value, self.shape_value(shape), allowzero=1, types=types)
        codes = self.reshape_codes(known, shape)
        if codes.count(-1) > 1:  # a run may compute a 0 too
            return self.op("Reshape", value, self.shape_value(shape), allowzero=1, types=types)
        return self.op("Reshape", value, self.constant(codes, "int64"), types=types)

    def reshape_codes(self, known: TensorType, shape: Sequence[Any]) -> list[int]:
        """Return 0 for each symbolic size that keeps its place, and -1 for each that does not."""
        before = known.shape or ()
        codes: list[int] = []
        for axis, size in enumerate(shape):
            if isinstance(size, int):
                codes.append(size)
            else:
                dim = self.as_dim(size)
                keeps = dim is not None and axis < len(before) and before[axis] == dim
                codes.append(0 if keeps else -1)
        return codes

    def as_dim(self, size: Any) -> Dim:
        """Return a size as a dimension of a type."""
        return size

    def shape_value(self, sizes: Sequence[Any]) -> Value:
        """Return sizes as an int64 vector, computed where some are symbolic.

        Raises:
            UnsupportedError: when the graph cannot compute one.
        """
        if not all(isinstance(size, int) for size in sizes):
            raise self.unsupported(f"expected at most one symbolic size, got {[str(s) for s in sizes]}")
        return self.constant(list(sizes), "int64")

    # -- when it is done -----------------------------------------------------------------------

    def finish(self, result: Any) -> Any:
        """Check that every argument was read, and give results the framework's own types.

        Raises:
            UnsupportedError: for an argument that was neither read nor ignored.
            InvalidGraphError: when the framework contradicts what was built.
        """
        self.require_all_read()
        for value, stated in zip(result if is_list(result) else [result], self.types, strict=False):
            if isinstance(value, Value) and stated is not None:
                self._state_type(value, stated)
        return result

    def _state_type(self, value: Value, stated: TensorType) -> None:
        producer = self.graph.node(value.node)
        found = producer.types[value.output]
        if found is not None and contradicts(stated, found):
            raise InvalidGraphError(
                "E301",
                f"the lowering of `{self.operator}` gives {found}, {self.framework} says {stated}",
                place=self.place,
            )
        if isinstance(producer, Operator):
            producer.types[value.output] = merge_types(stated, found)
