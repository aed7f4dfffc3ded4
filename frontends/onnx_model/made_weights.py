"""Weights that a file makes by ConstantOfShape, of one number each, as the light models of ONNX's zoo do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod

import numpy as np
import onnx

from ...ir import TensorData
from ...ir.types import dtype_name
from .scales import find_scales
from .scopes import SLOTS

_MOST_AXES = 8


def find_made_weights(
    graph: onnx.GraphProto, stored: Mapping[str, TensorData], most: int
) -> dict[str, TensorData]:
    """Return name -> tensor of the weights of layers that a ConstantOfShape of a stored shape makes.

    Args:
        graph: of the file.
        stored: its initializers.
        most: elements that all of them may have together; with more, none is found.
    """
    read = {
        name
        for node in graph.node
        for name, role in zip(node.input, SLOTS.get(node.op_type, ()), strict=False)
        if role
    }
    makers = {node.output[0] for node in graph.node if node.op_type == "ConstantOfShape" and node.output}
    read |= {name for scale in find_scales(graph, makers) for name in (scale.weight, scale.bias)}
    found: dict[str, TensorData] = {}
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or len(node.input) != 1 or len(node.output) != 1:
            continue
        if node.output[0] in read and node.output[0] not in stored:
            made = _make(node, stored.get(node.input[0]))
            if made is not None:
                found[node.output[0]] = made
    return found if sum(prod(data.shape) for data in found.values()) <= most else {}


def _make(node: onnx.NodeProto, shape: TensorData | None) -> TensorData | None:
    """Return the tensor of a node; None where it is no layer's weight, or not known before a run."""
    if shape is None or shape.dtype != "int64" or len(shape.shape) != 1 or shape.shape[0] > _MOST_AXES:
        return None
    sizes = tuple(int(size) for size in shape.numpy())
    value = next((a.t for a in node.attribute if a.name == "value"), None)
    fill = np.zeros(1, np.float32) if value is None else onnx.numpy_helper.to_array(value)
    if not sizes or min(sizes) < 1 or fill.size != 1 or fill.dtype.kind != "f":
        return None
    load = partial(np.full, sizes, fill.reshape(-1)[0], fill.dtype)
    return TensorData(dtype_name(fill.dtype), sizes, load, node.output[0])
