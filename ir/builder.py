"""Builds a graph, operator by operator; each is checked against its signature and typed by its rule."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from .graph import Graph
from .inference import infer_types
from .nodes import Operator, Value
from .operators import signature
from .signatures import DOMAIN
from .types import Array, TensorType, is_array, is_sequence, merge_types, numpy_dtype


class Builder:
    """Adds operators to a graph, in the module call and source line that are current.

    Attributes:
        upcast: whether those that are added keep their element type; see `Operator`.

    Example:
        >>> from regraft.ir import Builder, Graph, TensorType
        >>> b = Builder(Graph())
        >>> x = b.graph.add_input("x", TensorType("float32", ("N", 3, 8, 8)))
        >>> b.graph.outputs.append(("y", b.op("GlobalAveragePool", x)))
        >>> print(b.graph)
        graph main {
          %x = input "x" : f32[N,3,8,8]
          %0 = GlobalAveragePool(%x) : f32[N,3,1,1]
          return "y" = %0
        }
        <BLANKLINE>
    """

    def __init__(self, graph: Graph, *, call: int | None = None, location: str = "") -> None:
        self.graph = graph
        self.call = call
        self.location: str = location
        self.upcast = False

    @contextmanager
    def inside(self, call: int | None, location: str | None = None) -> Generator[None]:
        """Make `call` (and `location`) current for the operators added in a with block."""
        before = self.call, self.location
        self.call = call
        self.location = before[1] if location is None else location
        try:
            yield
        finally:
            self.call, self.location = before

    def op(
        self,
        op_type: str,
        *operands: Value | None,
        types: Sequence[TensorType | None] | None = None,
        **attributes: object,
    ) -> Value:
        """Add an operator with one output and return it; see `ops`."""
        return self.ops(op_type, *operands, outputs=1, types=types, captures=(), **attributes)[0]

    def ops(
        self,
        op_type: str,
        *operands: Value | None,
        outputs: int = 1,
        types: Sequence[TensorType | None] | None = None,
        captures: Sequence[Value] = (),
        **attributes: object,
    ) -> list[Value]:
        """Add an operator with several outputs.

        Args:
            op_type: an ONNX operator (``Conv``) or a composite (``regraft.Linear``).
            operands: inputs by slot; None where an optional input is absent.
            outputs: number of outputs.
            types: the frontend's own types, authoritative; inference fills in what they leave open.
            captures: values that nested graphs capture.
            attributes: by ONNX's names; None leaves one out, a bool becomes 0 or 1.

        Returns:
            The outputs.

        Raises:
            InvalidGraphError: when arity, attributes or types do not fit the schema.
        """
        domain, _, name = op_type.rpartition(".")
        given = {k: _plain(v) for k, v in attributes.items() if v is not None}
        while operands and operands[-1] is None:
            operands = operands[:-1]
        operator = Operator(name, domain, given, call=self.call, location=self.location)
        operator.upcast = self.upcast
        inferred = infer_types(self.graph, operator, operands, outputs)
        operator.types = list(inferred)
        if types is not None:
            operator.types = [
                i if t is None else merge_types(t, i) for t, i in zip(types, inferred, strict=True)
            ]
        return self.graph.add_operator(operator, operands, captures)

    def constant(self, value: object, dtype: str | None = None) -> Value:
        """Add a constant from an array, a number or a list (floats become float32, else int64)."""
        if is_array(value):
            array: Array = value if dtype is None else value.astype(numpy_dtype(dtype))
        elif dtype is not None:
            array = np.asarray(value, numpy_dtype(dtype))
        else:
            array = np.asarray(value)
            if is_sequence(value) and not value:  # of axes or sizes
                array = array.astype(np.int64)
            array = array.astype({"f": np.float32, "i": np.int64, "b": np.bool_}[array.dtype.kind])
        return self.graph.add_constant(array)

    def scalar_like(self, value: float, like: Value) -> Value:
        """Add a 0-d constant of the element type of another value."""
        return self.constant(np.asarray(value, numpy_dtype(self.graph.known_type(like).dtype)))

    def type_of(self, value: Value) -> TensorType:
        """Return the type of a value, which must be known."""
        return self.graph.known_type(value)


def expand(builder: Builder, key: int) -> list[Value]:
    """Replace a composite by its expansion, in the same module call; returns the new outputs."""
    from .composites import composite

    graph = builder.graph
    operator = graph.operator(key)
    assert operator.domain == DOMAIN, operator
    with builder.inside(operator.call, operator.location):
        values = composite(operator.op_type).expand(builder, operator, graph.operands(key))
    replace_operator(graph, key, values)
    return values


def replace_operator(graph: Graph, key: int, values: Sequence[Value | None]) -> None:
    """Make what reads an operator's outputs read these values, of its types, and remove it.

    Args:
        graph: that has it.
        key: of the operator.
        values: one an output; None for one that nothing reads.
    """
    operator = graph.operator(key)
    for index, value in enumerate(values):
        if value is None:
            continue
        old = operator.types[index]
        producer = graph.node(value.node)
        if isinstance(producer, Operator) and old is not None:
            found = producer.types[value.output]
            producer.types[value.output] = old if found is None else merge_types(old, found)
        graph.replace_uses(Value(key, index), value)
    graph.remove(key)


def _plain(value: object) -> object:
    """Return an attribute value with Python's numbers and lists for NumPy's scalars, booleans and tuples."""
    if type(value) in (int, float, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, np.integer):
        return int(cast("np.integer[Any]", value))
    if isinstance(value, np.floating):
        return float(cast("np.floating[Any]", value))
    if is_sequence(value):
        return [_plain(v) for v in value]
    return value


__all__ = ["Builder", "expand", "replace_operator", "signature"]
