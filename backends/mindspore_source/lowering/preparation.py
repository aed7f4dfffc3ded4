"""What the graph is brought to before anything is written: forms that MindSpore's operators take."""

from __future__ import annotations

import numpy as np

from ....ir import Builder, Graph, Operator, Parameter, Value, expand, onnx_dtype
from ..emitters import can_emit
from ..emitters.activation import PRECISE
from .lower_conv_transpose import as_convolution
from .lower_resize import as_products

_MANY_SIGMOIDS = 80
"""From how many on their errors add up: of EfficientNets, B1 with 92 is 1e-4 off and B0 with 65 is 3e-5."""

_NAMED = 8
"""How many slices of a tensor are given names at once; more stay subscripts."""


_NARROW = {"ArgMin": 0, "TopK": 1}
"""Operator -> its output of places, which MindSpore's function gives as int32."""

_SELECTING = frozenset({"Gather", "GatherElements", "GatherND"})


def prepare(graph: Graph) -> None:
    """Bring a graph of the backend's own to the forms that its emitters know."""
    for parameter in graph.parameters():
        if 0 in parameter.data.shape:  # MindSpore's checkpoints lose a parameter without elements
            graph.replace_uses(Value(parameter.key), graph.add_constant(parameter.data))
    for node in graph.operators():
        if node.op_type == "PRelu":
            _fold_slope(graph, node)
        elif node.op_type in ("Gather", "GatherElements", "GatherND"):
            _count_from_front(graph, node)
        elif node.op_type == "Resize" and not can_emit(graph, node):
            as_products(graph, node)
        elif node.op_type == "ConvTranspose" and not can_emit(graph, node):
            as_convolution(graph, node)
        elif node.op_type == "Unique" and not can_emit(graph, node):
            _places_by_comparison(graph, node)
        elif node.op_type in _NARROW:
            _widen_places(graph, Value(node.key, _NARROW[node.op_type]))
    _unstack(graph)
    _make_precise(graph)
    graph.remove_dead()


def _widen_places(graph: Graph, places: Value) -> None:
    """Make places int64 that MindSpore gives as int32, but where they only select or are cast anyway."""
    users = [
        (key, slot, node)
        for key, slot in graph.users(places)
        if isinstance(node := graph.node(key), Operator)
    ]
    selects = [
        node.op_type == "Cast" or (node.op_type in _SELECTING and slot == 1) for _, slot, node in users
    ]
    if not graph.is_output(places) and all(selects):
        return
    node = graph.node(places.node)
    assert isinstance(node, Operator)
    b = Builder(graph)
    with b.inside(node.call, node.location):
        wide = b.op("Cast", places, to=onnx_dtype("int64"))
    graph.replace_uses(places, wide, except_in=[wide.node])


def _places_by_comparison(graph: Graph, node: Operator) -> None:
    """Where each value of Unique was first, went to and how often it was: from all pairs of equal values.

    MindSpore's own function numbers the values in the order in which they occur, not sorted.
    """
    (data,) = graph.operands(node.key)
    if data is None or node.attributes.get("axis") is not None:
        return
    b = Builder(graph)
    with b.inside(node.call, node.location):
        flat = b.op("Reshape", data, b.constant([-1]))
        values = b.op("Unique", flat, sorted=1, types=[node.types[0]])
        equal = b.op("Equal", b.op("Unsqueeze", flat, b.constant([-1])), values)
        ones = b.op("Cast", equal, to=onnx_dtype("int32"))
        found = [
            values,
            b.op("ArgMax", ones, axis=0, keepdims=0),
            b.op("ArgMax", ones, axis=1, keepdims=0),
            b.op("ReduceSum", b.op("Cast", equal, to=onnx_dtype("int64")), b.constant([0]), keepdims=0),
        ]
    for index in range(len(node.types)):
        graph.replace_uses(Value(node.key, index), found[index])


def _make_precise(graph: Graph) -> None:
    """Mark what MindSpore's CPU kernels are too coarse for.

    Tanh is 1e-4 off near 5; sigmoid, that of Swish too, 8e-7 near zero, which matters in a deep net. A net
    that was MindSpore's has been computed with its kernels all along.
    """
    if graph.origin.framework == "mindspore":
        return
    coarse = _in_single(graph, "Tanh")
    sigmoids = _in_single(graph, "Sigmoid", "regraft.Swish")
    if len(sigmoids) > _MANY_SIGMOIDS:
        for node in sigmoids:
            if node.op_type == "Swish":
                expand(Builder(graph), node.key)
        coarse += _in_single(graph, "Sigmoid")
    for node in coarse:
        node.attributes[PRECISE] = 1


def _in_single(graph: Graph, *kinds: str) -> list[Operator]:
    """The operators of these kinds whose results are float32."""
    found = [n for n in graph.operators() if n.qualified_name in kinds]
    return [n for n in found if (t := n.types[0]) is not None and t.dtype == "float32"]


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


def _unstack(graph: Graph) -> None:
    """``q, k, v = ops.unstack(x)`` where a call takes every slice along an axis once, one by one."""
    slices: dict[tuple[Value, int, int | None], dict[int, Operator]] = {}
    for node in graph.operators():
        if node.qualified_name != "Gather":
            continue
        data, at = graph.operands(node.key)[:2]
        index = graph.constant_value(at)
        known = None if data is None else graph.type_of(data)
        if index is None or index.ndim or known is None or known.shape is None:
            continue
        axis = node.int("axis") % len(known.shape)
        size = known.shape[axis]
        if data is not None and isinstance(size, int) and len(known.shape) > 1:
            slices.setdefault((data, axis, node.call), {})[int(index) % size] = node
    for (data, axis, _), found in slices.items():
        shape = graph.known_type(data).shape
        if shape is not None and shape[axis] == len(found) and 1 < len(found) <= _NAMED:
            _take_apart(graph, data, axis, [found[i] for i in range(len(found))])


def _take_apart(graph: Graph, data: Value, axis: int, slices: list[Operator]) -> None:
    b = Builder(graph)
    with b.inside(slices[0].call, slices[0].location):
        types = [graph.known_type(Value(s.key)) for s in slices]
        parts = b.ops("regraft.Unstack", data, outputs=len(slices), types=types, axis=axis)
    for old, new in zip(slices, parts, strict=True):
        graph.replace_uses(Value(old.key), new)
