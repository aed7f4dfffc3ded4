"""Attention in ONNX's own operators, as lowerings of fused ones write it out."""

from __future__ import annotations

import math

from ...ir import Value
from .call import Call


def heads_apart(call: Call, value: Value, heads: int) -> Value:
    """Return [batch, length, heads * size] as [batch, heads, length, size].

    Raises:
        UnsupportedError: when the width is not known.
    """
    size = width_of(call, value) // heads
    apart = call.op("Reshape", value, call.ints([0, 0, heads, size]))
    return call.op("Transpose", apart, perm=[0, 2, 1, 3])


def width_of(call: Call, value: Value) -> int:
    """Return the size of the last of three axes.

    Raises:
        UnsupportedError: when it is not known.
    """
    shape = call.graph.known_type(value).shape
    if shape is None or len(shape) != 3 or not isinstance(shape[2], int):
        raise call.unsupported("expected 3 dimensions and a static width")
    return shape[2]


def size_of_heads(call: Call, value: Value) -> int:
    """Return the size of the last of four axes, of what is in heads.

    Raises:
        UnsupportedError: when it is not known.
    """
    shape = call.graph.known_type(value).shape
    if shape is None or len(shape) != 4 or not isinstance(shape[3], int):
        raise call.unsupported("expected heads of a static width")
    return shape[3]


def attend(
    call: Call,
    q: Value,
    k: Value,
    v: Value,
    bias: Value | None,
    scale: float | None,
    *,
    width: int,
    cap: float = 0.0,
    sinks: Value | None = None,
) -> Value:
    """Return softmax(q k' * scale + bias) v of heads, put together again.

    Args:
        call: the operator.
        q: queries, (batch, heads, length, size).
        k: keys.
        v: values.
        bias: what is added to the scores.
        scale: their factor; without one, that of the size of a head.
        width: the size of a head of the values.
        cap: the limit that a tanh keeps the scores in; 0 for none.
        sinks: a score for each head, (1, heads, 1, 1), which takes a share of attention from the keys.

    Raises:
        UnsupportedError: when the number or the size of the heads is not known.
    """
    size, heads = size_of_heads(call, q), (call.graph.known_type(q).shape or [None] * 4)[1]
    if not isinstance(heads, int):
        raise call.unsupported("expected heads of a static width")
    scores = call.op("MatMul", q, call.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = call.op("Mul", scores, call.scalar_like(scale or 1.0 / math.sqrt(size), scores))
    if cap:
        limit = call.scalar_like(cap, scores)
        scores = call.op("Mul", call.op("Tanh", call.op("Div", scores, limit)), limit)
    scores = scores if bias is None else call.op("Add", scores, bias)
    if sinks is None:
        shares = call.op("Softmax", scores, axis=-1)
    else:
        lead = call.op("Slice", call.op("Shape", scores), call.ints([0]), call.ints([3]))
        column = call.op("Expand", sinks, call.op("Concat", lead, call.ints([1]), axis=0))
        shares = call.op("Softmax", call.op("Concat", scores, column, axis=-1), axis=-1)
        shares = call.op("Slice", shares, call.ints([0]), call.ints([-1]), call.ints([3]))
    mixed = call.op("MatMul", shares, v)
    joined = call.op("Transpose", mixed, perm=[0, 2, 1, 3])
    return call.op("Reshape", joined, call.ints([0, 0, heads * width]))
