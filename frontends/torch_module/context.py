"""The shared context of a program's lowerings: the graph, symbolic sizes and the values that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir import Builder, Graph, Operator, Parameter, Value, onnx_dtype
from .symbols import Size, Symbols, compute, number_of_data

if TYPE_CHECKING:
    import torch

Result = Any
"""The content of an fx node: a `Value`, a `Size`, None, a Python scalar, or a list of these."""


class Context:
    """State of one lowering run.

    Attributes:
        graph: the graph being built.
        b: its builder.
        symbols: names of symbolic sizes.
        inputs: graph inputs by name.
        ones: symbolic sizes that are 1 in the example.
        notes: what a reader of the result should know.
        restated: stored numbers in another form, by graph, node, element type and shape.
    """

    def __init__(self, graph: Graph, symbols: Symbols) -> None:
        self.graph = graph
        self.b = Builder(graph)
        self.symbols = symbols
        self.inputs: dict[str, Value] = {}
        self.ones: set[Size] = set()
        self.notes: list[str] = []
        self.restated: dict[tuple[int, int, str, tuple[int, ...]], Value] = {}
        self._trains: dict[int, bool] = {}
        self._holders: dict[int | None, dict[Size, tuple[Value, int]]] = {}
        self._counts: dict[Size, Value] = {}
        self._of_data: dict[Size, tuple[Value, int]] = {}

    def note_sizes(self, value: Value, fake: torch.Tensor) -> None:
        """Remember which symbolic sizes a value of the current module call carries."""
        held = self._holders.setdefault(self._here(), {})
        for axis, size in enumerate(fake.shape):
            found = self.symbols.size(size)
            if not isinstance(found, int):
                held[found] = (value, axis)
                if found.is_Symbol and found not in self.symbols.carriers:
                    self._of_data.setdefault(found, (value, axis))

    def shape_value(self, sizes: Sequence[Size]) -> Value:
        """Return sizes as an int64 vector: a constant if all are static, else from values at hand."""
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

    def size_value(self, size: Size, dtype: str = "int64") -> Value:
        """Return a size as a 0-d value."""
        if isinstance(size, int):
            return self.b.constant(size, dtype)
        value = self.b.op("Squeeze", self._computed(size), self.b.constant([0]))
        return value if dtype == "int64" else self.b.op("Cast", value, to=onnx_dtype(dtype))

    def stop_gradient(self, value: Value) -> Value:
        """Return the value without a gradient to its sources; itself if none of them is trained."""
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
        """Return the parameter that a value is, or None."""
        return value.node if isinstance(self.graph.node(value.node), Parameter) else None

    def _here(self) -> int | None:
        """Return the module call whose values are at hand."""
        return self.b.call

    def note_number(self, value: Value, number: object) -> None:
        """Remember the value that a number of the program was read from, which sizes may be made of."""
        import sympy

        symbol = self.symbols.number(number)
        if isinstance(symbol, sympy.Symbol):
            one = self.b.op("Reshape", value, self.b.constant([1]))
            kept = "int64" if symbol.is_integer else "float64"
            same = self.graph.known_type(value).dtype == kept
            self._counts[symbol] = one if same else self.b.op("Cast", one, to=onnx_dtype(kept))

    def _elsewhere(self, size: Size) -> Value:
        """Return a symbol that no value of the current call carries, as a one-element vector."""
        if size in self._counts:
            return self._counts[size]
        if size in self._of_data:
            value, axis = self._of_data[size]
            return self.b.op("Shape", value, start=axis, end=axis + 1)
        if size not in self.symbols.carriers:
            raise number_of_data()
        name, axis = self.symbols.carriers[size]
        return self.b.op("Shape", self.inputs[name], start=axis, end=axis + 1)

    def _computed(self, size: Size) -> Value:
        if not hasattr(size, "free_symbols"):
            raise number_of_data()
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
