"""dequantise: quantised weights become the floats that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ..ir import Array, Constant, Graph, Operator, Parameter, TensorData, TensorType, Value, numpy_dtype
from ..ir.analysis.evaluation import evaluate
from ..ir.types import STORED_DTYPES
from .base import Change, Pass
from .eliminate_identities import drop_idle_constants
from .places import Places


@dataclass(frozen=True)
class Dequantise(Pass):
    """Replace each DequantizeLinear of stored numbers by its result.

    What it does:
        Puts a constant of floats in the place of a DequantizeLinear whose operands are all constants or
        parameters of the file: a layer's weights and biases. The floats are computed when they are written.

    Why:
        A runtime without quantised layers computes the same floats anew in every run.

    Leaves alone:
        A DequantizeLinear of what the model computes, and what reads it. In a quantised file the floats take
        four times the space, and ONNX Runtime quantises them again, with scales of its own: no pipeline
        runs the pass unless it is asked for.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,2]
        ...   %0 = const [[1, 2], [3, 4]] : i8[2,2]
        ...   %1 = const 0.5 : f32[]
        ...   %2 = DequantizeLinear(%0, %1) : f32[2,2]
        ...   %y = MatMul(%x, %2) : f32[N,2]
        ...   return "y" = %y
        ... }''')
        >>> for change in Dequantise().run(graph):
        ...     print(change)
        DQ101 stored numbers are dequantised: now a constant f32[2,2] - at `DequantizeLinear`

    Attributes:
        limit: number of elements up to which numbers are dequantised, but for those of the types that only
            quantised files store; 0 for no limit.
    """

    name: ClassVar[str] = "dequantise"
    codes: ClassVar[dict[str, str]] = {"DQ101": "quantised numbers that the file stores are dequantised"}
    needs_dataflow: ClassVar[bool] = True

    limit: int = 0

    def run(self, graph: Graph) -> list[Change]:
        """Dequantise; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            for node in part.operators():
                found = self._dequantised(part, node)
                if found is None:
                    continue
                place, operands = places.of(part, node.key), part.operands(node.key)
                constant = part.add_constant(found)
                part.replace_uses(Value(node.key), constant)
                part.remove(node.key)
                _drop_idle(part, operands)
                type_ = part.known_type(constant)
                text = f"stored numbers are dequantised: now a constant {type_}"
                changes.append(Change("DQ101", text, place=place))
        return changes

    def _dequantised(self, part: Graph, node: Operator) -> TensorData | None:
        """Return the result of a DequantizeLinear of stored numbers; None for any other operator."""
        if node.qualified_name != "DequantizeLinear":
            return None
        operands = part.operands(node.key)
        stored = [None if v is None else _stored(part, v) for v in operands]
        if any(d is None and v is not None for d, v in zip(stored, operands, strict=True)):
            return None
        numbers, known = stored[0], node.types[0]
        if numbers is None or known is None or not known.is_static:
            return None
        elements = known.static_shape()
        if self.limit and numbers.dtype not in STORED_DTYPES and prod(elements) > self.limit:
            return None
        return TensorData(known.dtype, elements, lambda: _computed(node, known, stored))


def _drop_idle(part: Graph, operands: Sequence[Value | None]) -> None:
    """Remove the numbers that nothing uses any more."""
    drop_idle_constants(part, operands)
    for key in dict.fromkeys(v.node for v in operands if v is not None and v.node in part):
        if isinstance(part.node(key), Parameter) and not part.is_read(Value(key)):
            part.remove(key)


def _stored(part: Graph, value: Value) -> TensorData | None:
    """Return the numbers that a constant or a parameter holds, where they are there."""
    node = part.node(value.node)
    if value.node in part.updates:
        return None
    return node.data if isinstance(node, (Constant, Parameter)) and node.data.load is not None else None


def _computed(node: Operator, known: TensorType, stored: list[TensorData | None]) -> Array:
    found = evaluate(node, [None if data is None else data.numpy() for data in stored])
    assert found is not None, known
    return found.astype(numpy_dtype(known.dtype), copy=False)
