"""Lowerings of attention."""

from __future__ import annotations

from ....ir import Value
from ....ir.composites.multihead import INPUTS
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


@TABLE.op("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(call: Call) -> Value:
    """Return the composite; grouped keys and values are repeated for their queries."""
    if ratio := call.float("dropout_p"):
        raise call.unsupported(
            f"expected `dropout_p=0.0` in evaluation, got {ratio:g}: two runs of the model itself differ",
            hint="write `dropout_p=self.dropout if self.training else 0.0`",
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


@TABLE.op("regraft.multihead_attention.default")
def multihead_attention(call: Call) -> list[Value | None]:
    """A whole `nn.MultiheadAttention`; that a mask is causal, as `is_causal` says, the mask shows itself."""
    operands = [call.optional(name) for name in INPUTS]
    weighs = call.flag("need_weights")
    given = dict(zip(INPUTS, operands, strict=True))
    extra = call.flag("add_zero_attn") or given["bias_k"] is not None
    if call.flag("is_causal") and extra and not weighs and given["key_padding_mask"] is None:
        raise call.unsupported(
            "expected `is_causal=False` where the layer adds a key (`add_bias_kv`, `add_zero_attn`), got "
            "True, with which torch hides that key from the queries, whatever the mask says"
        )
    found = call.ops(
        "regraft.MultiheadAttention",
        *operands,
        outputs=2 if weighs else 1,
        num_heads=call.int("num_heads"),
        batch_first=call.flag("batch_first"),
        dropout=call.float("dropout") or None,
        add_zero_attn=call.flag("add_zero_attn") or None,
        average_weights=call.flag("average_weights"),
    )
    return [found[0], found[1] if weighs else None]


def _repeated_heads(call: Call, value: Value, name: str) -> Value:
    """(…, heads, length, width) with each head repeated until there are as many as the query has."""
    shape, wanted = list(call.shape(name)), call.shape("query")[-3]
    if shape[-3] == wanted:
        return value
    times = wanted // shape[-3]
    split = call.reshape(value, [*shape[:-2], 1, *shape[-2:]])
    spread = call.op("Expand", split, call.shape_value([*shape[:-2], times, *shape[-2:]]))
    return call.reshape(spread, [*shape[:-3], wanted, *shape[-2:]])
