"""Widens the element types of an ONNX model that ONNX Runtime has no kernels for on the CPU."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from .widening import widen_array

NARROW = (onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16)
_TYPES = frozenset({"to", "dtype", "stash_type", "output_dtype"})
"""Attributes whose numbers are element types."""


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model in float32 where it is narrower; its initializers stay, see `widen_array`."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    _widen_values(new.graph)
    for function in new.functions:
        for node in function.node:
            _widen_node(node)
    return new


def _widen_values(graph: onnx.GraphProto) -> None:
    for info in (*graph.value_info, *graph.input, *graph.output):
        _widen_type(info.type)
    for node in graph.node:
        _widen_node(node)


def _widen_type(type_: onnx.TypeProto) -> None:
    which = type_.WhichOneof("value")
    if which == "tensor_type" and type_.tensor_type.elem_type in NARROW:
        type_.tensor_type.elem_type = onnx.TensorProto.FLOAT
    elif which in ("sequence_type", "optional_type"):
        _widen_type(getattr(type_, which).elem_type)


def _widen_node(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            _widen_values(attribute.g)
            for tensor in attribute.g.initializer:
                _widen_tensor(tensor)
        elif attribute.type == onnx.AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.name in _TYPES and attribute.i in NARROW:
            attribute.i = onnx.TensorProto.FLOAT


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in NARROW:
        tensor.CopyFrom(numpy_helper.from_array(widen_array(numpy_helper.to_array(tensor)), tensor.name))
