"""Attention as torch's function, and as torch's whole layer where a module is one."""

from __future__ import annotations

from ...source.emitters.layers import attention_layer
from ...source.emitting import EmitterTable, Expression, NnLayer, Refused, View
from ...source.expressions import call
from .initializers import build

TABLE = EmitterTable()

_MASK = 3


@TABLE.layer("regraft.MultiheadAttention")
def multihead_attention(view: View) -> NnLayer:
    """Emit nn.MultiheadAttention."""
    return attention_layer(view, build)


@TABLE.call("regraft.ScaledDotProductAttention")
def scaled_dot_product_attention(view: View) -> Expression:
    """Emit F.scaled_dot_product_attention, for operands whose leading axes need no broadcast."""
    operator = view.operator
    query, key, value = (view.type(slot) for slot in range(_MASK))
    is_causal, is_masked = bool(operator.int("is_causal")), view.has(_MASK)
    if operator.float("dropout") or (is_causal and is_masked):
        raise Refused
    if any(type_.shape is None or len(type_.shape) != view.rank() for type_ in (query, key, value)):
        raise Refused
    leading = {tuple((type_.shape or ())[:-2]) for type_ in (query, key, value)}
    if view.rank() < _MASK or len(leading) > 1 or None in next(iter(leading)):
        raise Refused
    options: dict[str, object] = {}
    if is_masked:
        mask = view.type(_MASK)
        if mask.dtype not in ("bool", query.dtype) or mask.rank is None or not 2 <= mask.rank <= view.rank():
            raise Refused
        options["attn_mask"] = view.tensor(_MASK)
    if is_causal:
        options["is_causal"] = True
    if operator.attribute("scale") is not None:
        options["scale"] = operator.float("scale")
    operands = (view.tensor(slot) for slot in range(_MASK))
    return call("F.scaled_dot_product_attention", *operands, **options)
