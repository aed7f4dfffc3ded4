"""Attention on interleaved projections: (time, batch, heads * (query, key, value))."""

from __future__ import annotations

from ....ir import Value
from ..call import Use, new_table
from ..dimensions import product

TABLE = new_table()


def _projection(use: Use, which: int) -> Value:
    """Query (0), key (1) or value (2) of interleaved data, as (batch, heads, time, size)."""
    b, x, heads = use.b, use.x, use.attrs.int("heads")
    time, batch, width = use.shape(x)
    if not isinstance(width, int) or heads < 1 or width % (3 * heads):
        raise use.unsupported(f"expected a width that 3 times {heads} heads divide, got {width}")
    split = use.reshape(x, [time, batch, heads, 3, width // heads // 3])
    return b.op("Transpose", b.op("Gather", split, b.constant(which), axis=3), perm=[1, 2, 0, 3])


@TABLE.op("_contrib_interleaved_matmul_selfatt_qk")
def self_attention_scores(use: Use) -> Value:
    """Scaled products of queries and keys: (batch * heads, time, time)."""
    b, query, key = use.b, _projection(use, 0), _projection(use, 1)
    (size,) = use.static(query, [3])
    scaled = b.op("Div", query, b.scalar_like(size**0.5, query))
    scores = b.op("MatMul", scaled, b.op("Transpose", key, perm=[0, 1, 3, 2]))
    batch, heads, *rest = use.shape(scores)
    return use.reshape(scores, [product([batch, heads]), *rest])


@TABLE.op("_contrib_interleaved_matmul_selfatt_valatt")
def self_attention_values(use: Use) -> Value:
    """Values weighted by attention (batch * heads, time, time), as (time, batch, heads * size)."""
    b, value, attention = use.b, _projection(use, 2), use.input(1)
    batch, heads, time, size = use.shape(value)
    weights = use.reshape(attention, [batch, heads, time, time])
    together = b.op("Transpose", b.op("MatMul", weights, value), perm=[2, 0, 1, 3])
    return use.reshape(together, [time, batch, product([heads, size])])
