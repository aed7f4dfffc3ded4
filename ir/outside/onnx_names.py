"""Checks the names in an ONNX model: protobuf lets any bytes through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from ..errors import ModelError
from .names import require_name


def require_names(model: onnx.ModelProto, place: str) -> None:
    """Check every name in a model: protobuf lets any bytes through.

    Raises:
        ModelError: E101 for a name that is no UTF-8, or has control characters.
    """
    for name in _names(model):
        if not isinstance(name, str):
            raise ModelError("E101", f"expected names in UTF-8, got {name!r}", place=place)
        require_name(name, "a name", place)


def _names(model: onnx.ModelProto) -> Iterator[object]:
    yield from (entry.key for entry in model.metadata_props)
    yield from (entry.domain for entry in model.opset_import)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
    graphs: list[Any] = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        if isinstance(graph, onnx.GraphProto):
            for value in (*graph.input, *graph.output, *graph.value_info):
                yield value.name
                yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
            yield from (tensor.name for tensor in graph.initializer)
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            for attribute in node.attribute:
                yield from (attribute.name, attribute.ref_attr_name)
                if attribute.type == onnx.AttributeProto.GRAPH:
                    graphs.append(attribute.g)
                graphs.extend(attribute.graphs)
