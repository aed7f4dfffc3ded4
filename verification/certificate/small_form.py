"""Writes a graph in the small form of a certificate: a list of ONNX operators, their values by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from ...backends.expand_functions import ExpandFunctions
from ...ir import (
    DOMAIN,
    Builder,
    Constant,
    Graph,
    Operator,
    Parameter,
    TensorData,
    TensorType,
    Value,
    walk_operators,
)
from ...ir import expand as expand_composite
from ...ir.nodes import Nested
from .recheck import OPS
from .tensor_table import TensorTable

_STUB = "Stub"
_SPATIAL = ("strides", "dilations", "pads")


def reduce_to_known(graph: Graph) -> Graph:
    """Return a copy of a graph in operators that the checker knows, as far as definitions lead to them.

    Composites are expanded, and operators that the checker does not know become the bodies that ONNX states.
    """
    new = graph.copy()
    while pending := [
        (part, node) for part, node in walk_operators(new) if node.domain == DOMAIN and node.op_type != _STUB
    ]:
        for part, node in pending:
            expand_composite(Builder(part), node.key)
    ExpandFunctions("the checker", lambda _, node: node.op_type in OPS).run(new)
    for part in new.subgraphs():
        part.remove_dead()
    return new


def write_graph(graph: Graph, tensors: TensorTable) -> dict[str, Any]:
    """Return the small form of a graph that `reduce_to_known` gave; its tensors go into the table."""
    calls = graph.modules.call_names()
    out = _write_part(graph, tensors, calls)
    out["calls"] = {
        calls[call.key]: "" if call.parent is None else calls[call.parent] for call in graph.modules.calls()
    }
    return out


def input_shapes(graph: Graph) -> list[list[int | str]]:
    """Return the shape of each input, with a name of its own for an axis without one."""
    return [
        [f"axis {axis} of {node.name}" if d is None else d for axis, d in enumerate(node.type.shape or ())]
        for node in graph.input_nodes()
    ]


def _name(value: Value) -> str:
    return f"v{value.node}.{value.output}" if value.output else f"v{value.node}"


def _write_part(graph: Graph, tensors: TensorTable, calls: dict[int, str]) -> dict[str, Any]:
    """Return the form of a root graph or a nested one."""
    constants: dict[str, str] = {}
    nodes: list[dict[str, Any]] = []
    needed = _needed(graph)
    for key in graph.order():
        node = graph.node(key)
        if key not in needed:
            continue
        if isinstance(node, (Constant, Parameter)):
            constants[_name(Value(key))] = tensors.add(node.data)
        elif isinstance(node, Operator):
            nodes.append(write_operator(graph, node, tensors, calls))
    shapes = input_shapes(graph)
    return {
        "inputs": [
            {"name": node.name, "value": _name(Value(node.key)), "dtype": node.type.dtype, "shape": shape}
            for node, shape in zip(graph.input_nodes(), shapes, strict=True)
        ],
        "captures": [_name(Value(key)) for key in graph.captures],
        "constants": constants,
        "nodes": nodes,
        "outputs": [{"name": name, "value": _name(value)} for name, value in graph.outputs],
    }


def _needed(graph: Graph) -> set[int]:
    """Return the keys of the nodes that an output needs."""
    found: set[int] = set()
    stack = [value.node for _, value in graph.outputs]
    while stack:
        key = stack.pop()
        if key not in found:
            found.add(key)
            stack.extend(source for _, source, _ in graph.flow.operands(key))
    return found


def write_operator(
    graph: Graph, node: Operator, tensors: TensorTable, calls: dict[int, str]
) -> dict[str, Any]:
    """Return the row of one operator."""
    row: dict[str, Any] = {
        "op": node.qualified_name,
        "in": ["" if value is None else _name(value) for value in graph.operands(node.key)],
        "out": [_name(Value(node.key, i)) for i in range(len(node.types))],
    }
    attributes = {
        name: _write_attribute(value, tensors, calls)
        for name, value in sorted(_attributes(graph, node).items())
    }
    if attributes:
        row["attributes"] = attributes
    if node.call is not None and node.call in calls:
        row["call"] = calls[node.call]
    if node.location:
        row["at"] = node.location[:1000]
    if node.op_type not in OPS:
        row["types"] = [_write_type(t) for t in node.types]
    if captured := graph.captured(node.key):
        row["captures"] = [_name(value) for value in captured]
    return row


def _attributes(graph: Graph, node: Operator) -> dict[str, object]:
    """Return an operator's attributes, with the defaults of those left out: equal operators look alike."""
    signature = node.signature
    found = {
        name: node.attributes.get(name, spec.default)
        for name, spec in signature.attributes.items()
        if node.attributes.get(name, spec.default) is not None
    }
    if "auto_pad" in signature.attributes and found.get("auto_pad") == "NOTSET":
        operand = graph.operands(node.key)[0]
        rank = None if operand is None else (graph.type_of(operand) or TensorType("float32", None)).rank
        if rank is not None:
            found.update({n: node.spatial(n, rank - 2) for n in _SPATIAL if n in signature.attributes})
    if node.op_type in ("Conv", "ConvTranspose"):  # the weight has it
        found.pop("kernel_shape", None)
    return found


def _write_attribute(value: object, tensors: TensorTable, calls: dict[int, str]) -> object:
    if isinstance(value, Nested):
        return {"graph": _write_part(cast("Graph", value), tensors, calls)}
    if isinstance(value, TensorData):
        return {"tensor": tensors.add(value)}
    if isinstance(value, np.ndarray):
        return {"tensor": tensors.add(TensorData.of(value))}
    if isinstance(value, (list, tuple)):
        return [_number(v) for v in cast("Iterable[object]", value)]
    return _number(value)


def _number(value: object) -> object:
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, float):  # as float32 has it, which is what ONNX holds
        return float(np.float32(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def _write_type(type_: TensorType | None) -> object:
    return None if type_ is None or type_.shape is None else [type_.dtype, list(type_.shape)]
