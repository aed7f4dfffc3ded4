"""What the graph is brought to before anything is written: forms that MindSpore's operators take."""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Operator, Parameter, Value
from .families import can_emit
from .resampling import as_products


def prepare(graph: Graph) -> None:
    """Bring a graph of the backend's own to the forms that its emitters know."""
    for node in graph.operators():
        if node.op_type == "PRelu":
            _fold_slope(graph, node)
        elif node.op_type in ("Gather", "GatherElements", "GatherND"):
            _count_from_front(graph, node)
        elif node.op_type == "Resize" and not can_emit(graph, node):
            as_products(graph, node)
    graph.remove_dead()


def _fold_slope(graph: Graph, node: Operator) -> None:
    """PRelu's slope as the parameter itself: ONNX wants (C, 1, 1), MindSpore's layer wants (C)."""
    slope = graph.operands(node.key)[1]
    assert slope is not None
    shaping = graph.node(slope.node)
    if isinstance(shaping, Operator) and shaping.op_type in ("Reshape", "Unsqueeze"):
        source = graph.operands(shaping.key)[0]
        if source is not None and isinstance(graph.node(source.node), Parameter):
            graph.set_operand(node.key, 1, source)


def _count_from_front(graph: Graph, node: Operator) -> None:
    """Constant indices below zero count from the end in ONNX; MindSpore's kernels give zeros for them."""
    data, at = graph.operands(node.key)[:2]
    indices = graph.constant_value(at)
    found = None if data is None else graph.type_of(data)
    if indices is None or not indices.ndim or not (indices < 0).any() or found is None or found.shape is None:
        return
    if node.op_type == "GatherND":
        first = node.int("batch_dims")
        sizes = found.shape[first : first + indices.shape[-1]]
    else:
        sizes = (found.shape[node.int("axis")],)
    if all(isinstance(s, int) for s in sizes):
        limits = np.array(sizes, indices.dtype)
        counted: Value = graph.add_constant(np.where(indices < 0, indices + limits, indices))
        graph.set_operand(node.key, 1, counted)
