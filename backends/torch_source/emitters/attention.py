"""Attention as torch's whole layer, where a module is one."""

from __future__ import annotations

from ....ir import Graph, Operator
from ....ir.composites.multihead import INPUTS, PARAMETERS
from ...source.emitting import (
    EmitterTable,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import Part
from .initializers import construct, dtype_argument, laws_of_layer

TABLE = EmitterTable()


@TABLE.layer("regraft.MultiheadAttention")
def multihead_attention(view: View) -> NnLayer:
    """Emit nn.MultiheadAttention, if the module does nothing else."""
    operator = view.operator
    slots = {name: slot for slot, name in enumerate(INPUTS) if view.has(slot)}
    own = _module_parameters(view.graph, operator)
    if not all(view.value(slots[n]).node in own for n in PARAMETERS if n in slots):
        raise Refused
    states = tuple(State(slots[n], name) for n, name in PARAMETERS.items() if n in slots)
    weight = view.parameter(slots["out_weight"])
    width = weight.data.shape[0]
    widths = [view.shape(slots[n])[-1] for n in ("key", "value")] if "in_weight" not in slots else [None] * 2
    held = {s.name: view.parameter(s.slot) for s in states if not s.name.startswith("out_proj")}
    constructor = construct(
        "MultiheadAttention",
        embed_dim=width,
        num_heads=operator.int("num_heads"),
        dropout=operator.float("dropout"),
        bias="in_bias" in slots,
        add_bias_kv="bias_k" in slots,
        add_zero_attn=bool(operator.int("add_zero_attn")),
        kdim=widths[0],
        vdim=widths[1],
        batch_first=bool(operator.int("batch_first")),
        laws=laws_of_layer(view, "MultiheadAttention", held),
        dtype=dtype_argument(weight),
    )
    weighs = view.used_outputs() > 1
    options: dict[str, Part] = {} if weighs else {"need_weights": "False"}
    if weighs and not operator.int("average_weights"):
        options["average_attn_weights"] = "False"
    return NnLayer(
        constructor,
        states,
        inputs=(0, 1, 2),
        named={name: slots[name] for name in ("key_padding_mask", "attn_mask") if name in slots},
        options=options,
        results=(0, 1) if weighs else (),
        pick=None if weighs else 0,
        hints=("", "weights") if weighs else (),
    )


def _module_parameters(graph: Graph, operator: Operator) -> set[int]:
    if operator.call is None:
        return set()
    return set(graph.modules.module(graph.modules.call(operator.call).module).parameters.values())
