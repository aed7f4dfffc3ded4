"""What a lowering sees of one operator call, and what all lowerings of a program share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any

from ...ir import (
    Builder,
    Graph,
    InvalidGraphError,
    Operator,
    Parameter,
    TensorType,
    UnsupportedError,
    Value,
    merge_types,
    onnx_dtype,
)
from ..lowering_table import Attributes
from .symbols import Size, Symbols, as_dim, compute, dtype_of

if TYPE_CHECKING:
    import torch

Result = Any
"""What an fx node stands for: a `Value`, a `Size`, None, a Python scalar, or a list of these."""

Lowering = Callable[["Call"], Result]
"""A lowering: what an operator call becomes."""


class Context:
    """State of one lowering run.

    Attributes:
        graph: the graph being built.
        b: its builder.
        symbols: names of symbolic sizes.
        inputs: graph inputs by name.
        ones: symbolic sizes that are 1 in the example.
        notes: what a reader of the result should know.
    """

    def __init__(self, graph: Graph, symbols: Symbols) -> None:
        self.graph = graph
        self.b = Builder(graph)
        self.symbols = symbols
        self.inputs: dict[str, Value] = {}
        self.ones: set[Size] = set()
        self.notes: list[str] = []
        self._trains: dict[int, bool] = {}
        self._holders: dict[int | None, dict[Size, tuple[Value, int]]] = {}
        self._counts: dict[Size, Value] = {}
        self._of_data: dict[Size, tuple[Value, int]] = {}

    def saw(self, value: Value, fake: torch.Tensor) -> None:
        """Remember which symbolic sizes a value of the current module call carries."""
        held = self._holders.setdefault(self._here(), {})
        for axis, size in enumerate(fake.shape):
            found = self.symbols.size(size)
            if not isinstance(found, int):
                held[found] = (value, axis)
                if found.is_Symbol and found not in self.symbols.carriers:
                    self._of_data.setdefault(found, (value, axis))

    def sizes(self, sizes: Sequence[Size]) -> Value:
        """Sizes as an int64 vector: a constant where all are static, else taken from values at hand."""
        if all(isinstance(s, int) for s in sizes):
            return self.b.constant(list(sizes), "int64")
        parts: list[Value] = []
        static: list[int] = []
        for size in sizes:
            if isinstance(size, int):
                static.append(size)
                continue
            if static:
                parts.append(self.b.constant(static, "int64"))
                static = []
            parts.append(self._computed(size))
        if static:
            parts.append(self.b.constant(static, "int64"))
        return parts[0] if len(parts) == 1 else self.b.op("Concat", *parts, axis=0)

    def size_scalar(self, size: Size, dtype: str = "int64") -> Value:
        """A size as a 0-d value."""
        if isinstance(size, int):
            return self.b.constant(size, dtype)
        value = self.b.op("Squeeze", self._computed(size), self.b.constant([0]))
        return value if dtype == "int64" else self.b.op("Cast", value, to=onnx_dtype(dtype))

    def stopped(self, value: Value) -> Value:
        """The value without a gradient into what it is made of; itself where none of that is trained."""
        floating = self.graph.known_type(value).dtype in ("float16", "bfloat16", "float32", "float64")
        return self.b.op("regraft.StopGradient", value) if floating and self.trains(value) else value

    def trains(self, value: Value) -> bool:
        """Whether a gradient of the value reaches a trainable parameter."""
        waiting = [value.node]
        while waiting:
            key = waiting[-1]
            node = self.graph.node(key)
            if isinstance(node, Operator) and key not in self._trains:
                operands = [*self.graph.operands(key), *self.graph.captured(key)]
                sources = [v.node for v in operands if v is not None]
                pending = [s for s in sources if s not in self._trains]
                if pending and node.op_type != "StopGradient":
                    waiting += pending
                    continue
                self._trains[key] = node.op_type != "StopGradient" and any(map(self._trains.get, sources))
            elif not isinstance(node, Operator):
                self._trains.setdefault(key, isinstance(node, Parameter) and node.trainable)
            waiting.pop()
        return self._trains[value.node]

    def state_training(self, value: Value, *, trains: bool) -> None:
        """Say of a value that no operator makes whether a gradient of it reaches a parameter."""
        self._trains[value.node] = trains

    def parameter_of(self, value: Value) -> int | None:
        """The parameter that a value is, or None."""
        return value.node if isinstance(self.graph.node(value.node), Parameter) else None

    def _here(self) -> int | None:
        """The module call whose values are at hand."""
        return self.b.call

    def counted(self, value: Value, number: object) -> None:
        """Remember the value that a number of the program was read from, which sizes may be made of."""
        import sympy

        symbol = self.symbols.size(number)
        if isinstance(symbol, sympy.Symbol):
            one = self.b.op("Reshape", value, self.b.constant([1]))
            whole = self.graph.known_type(value).dtype == "int64"
            self._counts[symbol] = one if whole else self.b.op("Cast", one, to=onnx_dtype("int64"))

    def _elsewhere(self, size: Size) -> Value:
        """A symbol that no value of the current call carries, as a one-element vector."""
        if size in self._counts:
            return self._counts[size]
        if size in self._of_data:
            value, axis = self._of_data[size]
            return self.b.op("Shape", value, start=axis, end=axis + 1)
        if size not in self.symbols.carriers:
            raise UnsupportedError(
                "E203",
                f"expected a size that the inputs determine, got `{size}`",
                hint="its value depends on data",
            )
        name, axis = self.symbols.carriers[size]
        return self.b.op("Shape", self.inputs[name], start=axis, end=axis + 1)

    def _computed(self, size: Size) -> Value:
        if not hasattr(size, "free_symbols"):
            raise UnsupportedError("E203", f"expected a static number, got `{size}`")
        held = self._holders.get(self._here(), {})
        atoms: dict[Any, Value] = {}
        wanted = [size] if size in held else sorted(size.free_symbols, key=str)
        for atom in wanted:
            if atom in held:
                value, axis = held[atom]
                atoms[atom] = self.b.op("Shape", value, start=axis, end=axis + 1)
            else:
                atoms[atom] = self._elsewhere(atom)
        return compute(self.b, size, atoms)


class Call:
    """One operator call of the program.

    Args:
        context: what all lowerings share.
        target: name of the operator, e.g. ``aten.conv2d.default``.
        values: argument name -> value, defaults filled in.
        operands: names of the arguments that are tensors by the operator's schema, in order.
        fake: torch's own result: a fake tensor, or a list of them.
        place: where, for messages.

    Attributes:
        reads: positions of the results that the program reads, where it has several.
    """

    reads: Set[int]

    def __init__(
        self,
        context: Context,
        target: str,
        values: dict[str, Any],
        fakes: dict[str, Any],
        fake: Any,
        place: str,
    ) -> None:
        self.context, self.target, self.fake, self.place = context, target, fake, place
        self.b, self.graph = context.b, context.graph
        self.fakes = fakes
        self.attributes = Attributes(values, target, place)
        self.reads = frozenset()
        self._values = values

    # -- arguments -----------------------------------------------------------------------------

    def arg(self, name: str) -> Any:
        """One argument, as it is."""
        return self.attributes.get(name)

    def value(self, name: str) -> Value:
        """A tensor argument.

        Raises:
            UnsupportedError: when it is not a tensor.
        """
        found = self.arg(name)
        if not isinstance(found, Value):
            raise self.unsupported(f"expected `{name}` to be a tensor, got `{found!r}`")
        return found

    def optional(self, name: str) -> Value | None:
        """A tensor argument that may be None."""
        return None if self.arg(name) is None else self.value(name)

    def values(self, name: str) -> list[Value]:
        """An argument that is a list of tensors."""
        return list(self.arg(name))

    def int(self, name: str) -> int:
        """A static integer argument."""
        found = self.arg(name)
        if not isinstance(found, int):
            raise self.unsupported(f"expected a static `{name}`, got `{found}`")
        return int(found)

    def float(self, name: str) -> float:
        """A number."""
        found = self.arg(name)
        if not isinstance(
            found, (int, float)
        ):  # `int` here is the builtin: annotations aside, names resolve globally
            raise self.unsupported(f"expected `{name}` to be a number, got `{found}`")
        return float(found)

    def flag(self, name: str) -> bool:
        """A truth value."""
        return bool(self.arg(name))

    def ints(self, name: str) -> list[int]:
        """A list of static integers; a single one counts as a list of one."""
        found = self.arg(name)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(v, int) for v in found):
            raise self.unsupported(f"expected static `{name}`, got `{found}`")
        return [operator.index(v) for v in found]

    def sizes(self, name: str) -> list[Size]:
        """A list of integers that may be symbolic."""
        found = self.arg(name)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def axis(self, name: str, rank: int | None = None, of: str = "self") -> int:
        """An axis counted from the front."""
        return normalised_axis(self.int(name), self.rank(of) if rank is None else rank)

    def axes(self, name: str, of: str = "self") -> list[int]:
        """Axes counted from the front; None or an empty list means all of them."""
        rank = self.rank(of)
        if self.arg(name) is None or self.arg(name) == [] or not rank:
            return list(range(rank))
        return [normalised_axis(a, rank) for a in self.ints(name)]

    def ignore(self, *names: str) -> None:
        """Say that these arguments do not matter for what is computed."""
        self.attributes.ignore(*names)

    def require(self, name: str, *expected: object) -> None:
        """Refuse any value of an argument but these."""
        found = self.arg(name)
        if found not in expected:
            raise self.unsupported(
                f"expected `{name}` to be {' or '.join(map(repr, expected))}, got `{found!r}`"
            )

    # -- types ---------------------------------------------------------------------------------

    @property
    def type(self) -> TensorType:
        """The type of the result."""
        return self.context.symbols.type(self.fake)

    @property
    def dtype(self) -> str:
        """The element type of the result."""
        return dtype_of(self.fake.dtype)

    def shape(self, of: str) -> tuple[Size, ...]:
        """The shape of a tensor argument."""
        return tuple(self.context.symbols.size(s) for s in self.fakes[of].shape)

    def rank(self, of: str) -> int:
        """The rank of a tensor argument."""
        return self.fakes[of].dim()

    def dtype_of(self, value: Value) -> str:
        """The element type of a value."""
        return self.graph.known_type(value).dtype

    def static_shape(self, of: str) -> tuple[int, ...]:
        """The shape of a tensor argument, all of it static."""
        shape = self.shape(of)
        if not all(isinstance(s, int) for s in shape):
            raise self.unsupported(f"expected a static shape of `{of}`, got {[str(s) for s in shape]}")
        return shape

    @property
    def result_shape(self) -> tuple[Size, ...]:
        """The shape of the result."""
        return tuple(self.context.symbols.size(s) for s in self.fake.shape)

    # -- building ------------------------------------------------------------------------------

    def op(self, op_type: str, *operands: Value | None, **attributes: object) -> Value:
        """Add an operator with one output."""
        return self.b.ops(op_type, *operands, outputs=1, types=None, captures=(), **attributes)[0]

    def cast(self, value: Value, dtype: str) -> Value:
        """The value with another element type; itself where it has it."""
        return value if self.dtype_of(value) == dtype else self.op("Cast", value, to=onnx_dtype(dtype))

    def operand(self, name: str, dtype: str) -> Value:
        """A tensor, number or size argument as a value of one element type."""
        found = self.arg(name)
        if isinstance(found, Value):
            return self.cast(found, dtype)
        if isinstance(found, (int, float)):
            return self.b.constant(found, dtype)
        if not hasattr(found, "free_symbols"):
            raise self.unsupported(f"expected `{name}` to be a tensor, number or size, got `{found}`")
        return self.context.size_scalar(found, dtype)

    def promoted(self, *names: str) -> str:
        """The element type in which torch computes on these arguments together."""
        import torch

        given = [self.fakes.get(n, self._values[n]) for n in names]
        numbers = [
            1 if not isinstance(g, (torch.Tensor, int, float)) else g for g in given
        ]  # a size is an integer
        found = (
            torch.result_type(numbers[0], numbers[1])
            if len(numbers) > 1
            else torch.result_type(numbers[0], 0)
        )
        return dtype_of(found)

    def constant(self, value: object, dtype: str | None = None) -> Value:
        """Add a constant."""
        return self.b.constant(value, dtype)

    def reshape(self, value: Value, shape: Sequence[Size]) -> Value:
        """Reshape, with 0 and -1 codes rather than arithmetic where there is one symbolic size."""
        known = self.graph.known_type(value)
        if known.shape == tuple(as_dim(s) for s in shape):
            return value
        codes: list[int] = []
        inferred = 0
        for axis, size in enumerate(shape):
            if isinstance(size, int):
                codes.append(size)
            elif known.shape is not None and axis < len(known.shape) and known.shape[axis] == as_dim(size):
                codes.append(0)
            else:
                codes.append(-1)
                inferred += 1
        types: list[TensorType | None] = [known.with_shape(tuple(as_dim(s) for s in shape))]
        if 0 in shape:  # a 0 in the shape would be read as "copy"
            return self.b.op("Reshape", value, self.context.sizes(shape), allowzero=1, types=types)
        if inferred > 1:
            return self.b.op("Reshape", value, self.context.sizes(shape), types=types)
        if codes.count(0) == 1 and not inferred and all(s > 0 for s in codes if s):
            codes = codes if codes[0] == 0 else [-1 if c == 0 else c for c in codes]
        return self.b.op("Reshape", value, self.constant(codes, "int64"), types=types)

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """An E203 error at this call."""
        return UnsupportedError("E203", f"`{self.target}`: {message}", place=self.place, hint=hint)

    def finish(self, result: Result) -> Result:
        """Check that every argument was read, and give results torch's own types."""
        self.attributes.finish()
        fakes = self.fake if isinstance(self.fake, (list, tuple)) else [self.fake]
        values = result if isinstance(result, (list, tuple)) and not isinstance(result, Value) else [result]
        for value, fake in zip(values, fakes, strict=False):
            if isinstance(value, Value) and hasattr(fake, "dtype"):
                self._state_type(value, self.context.symbols.type(fake))
                self.context.saw(value, fake)
        return result

    def _state_type(self, value: Value, stated: TensorType) -> None:
        producer = self.graph.node(value.node)
        found = producer.types[value.output]
        if found is not None and not _agree(stated, found):
            raise InvalidGraphError(
                "E301",
                f"the lowering of `{self.target}` gives {found}, torch says {stated}",
                place=self.place,
            )
        if isinstance(producer, Operator):
            producer.types[value.output] = merge_types(stated, found)


def normalised_axis(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + max(rank, 1) if axis < 0 else axis


def _agree(a: TensorType, b: TensorType) -> bool:
    """Whether two types may be the same: what both state is equal."""
    if a.dtype != b.dtype:
        return False
    if a.shape is None or b.shape is None:
        return True
    return len(a.shape) == len(b.shape) and all(
        x == y for x, y in zip(a.shape, b.shape, strict=True) if isinstance(x, int) and isinstance(y, int)
    )
