"""dequantise: quantised weights become the floats that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ..ir import (
    Array,
    Constant,
    Graph,
    Module,
    Operator,
    Parameter,
    TensorData,
    TensorType,
    Value,
    numpy_dtype,
)
from ..ir.analysis.evaluation import evaluate
from ..ir.quantised_parts import is_part, weight_of
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
        Integers that a layer of a PyTorch model holds as a buffer become its weight, which trains, under
        the weight's own name.

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
            self._join_equal(part)
            for node in part.operators():
                found = self._dequantised(part, node)
                if found is None:
                    continue
                place, operands = places.of(part, node.key), part.operands(node.key)
                weight = _as_weight(part, node, found) if part is graph else None
                value = part.add_constant(found) if weight is None else weight
                part.replace_uses(Value(node.key), value)
                part.remove(node.key)
                _drop_idle(part, operands)
                type_ = part.known_type(value)
                text = (
                    f"stored numbers are dequantised: now a constant {type_}"
                    if weight is None
                    else f"stored numbers are dequantised: now a parameter {type_}"
                )
                changes.append(Change("DQ101", text, place=place))
        return changes

    def _join_equal(self, part: Graph) -> None:
        """Let one operator dequantise numbers that several do alike: a layer's at each step, say."""
        first: dict[object, int] = {}
        for node in part.operators():
            if self._dequantised(part, node) is None:
                continue
            key = tuple(part.operands(node.key)), tuple(sorted(node.attributes.items())), node.types[0]
            kept = first.setdefault(key, node.key)
            if kept != node.key:
                part.replace_uses(Value(node.key), Value(kept))
                part.remove(node.key)

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


def _as_weight(graph: Graph, node: Operator, found: TensorData) -> Value | None:
    """Return a layer's weight as a parameter that trains, in the place of its integers; None for others.

    Others are numbers of the root module, and those that something else reads too.
    """
    place = _holding(graph, node)
    if place is None:
        return None
    module, name = place
    held = graph.parameter(module.parameters[name])
    if replaced := _replaced(graph, node, found):
        owner, own = replaced
        old = graph.parameter(owner.parameters[own])
        weight = graph.add_parameter(Parameter(old.name, old.declared, found, role=old.role))
        graph.remove(old.key)
        del module.parameters[name]
        owner.parameters[own] = weight.node
        return weight
    own = weight_of(held.role) or name
    if "." not in held.name or (own != name and own in module.parameters):
        return None
    path = held.name.removesuffix(name) + own
    weight = graph.add_parameter(Parameter(path, path, found, role=own if held.role else ""))
    del module.parameters[name]
    module.parameters[own] = weight.node
    for key in list(module.parameters.values()):
        if is_part(graph.parameter(key).role, own) and not graph.is_read(Value(key)):
            graph.remove(key)
    bias = module.parameters.get("bias") if own == "weight" else None
    if bias is not None and graph.parameter(bias).data.dtype == found.dtype:
        graph.parameter(bias).is_buffer, graph.parameter(bias).trainable = False, True
    return weight


def _replaced(graph: Graph, node: Operator, found: TensorData) -> tuple[Module, str] | None:
    """Return the module whose weight integers have replaced, and its name there; nothing reads it any more.

    Integers that the root holds belong to the module that alone reads what they stand for.
    """
    calls = {graph.operator(user).call for user, _ in graph.users(Value(node.key))}
    call = calls.pop() if len(calls) == 1 else None
    if call is None:
        return None
    module = graph.modules.module(graph.modules.call(call).module)
    for name, key in module.parameters.items():
        old = graph.parameter(key)
        is_alike = old.data.dtype == found.dtype and old.data.shape == found.shape
        if is_alike and not (old.is_buffer or old.trainable or graph.is_read(Value(key))):
            return module, name
    return None


def _holding(graph: Graph, node: Operator) -> tuple[Module, str] | None:
    """Return the module that holds the integers of a DequantizeLinear alone as a buffer, and its name there.

    Integers in another form (of 4 bits, say) are a constant beside a buffer that nothing reads.
    """
    numbers = graph.operands(node.key)[0]
    source = None if numbers is None else graph.node(numbers.node)
    if numbers is None or len(graph.users(numbers)) != 1:
        return None
    if isinstance(source, Parameter) and source.is_buffer:
        held = [(m, n) for m in graph.modules for n, key in m.parameters.items() if key == numbers.node]
        return held[0] if len(held) == 1 else None
    if not isinstance(source, Constant) or node.call is None:
        return None
    module = graph.modules.module(graph.modules.call(node.call).module)
    for name, key in module.parameters.items():
        buffer = graph.parameter(key)
        unread = buffer.is_buffer and not graph.is_read(Value(key))
        if weight_of(buffer.role) and unread and buffer.data.shape == source.data.shape:
            return module, name
    return None


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
