"""AdaptiveAveragePool: averages over windows chosen so that the output has a given size."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BackendError
from ..operators import AttributeSpec
from ..types import TensorType
from .base import CompositeTable

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x, size = types[0], operator.ints("output_size")
    if x is None or x.shape is None:
        return [x]
    lead = len(x.shape) - len(size)
    return [x.with_shape((*x.shape[:lead], *size))]


def averaging_matrix(size: int, output: int) -> np.ndarray:
    """The (output, size) matrix of adaptive averaging along one axis.

    Window i covers [floor(i*size/output), ceil((i+1)*size/output)), the rule of torch, MindSpore and MXNet.
    """
    matrix = np.zeros((output, size), np.float64)
    for i in range(output):
        start, stop = i * size // output, ceil((i + 1) * size / output)
        matrix[i, start:stop] = 1.0 / (stop - start)
    return matrix


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, output = operands[0], operator.ints("output_size")
    assert x is not None
    if all(size == 1 for size in output):
        return [b.op("GlobalAveragePool", x)]
    type_ = b.graph.known_type(x)
    spatial = (type_.shape or ())[-len(output) :]
    sizes = [d for d in spatial if isinstance(d, int)]
    if len(sizes) != len(output):
        raise BackendError(
            "E602",
            f"expected static spatial dimensions for an adaptive pool to {output}, got `{type_}`",
            place=b.graph.describe(operator.key) if operator.key >= 0 else operator.op_type,
            hint="give the size with --input, or drop --dynamic for the spatial axes",
        )
    if all(size % out == 0 for size, out in zip(sizes, output, strict=True)):
        window = [size // out for size, out in zip(sizes, output, strict=True)]
        return [b.op("AveragePool", x, kernel_shape=window, strides=window)]
    for axis, (size, out) in enumerate(zip(sizes, output, strict=True)):
        if size == out:
            continue
        rank = len(type_.shape or ())
        position = rank - len(output) + axis
        matrix = averaging_matrix(size, out).astype(type_.dtype)
        if position == rank - 1:
            x = b.op("MatMul", x, b.constant(matrix.T.copy()))
        else:  # swap the axis to the end, average there, swap back
            perm = list(range(rank))
            perm[position], perm[-1] = perm[-1], perm[position]
            moved = b.op("MatMul", b.op("Transpose", x, perm=perm), b.constant(matrix.T.copy()))
            x = b.op("Transpose", moved, perm=perm)
    return [x]


TABLE.add(
    "AdaptiveAveragePool",
    inputs="X",
    attributes=[AttributeSpec("output_size", "ints", required=True)],
    infer=_infer,
    expand=_expand,
    summary="average over the windows [floor(i*H/out), ceil((i+1)*H/out)) of the trailing axes",
)
