"""`nn.MultiheadAttention`, compiled as one primitive of ours and lowered to one composite.

MindSpore compiles the layer to some forty operators, and drops its dropout with them. So while a net is
captured, the layer calls a primitive that only knows its types, as recurrent layers do.
"""

from __future__ import annotations

from functools import cache
from types import MethodType
from typing import Any

from ....ir import Value
from ....ir.composites.multihead import INPUTS
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")

_OPERANDS = ("query", "key", "value")
_MASKS = ((), ("key_padding_mask",), ("attn_mask",), ("key_padding_mask", "attn_mask"))
"""Masks that a call may give, in the order in which `_construct` counts them."""
_OWN = {
    "in_weight": "in_proj_weight",
    "in_bias": "in_proj_bias",
    "q_weight": "q_proj_weight",
    "k_weight": "k_proj_weight",
    "v_weight": "v_proj_weight",
    "bias_k": "bias_k",
    "bias_v": "bias_v",
}
"""Operand -> the parameter of the layer itself; the others are its projection's."""


def is_attention(cell: Any) -> bool:
    """Whether a Cell is MindSpore's layer, with a `construct` that is the layer's, in float32."""
    from mindspore import nn

    cls = getattr(nn, "MultiheadAttention", None)
    if cls is None or not isinstance(cell, cls) or type(cell).construct is not cls.construct:
        return False
    held = [p for each in (cell, cell.out_proj) for p in each.get_parameters(expand=False)]
    return type(cell.out_proj) is nn.Dense and all(str(p.dtype) == "Float32" for p in held)


def whole_attention(cell: Any) -> Any:
    """Return a `construct` that calls one primitive with the masks that it is given.

    The primitives become attributes of the Cell; `state.borrowed` takes them out again.
    """
    vars(cell)["regraft_parts"] = cell.construct
    vars(cell)["regraft_whole"] = tuple(
        _primitive()(cell, masks, averages) for averages in (False, True) for masks in range(len(_MASKS))
    )
    return MethodType(_construct(), cell)


@cache
def _construct() -> Any:
    """Python that MindSpore compiles: plain conditions, no annotations."""
    from mindspore import float32

    def construct(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
    ):
        is_whole = query.dtype == float32 and key.dtype == float32 and value.dtype == float32
        if key_padding_mask is not None and attn_mask is not None:
            is_whole = is_whole and key_padding_mask.dtype == attn_mask.dtype
        if not is_whole:  # MindSpore adds a mask of truth values to one of numbers as ones
            return self.regraft_parts(
                query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights
            )
        masks = ()
        which = 0
        if key_padding_mask is not None:
            masks = masks + (key_padding_mask,)  # noqa: RUF005
            which = which + 1
        if attn_mask is not None:
            masks = masks + (attn_mask,)  # noqa: RUF005
            which = which + 2
        if average_attn_weights:
            which = which + 4
        found = self.regraft_whole[which](query, key, value, *masks)
        if need_weights:
            return found[0], found[1]
        return (found[0],)

    return construct


@cache
def _primitive() -> Any:
    """Return the primitive's class, made if MindSpore is there; it is compiled for types, never run."""
    from mindspore.ops import PrimitiveWithInfer

    class Attention(PrimitiveWithInfer):
        def __init__(self, cell: Any, masks: int, averages: bool) -> None:
            super().__init__("MultiheadAttention")
            self.regraft_cell, self.regraft_averages = cell, averages
            for name, value in (("cell_id", id(cell)), ("masks", masks), ("averages", averages)):
                self.add_prim_attr(name, value)

        def infer_shape(self, *operands: Any) -> Any:
            query, key, *_ = operands
            cell = self.regraft_cell
            length = 1 if len(query) == 3 and cell.batch_first else 0
            batch = [query[1 - length]] if len(query) == 3 else []
            heads = [] if self.regraft_averages else [cell.num_heads]
            keys = key[length]
            if keys >= 0:
                keys += (cell.bias_k is not None) + bool(cell.add_zero_attn)
            return query, (*batch, *heads, query[length], keys)

        def infer_dtype(self, *operands: Any) -> Any:
            return operands[0], operands[0]

    return Attention


@TABLE.op("MultiheadAttention")
def multihead_attention(call: Call) -> list[Value | None]:
    """Return the layer with its parameters and those of its projection, which is never called."""
    cell = call.cell
    if call.arg("cell_id") != id(cell):
        raise call.unsupported("it could not be told which call of the Cell this is")
    modules = call.graph.modules
    assert call.b.call is not None
    layer = modules.module(modules.call(call.b.call).module)
    projection = modules.module(layer.children["out_proj"]).parameters
    names = (*_OPERANDS, *_MASKS[call.int("masks")])
    given: dict[str, Value] = {name: call.value(i) for i, name in enumerate(names)}
    for role, name in (("out_weight", "weight"), ("out_bias", "bias")):
        if name in projection:
            given[role] = call.parameter(projection[name])
    for role, name in _OWN.items():
        if name in layer.parameters:
            given[role] = call.parameter(layer.parameters[name])
    weighs = call.is_read(1)
    found = call.ops(
        "regraft.MultiheadAttention",
        *[given.get(name) for name in INPUTS],
        outputs=2 if weighs else 1,
        types=list(call.types[: 2 if weighs else 1]),
        num_heads=cell.num_heads,
        batch_first=cell.batch_first,
        dropout=float(cell.dropout) or None,
        add_zero_attn=cell.add_zero_attn or None,
        average_weights=call.flag("averages"),
    )
    return [found[0], found[1] if weighs else None]
