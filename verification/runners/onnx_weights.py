"""Weights of an ONNX model beside it, so that its sessions share them and none copies them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import onnxruntime
from onnx import numpy_helper

from .onnx_slices import values_read

_SMALL = 1024
"""Bytes up to which a tensor stays in the model: sizes and axes, whose values decide shapes."""

_SHARED = frozenset(
    {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.DOUBLE,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.INT32,
        onnx.TensorProto.INT64,
    }
)
"""Element types that are shared: those that NumPy and ONNX Runtime have in common."""

Weights = Mapping[str, onnxruntime.OrtValue]
"""Name of an initializer -> its values; the arrays must live as long as the sessions."""


def split_weights(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Weights]:
    """Return a model whose larger initializers are placeholders, and the values of these.

    Args:
        model: it is not changed. One whose weights lie in files already is returned as it is.
    """
    graph, external = model.graph, onnx.TensorProto.EXTERNAL
    taken = {i.name for i in graph.input}
    read = {name for node in graph.node for name in values_read(node)}  # ONNX Runtime forgets the others
    shared = [
        t
        for t in graph.initializer
        if t.data_type in _SHARED and len(t.raw_data) > _SMALL and t.name in read - taken
    ]
    if not shared or any(t.data_location == external for t in graph.initializer):
        return model, {}
    light = onnx.ModelProto()
    _copy_fields(model, light, "graph")
    _copy_fields(graph, light.graph, "initializer")
    values = {t.name: onnxruntime.OrtValue.ortvalue_from_numpy(numpy_helper.to_array(t)) for t in shared}
    for tensor in graph.initializer:
        light.graph.initializer.append(_placeholder(tensor) if tensor.name in values else tensor)
    return light, values


def give_weights(options: onnxruntime.SessionOptions, model: onnx.ModelProto, weights: Weights) -> None:
    """Let a session take the values of a model's placeholders from `weights`."""
    external = onnx.TensorProto.EXTERNAL
    names = [t.name for t in model.graph.initializer if t.data_location == external and t.name in weights]
    if names:
        options.add_external_initializers(names, [weights[name] for name in names])


def _placeholder(tensor: onnx.TensorProto) -> onnx.TensorProto:
    found = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    found.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "in memory"), ("offset", "0"), ("length", str(len(tensor.raw_data)))):
        found.external_data.add(key=key, value=value)
    return found


def _copy_fields(source: Any, target: Any, without: str) -> None:
    """Copy a message, but for one field."""
    for field, value in source.ListFields():
        if field.name == without:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(target, field.name, value)
        elif hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        else:
            getattr(target, field.name).CopyFrom(value)
