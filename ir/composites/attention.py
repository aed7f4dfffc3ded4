"""Attention: products of queries and keys, normalised, applied to values."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BackendError
from ..nodes import Operator, Parameter
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import Array, TensorType
from .base import CompositeTable

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Value

TABLE = CompositeTable()

DROPOUT = AttributeSpec("dropout", "float", default=0.0)
"""Ratio at which weights are dropped in training."""


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
    if b.graph.known_type(key).rank is None:
        raise BackendError("E602", "expected keys of known rank", place=b.graph.describe(operator.key))
    scaled = b.op("Mul", query, b.scalar_like(_scale(b, operator, query), query))
    scores = b.op("MatMul", scaled, transposed(b, key))
    if operator.int("is_causal"):
        scores = b.op("Where", _causal(b, query, key), scores, b.scalar_like(-np.inf, scores))
    weights = safe_softmax(b, scores, mask)
    return [b.op("MatMul", dropped(b, weights, operator.float("dropout")), value)]


def transposed(b: Builder, key: Value) -> Value:
    """Return keys with their last two axes swapped, in one transposition with any that made them."""
    rank = b.graph.known_type(key).rank
    assert rank is not None
    perm = [*range(rank - 2), rank - 1, rank - 2]
    producer = b.graph.node(key.node)
    if isinstance(producer, Operator) and producer.qualified_name == "Transpose":
        before = producer.ints("perm") or list(range(rank - 1, -1, -1))
        source = b.graph.operands(producer.key)[0]
        return b.op("Transpose", source, perm=[before[p] for p in perm])
    return b.op("Transpose", key, perm=perm)


def dropped(b: Builder, weights: Value, ratio: float) -> Value:
    """Weights some of which training drops."""
    return b.op("Dropout", weights, b.constant(ratio, "float32")) if ratio else weights


def safe_softmax(b: Builder, scores: Value, mask: Value | None, empty: float = 0.0) -> Value:
    """Softmax over masked scores, finite throughout: MindSpore's spoils the rows beside one of -inf only.

    Args:
        b: builds the operators.
        scores: (..., length, keys).
        mask: truth values of what is kept, or numbers that are added; broadcast to the scores.
        empty: the weights of a row without any key, 0 or (for a mask of numbers) NaN.
    """
    if mask is None:
        return b.op("Softmax", scores, axis=-1)
    known = _known(b, mask)
    logical = b.graph.known_type(mask).dtype == "bool"
    if known is not None and (known if logical else known > -np.inf).any(axis=-1).all():
        masked = b.op("Where", mask, scores, _lowest(b, scores)) if logical else b.op("Add", scores, mask)
        return b.op("Softmax", masked, axis=-1)
    if logical:
        weights = b.op("Softmax", b.op("Where", mask, scores, _lowest(b, scores)), axis=-1)
        return b.op("Where", mask, weights, b.scalar_like(0.0, weights))
    finite = b.op("Max", mask, _lowest(b, mask))
    weights = b.op("Softmax", b.op("Add", scores, finite), axis=-1)
    largest = b.op("ReduceMax", mask, b.constant([-1]), keepdims=1)
    hidden = b.op("Equal", largest, b.scalar_like(-np.inf, mask))
    return b.op("Where", hidden, b.scalar_like(empty, weights), weights)


def _lowest(b: Builder, like: Value) -> Value:
    """Return a number whose exponential is 0 beside any score, and to which scores can be added."""
    narrow = b.graph.known_type(like).dtype == "float16"
    return b.scalar_like(-3e4 if narrow else -1e38, like)


def _known(b: Builder, mask: Value) -> Array | None:
    """Return the values of a mask that is a constant or a buffer."""
    node = b.graph.node(mask.node)
    if isinstance(node, Parameter) and node.is_buffer and node.data.load is not None:
        return node.data.numpy()
    return b.graph.constant_value(mask)


def _scale(b: Builder, operator: Operator, query: Value) -> float:
    if operator.attribute("scale") is not None:
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
    attributes=[
        AttributeSpec("is_causal", "int", default=0),
        AttributeSpec("scale", "float"),
        DROPOUT,
    ],
    infer=_infer,
    expand=_expand,
    traits=Traits(heavy=True),
    summary="softmax(Q @ K.T * scale + mask) @ V over (..., length, width); scale defaults to 1/sqrt(width); "
    "a mask of truth values keeps what is true",
)
