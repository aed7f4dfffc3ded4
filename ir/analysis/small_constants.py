"""Computes what few constant numbers give while a graph is built: rules read shapes and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dims import Size
from ..graph import Graph
from ..nodes import Constant, Operator, Value
from ..tensors import TensorData
from ..types import Array, TensorType, numpy_dtype
from .evaluation import evaluate_all

_MOST = 64  # elements


def folded(
    graph: Graph, operator: Operator, operands: Sequence[Value | None], outputs: Sequence[Value]
) -> list[Value]:
    """Put constants in place of an operator of constants, and return them; else the operator's outputs."""
    if not operator.is_pure or operator.traits.dequantises or not operands:
        return list(outputs)
    results = _sizes(graph, operator, operands[0]) or _computed(graph, operator, operands, len(outputs))
    if results is None or len(results) != len(operator.types):
        return list(outputs)
    for known, result in zip(operator.types, results, strict=True):
        if result.size > _MOST or (known is not None and TensorData.of(result).dtype != known.dtype):
            return list(outputs)
    graph.remove(operator.key)
    return [graph.add_constant(result) for result in results]


def numbers(content: Sequence[Size | None], type_: TensorType | None) -> Array | None:
    """Return what a value holds as an array of its type; None where one of its elements is no number."""
    found = [size.number for size in content if size is not None and size.number is not None]
    if (
        type_ is None
        or not type_.is_static
        or not len(found) == len(content) == math.prod(type_.static_shape())
    ):
        return None
    return np.asarray(found, numpy_dtype(type_.dtype)).reshape(type_.static_shape())


def _computed(
    graph: Graph, operator: Operator, operands: Sequence[Value | None], outputs: int
) -> list[Array] | None:
    """Return the results of an operator on few constant numbers."""
    arrays: list[Array | None] = []
    for value in operands:
        array = _small(graph, value)
        if value is not None and array is None:
            return None
        arrays.append(array)
    return evaluate_all(operator, arrays, outputs)


def _small(graph: Graph, value: Value | None) -> Array | None:
    node = None if value is None else graph.node(value.node)
    if not isinstance(node, Constant) or node.data.load is None or math.prod(node.data.shape) > _MOST:
        return None
    return node.data.numpy()


def _sizes(graph: Graph, operator: Operator, value: Value | None) -> list[Array] | None:
    """Return the results of Shape and Size of a value, if all requested sizes are numbers."""
    known = None if value is None else graph.type_of(value)
    if operator.op_type not in ("Shape", "Size") or operator.domain or known is None or known.shape is None:
        return None
    asked = known.shape
    if operator.op_type == "Shape":
        end = operator.attributes.get("end")
        asked = asked[operator.int("start") : None if end is None else operator.int("end")]
    sizes = [size for size in asked if isinstance(size, int)]
    if len(sizes) < len(asked):
        return None
    return [np.asarray(math.prod(sizes) if operator.op_type == "Size" else sizes, np.int64)]
