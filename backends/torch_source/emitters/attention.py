"""Attention as torch's function, and as torch's whole layer where a module is one."""

from __future__ import annotations

from ...source.emitters.layers import attention_layer
from ...source.emitting import EmitterTable, Expression, NnLayer, Refused, View
from ...source.expressions import call, method
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


@TABLE.call("Attention")
def attention(view: View) -> Expression:
    """Emit F.scaled_dot_product_attention, between views of heads where those are one axis with the width.

    What it does not have is written in ONNX's parts: caches, a soft cap, scores as a result, a causal mask
    beside another one; and float16, which it rounds less often.
    """
    operator, is_masked = view.operator, view.has(_MASK)
    has_more = view.used_outputs() > 1 or any(view.has(slot) for slot in range(_MASK + 1, 7))
    if has_more or operator.float("softcap") or operator.attribute("softmax_precision") is not None:
        raise Refused
    types, is_causal = [view.type(slot) for slot in range(_MASK)], bool(operator.int("is_causal"))
    shapes = [t.shape for t in types if t.shape is not None and t.dtype != "float16"]
    if (
        len(shapes) != _MASK
        or {len(shape) for shape in shapes} not in ({3}, {4})
        or (is_causal and is_masked)
    ):
        raise Refused
    operands = [view.tensor(slot) for slot in range(_MASK)]
    is_flat = len(shapes[0]) == 3
    heads = [shape[1] for shape in shapes]
    if is_flat:
        queries, keys = operator.int("q_num_heads"), operator.int("kv_num_heads")
        heads = [queries, keys, keys]
        operands = [
            method(method(view.atom(slot), "unflatten", -1, (count, -1)), "transpose", 1, 2)
            for slot, count in enumerate(heads)
        ]
    if not all(isinstance(count, int) for count in heads) or len({shape[0] for shape in shapes}) > 1:
        raise Refused
    options: dict[str, object] = {}
    if is_masked:
        mask = view.type(_MASK)
        if mask.dtype not in ("bool", types[0].dtype) or not mask.shape or not 2 <= len(mask.shape) <= 4:
            raise Refused
        if mask.shape[-2:] != (shapes[0][-2], shapes[1][-2]):
            raise Refused  # a shorter one is padded
        options["attn_mask"] = view.tensor(_MASK)
    if is_causal:
        options["is_causal"] = True
    if operator.attribute("scale") is not None:
        options["scale"] = operator.float("scale")
    if heads[0] != heads[1]:
        options["enable_gqa"] = True
    found = call("F.scaled_dot_product_attention", *operands, **options)
    return method(method(found, "transpose", 1, 2), "flatten", 2) if is_flat else found
