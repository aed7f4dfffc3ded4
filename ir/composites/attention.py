"""Attention: products of queries and keys, normalised, applied to values."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
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
    query, value = types[0], types[2]
    if query is None or value is None or query.shape is None or value.shape is None:
        return [None if query is None else query.with_shape(None)]
    return [query.with_shape((*query.shape[:-1], value.shape[-1]))]


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    query, key, value = operands[:3]
    mask = operands[3] if len(operands) > 3 else None
    assert query is not None
    assert key is not None
    assert value is not None
    rank = b.graph.known_type(key).rank
    if rank is None:
        raise BackendError("E602", "expected keys of known rank", place=b.graph.describe(operator.key))
    scaled = b.op("Mul", query, b.scalar_like(_scale(b, operator, query), query))
    perm = [*range(rank - 2), rank - 1, rank - 2]
    scores = b.op("MatMul", scaled, b.op("Transpose", key, perm=perm))
    if operator.int("is_causal"):
        scores = b.op("Where", _causal(b, query, key), scores, b.scalar_like(-np.inf, scores))
    if mask is None:
        return [b.op("MatMul", b.op("Softmax", scores, axis=-1), value)]
    if b.graph.known_type(mask).dtype != "bool":
        return [b.op("MatMul", b.op("Softmax", b.op("Add", scores, mask), axis=-1), value)]
    weights = b.op("Softmax", b.op("Where", mask, scores, b.scalar_like(-np.inf, scores)), axis=-1)
    weights = b.op(
        "Where", mask, weights, b.scalar_like(0.0, weights)
    )  # a row without any key gives 0, not NaN
    return [b.op("MatMul", weights, value)]


def _scale(b: Builder, operator: Operator, query: Value) -> float:
    if "scale" in operator.attributes:
        return operator.float("scale")
    width = (b.graph.known_type(query).shape or (None,))[-1]
    if not isinstance(width, int):
        raise BackendError(
            "E602", "expected a static query width or a `scale`", place=b.graph.describe(operator.key)
        )
    return 1 / sqrt(width)


def _causal(b: Builder, query: Value, key: Value) -> Value:
    """Truth values (L, S): key j is seen by query i when j <= i."""
    rows, columns = (_length(b, value) for value in (query, key))
    if isinstance(rows, int) and isinstance(columns, int):
        return b.constant(np.tril(np.ones((rows, columns), np.bool_)))
    zero, one = b.constant(0), b.constant(1)

    def positions(value: Value, axis: int) -> Value:
        length = b.op("Squeeze", b.op("Shape", value, start=-2, end=-1), b.constant([0]))
        return b.op("Unsqueeze", b.op("Range", zero, length, one), b.constant([axis]))

    return b.op("LessOrEqual", positions(key, 0), positions(query, 1))


def _length(b: Builder, value: Value) -> int | str | None:
    shape = b.graph.known_type(value).shape
    return None if shape is None else shape[-2]


TABLE.add(
    "ScaledDotProductAttention",
    inputs="Q K V mask?",
    attributes=[AttributeSpec("is_causal", "int", default=0), AttributeSpec("scale", "float")],
    infer=_infer,
    expand=_expand,
    summary="softmax(Q @ K.T * scale + mask) @ V over (..., length, width); scale defaults to 1/sqrt(width); "
    "a mask of truth values keeps what is true",
)
