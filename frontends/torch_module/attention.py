"""Lowerings of attention."""

from __future__ import annotations

from ...ir import Value
from ..lowering import LoweringTable
from .context import Call, Lowering

ATTENTION: LoweringTable[Lowering] = LoweringTable("torch")


@ATTENTION.op("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(call: Call) -> Value:
    """The composite; grouped keys and values are repeated for their queries."""
    if call.float("dropout_p"):
        raise call.unsupported(
            "expected no `dropout_p` in evaluation mode", hint="pass 0.0 unless self.training"
        )
    query, key, value = call.value("query"), call.value("key"), call.value("value")
    if call.flag("enable_gqa"):
        key, value = (_repeated_heads(call, v, n) for v, n in ((key, "key"), (value, "value")))
    mask = call.optional("attn_mask")
    return call.op(
        "regraft.ScaledDotProductAttention",
        query,
        key,
        value,
        mask,
        is_causal=call.flag("is_causal"),
        scale=call.arg("scale"),
    )


def _repeated_heads(call: Call, value: Value, name: str) -> Value:
    """(…, heads, length, width) with each head repeated until there are as many as the query has."""
    shape, wanted = list(call.shape(name)), call.shape("query")[-3]
    if shape[-3] == wanted:
        return value
    times = wanted // shape[-3]
    split = call.reshape(value, [*shape[:-2], 1, *shape[-2:]])
    spread = call.op("Expand", split, call.context.sizes([*shape[:-2], times, *shape[-2:]]))
    return call.reshape(spread, [*shape[:-3], wanted, *shape[-2:]])
