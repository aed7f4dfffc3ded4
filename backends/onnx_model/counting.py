"""Counts the operators in an ONNX file, whose weights are passed over and never read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ...ir import ModelError
from ...ir.outside.mapped import MappedFile
from ...ir.outside.onnx_functions import function_counts
from ...ir.outside.protobuf import BYTES, Field, fields

_MODEL_GRAPH, _MODEL_FUNCTION, _GRAPH_NODE = 7, 25, 1
"""Numbers of fields in onnx.proto, which never change."""


@dataclass(frozen=True, slots=True)
class FunctionCounts:
    """The nodes of a file whose classes of modules are functions.

    Attributes:
        operators: operators that a run applies, those of a function in each of its calls.
        graph: nodes of the graph.
        nodes: nodes of the graph and of the bodies.
        functions: the functions.
        calls: how often a run calls them.
        bytes: size of the file.
    """

    operators: int
    graph: int
    nodes: int
    functions: int
    calls: int
    bytes: int


def count_nodes(path: Path) -> Counter[str]:
    """Return operator -> how often it is applied: nested graphs once, functions for each of their calls.

    Constants in functions, which are initializers elsewhere, are left out, and so are calls.

    Raises:
        ModelError: when the file cannot be read.
    """
    model = _structure(path)
    found = _count(model.graph.node)
    functions = list(function_counts(model))
    for function, times in functions:
        for name, count in _count(function.node).items():
            found[name] += count * times if name != "Constant" else 0
    called = {f"{function.domain}.{function.name}" for function, _ in functions}
    return Counter({name: count for name, count in found.items() if count and name not in called})


def count_functions(path: Path) -> FunctionCounts:
    """Count the functions of a file that are classes of modules, and the nodes of the file.

    Raises:
        ModelError: when the file cannot be read.
    """
    model = _structure(path)
    functions = list(function_counts(model))
    return FunctionCounts(
        count_nodes(path).total(),
        len(model.graph.node),
        len(model.graph.node) + sum(len(function.node) for function, _ in functions),
        len(functions),
        sum(times for _, times in functions),
        path.stat().st_size,
    )


def _structure(path: Path) -> onnx.ModelProto:
    """Return the nodes and the functions of a file."""
    file = MappedFile(path, "an ONNX model")
    model = onnx.ModelProto()
    try:
        for field in _parts(file):
            raw = file.view[field.start : field.end]
            if field.number == _MODEL_FUNCTION:
                model.functions.append(onnx.FunctionProto.FromString(raw))
            else:
                model.graph.node.append(onnx.NodeProto.FromString(raw))
    except DecodeError as error:
        raise ModelError("E101", f"cannot read the ONNX model: {error}", place=str(path)) from error
    return model


def _count(nodes: Iterable[onnx.NodeProto]) -> Counter[str]:
    """Return operator -> how many nodes apply it."""
    found: Counter[str] = Counter()
    graphs = [onnx.GraphProto(node=nodes)]
    while graphs:
        for node in graphs.pop().node:
            found[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
    return found


def _parts(file: MappedFile) -> Iterator[Field]:
    """Yield where each node of the graph is, and each function."""
    for field in fields(file, 0, file.size):
        if (field.number, field.wire) == (_MODEL_FUNCTION, BYTES):
            yield field
        elif (field.number, field.wire) == (_MODEL_GRAPH, BYTES):
            for node in fields(file, field.start, field.end):
                if (node.number, node.wire) == (_GRAPH_NODE, BYTES):
                    yield node
