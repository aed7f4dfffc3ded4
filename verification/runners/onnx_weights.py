"""Weights of an ONNX model beside it, so that its sessions share them and none copies them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from ...backends.onnx_model.lowering import EXPRESSING
from ...backends.onnx_model.model import emit_model, lower_graph, used_parameters
from ...backends.onnx_model.streaming import is_external
from ...ir import Graph
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
        size = len(tensor.raw_data)
        light.graph.initializer.append(_placeholder(tensor, size) if tensor.name in values else tensor)
    return light, values


def split_graph(graph: Graph) -> tuple[onnx.ModelProto, Weights]:
    """Return the model of a graph with placeholders for larger parameters, and the values of these.

    The values stay where the graph has them: in the memory of a live model, of which no copy is made.
    """
    legal = lower_graph(graph, EXPRESSING)
    model = emit_model(legal, data=False)
    data = {p.name: p.data for p in used_parameters(legal)}
    values: dict[str, onnxruntime.OrtValue] = {}
    left = [t for t in model.graph.initializer if not is_external(t)]
    for tensor in filter(is_external, model.graph.initializer):
        array = np.ascontiguousarray(data[tensor.name].numpy()).reshape(data[tensor.name].shape)
        if tensor.data_type in _SHARED and array.nbytes > _SMALL:
            values[tensor.name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
            left.append(_placeholder(tensor, array.nbytes))
        else:
            left.append(numpy_helper.from_array(array, tensor.name))
    del model.graph.initializer[:]
    model.graph.initializer.extend(left)
    return model, values


def values_of(tensor: onnx.TensorProto, weights: Weights, folder: Path | None) -> np.ndarray:
    """Return the values of an initializer: its own, those in `weights`, or those in a file of a folder."""
    if tensor.name in weights:
        found: np.ndarray = weights[tensor.name].numpy()
        return found
    return numpy_helper.to_array(tensor, "" if folder is None else str(folder.resolve()))


def give_weights(options: onnxruntime.SessionOptions, model: onnx.ModelProto, weights: Weights) -> None:
    """Let a session take the values of a model's placeholders from `weights`."""
    external = onnx.TensorProto.EXTERNAL
    names = [t.name for t in model.graph.initializer if t.data_location == external and t.name in weights]
    if names:
        options.add_external_initializers(names, [weights[name] for name in names])


def _placeholder(tensor: onnx.TensorProto, size: int) -> onnx.TensorProto:
    """Return an initializer of the same type, whose values of `size` bytes a session is given."""
    found = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    found.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "in memory"), ("offset", "0"), ("length", str(size))):
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
