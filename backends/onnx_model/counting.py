"""Counts the operators in an ONNX file, whose weights are passed over and never read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ...ir import ModelError
from ...ir.outside.mapped import MappedFile
from ...ir.outside.protobuf import BYTES, Field, fields

_MODEL_GRAPH, _GRAPH_NODE = 7, 1
"""Numbers of fields in onnx.proto, which never change."""


def count_nodes(path: Path) -> Counter[str]:
    """Return operator -> how many nodes of a file apply it, those of nested graphs included.

    Raises:
        ModelError: when the file cannot be read.
    """
    file = MappedFile(path, "an ONNX model")
    try:
        nodes = [onnx.NodeProto.FromString(file.view[node.start : node.end]) for node in _nodes(file)]
    except DecodeError as error:
        raise ModelError("E101", f"cannot read the ONNX model: {error}", place=str(path)) from error
    found: Counter[str] = Counter()
    graphs = [onnx.GraphProto(node=nodes)]
    while graphs:
        for node in graphs.pop().node:
            found[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
    return found


def _nodes(file: MappedFile) -> Iterator[Field]:
    """Yield where each node of the graph is."""
    for field in fields(file, 0, file.size):
        if (field.number, field.wire) == (_MODEL_GRAPH, BYTES):
            for node in fields(file, field.start, field.end):
                if (node.number, node.wire) == (_GRAPH_NODE, BYTES):
                    yield node
