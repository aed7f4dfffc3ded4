"""Computes what few constant numbers give while a file is read: rules read shapes and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir import Array, Constant, Graph, Operator, TensorData, TensorType, Value, numpy_dtype
from ...ir.analysis.evaluation import evaluate
from ...ir.dims import Size

_MOST = 64  # elements


def folded(graph: Graph, operator: Operator, operands: Sequence[Value | None], output: Value) -> Value:
    """Put a constant in place of an operator of constants, and return it; else the operator's output."""
    if len(operator.types) > 1 or not operator.is_pure or not operands:
        return output
    result = _sizes(graph, operator, operands[0])
    if result is None:
        arrays: list[Array | None] = []
        for value in operands:
            array = _small(graph, value)
            if value is not None and array is None:
                return output
            arrays.append(array)
        result = evaluate(operator, arrays)
    known = operator.types[0]
    if result is None or result.size > _MOST:
        return output
    if known is not None and TensorData.of(result).dtype != known.dtype:
        return output
    graph.remove(output.node)
    return graph.add_constant(result)


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


def _small(graph: Graph, value: Value | None) -> Array | None:
    node = None if value is None else graph.node(value.node)
    if not isinstance(node, Constant) or node.data.load is None or math.prod(node.data.shape) > _MOST:
        return None
    return node.data.numpy()


def _sizes(graph: Graph, operator: Operator, value: Value | None) -> Array | None:
    """What Shape and Size give of a value whose shape is all numbers."""
    known = None if value is None else graph.type_of(value)
    if operator.op_type not in ("Shape", "Size") or known is None or not known.is_static:
        return None
    shape = known.static_shape()
    if operator.op_type == "Size":
        return np.asarray(math.prod(shape), np.int64)
    end = operator.attributes.get("end")
    return np.asarray(shape[operator.int("start") : None if end is None else operator.int("end")], np.int64)
