"""Attention on interleaved projections: (time, batch, heads * (query, key, value))."""

from __future__ import annotations

from ....ir import Value
from ....ir.dims import product
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


def _projection(call: Call, which: int) -> Value:
    """Return query (0), key (1) or value (2) of interleaved data, as (batch, heads, time, size)."""
    x, heads = call.value(0), call.int("heads")
    time, batch, width = call.shape(x)
    if not isinstance(width, int) or heads < 1 or width % (3 * heads):
        raise call.unsupported(f"expected a width that 3 times {heads} heads divide, got {width}")
    split = call.reshape(x, [time, batch, heads, 3, width // heads // 3])
    return call.op("Transpose", call.op("Gather", split, call.constant(which), axis=3), perm=[1, 2, 0, 3])


@TABLE.op("_contrib_interleaved_matmul_selfatt_qk")
def self_attention_scores(call: Call) -> Value:
    """Return scaled products of queries and keys: (batch * heads, time, time)."""
    query, key = _projection(call, 0), _projection(call, 1)
    (size,) = call.static_shape(query, [3])
    scaled = call.op("Div", query, call.scalar_like(size**0.5, query))
    scores = call.op("MatMul", scaled, call.op("Transpose", key, perm=[0, 1, 3, 2]))
    batch, heads, *rest = call.shape(scores)
    return call.reshape(scores, [product([batch, heads]), *rest])


@TABLE.op("_contrib_interleaved_matmul_selfatt_valatt")
def self_attention_values(call: Call) -> Value:
    """Return values weighted by attention (batch * heads, time, time), as (time, batch, heads * size)."""
    value, attention = _projection(call, 2), call.value(1)
    batch, heads, time, size = call.shape(value)
    weights = call.reshape(attention, [batch, heads, time, time])
    together = call.op("Transpose", call.op("MatMul", weights, value), perm=[2, 0, 1, 3])
    return call.reshape(together, [time, batch, product([heads, size])])


def _key_or_value(call: Call, x: Value, which: int) -> Value:
    """Return key (0) or value (1) of interleaved data, as (batch, heads, time, size)."""
    heads = call.int("heads")
    time, batch, width = call.shape(x)
    if not isinstance(width, int) or heads < 1 or width % (2 * heads):
        raise call.unsupported(f"expected a width that 2 times {heads} heads divide, got {width}")
    split = call.reshape(x, [time, batch, heads, 2, width // heads // 2])
    return call.op("Transpose", call.op("Gather", split, call.constant(which), axis=3), perm=[1, 2, 0, 3])


@TABLE.op("_contrib_interleaved_matmul_encdec_qk")
def cross_attention_scores(call: Call) -> Value:
    """Scaled products of queries with the keys of another sequence: (batch * heads, time, other time)."""
    queries, others = call.operands()
    key, heads = _key_or_value(call, others, 0), call.int("heads")
    time, batch, width = call.shape(queries)
    split = call.reshape(queries, [time, batch, heads, width // heads])
    query = call.op("Transpose", split, perm=[1, 2, 0, 3])
    scaled = call.op("Div", query, call.scalar_like((width // heads) ** 0.5, query))
    scores = call.op("MatMul", scaled, call.op("Transpose", key, perm=[0, 1, 3, 2]))
    return call.reshape(scores, [product([batch, heads]), *call.shape(scores)[2:]])


@TABLE.op("_contrib_interleaved_matmul_encdec_valatt")
def cross_attention_values(call: Call) -> Value:
    """Return values of another sequence weighted by attention, as (time, batch, heads * size)."""
    others, attention = call.operands()
    value = _key_or_value(call, others, 1)
    batch, heads, _, size = call.shape(value)
    weights = call.reshape(attention, [batch, heads, *call.shape(attention)[1:]])
    together = call.op("Transpose", call.op("MatMul", weights, value), perm=[2, 0, 1, 3])
    return call.reshape(together, [*call.shape(together)[:2], product([heads, size])])
