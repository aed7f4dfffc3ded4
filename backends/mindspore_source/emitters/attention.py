"""Attention: MindSpore's whole layer where it is equal, else matrix products around a softmax."""

from __future__ import annotations

from ....frameworks.mindspore import MINDSPORE
from ....frameworks.record import is_same
from ....ir import Graph, Operator, Parameter
from ....ir.composites.multihead import INPUTS, PARAMETERS
from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import Helper, Part
from .initializers import construct, dtype_argument, law_of

TABLE = EmitterTable()


@TABLE.layer("regraft.MultiheadAttention")
def multihead_attention(view: View) -> NnLayer:
    """Emit nn.MultiheadAttention, if the module does nothing else (see the pass adopt-projections)."""
    operator = view.operator
    slots = {name: slot for slot, name in enumerate(INPUTS) if view.has(slot)}
    held = _module_parameters(view.graph, operator)
    if not all(view.value(slots[n]).node in held for n in PARAMETERS if n in slots):
        raise Refused
    states = tuple(State(slots[n], name) for n, name in PARAMETERS.items() if n in slots)
    weight = view.parameter(slots["out_weight"])
    width = weight.data.shape[0]
    widths = [view.shape(slots[n])[-1] for n in ("key", "value")] if "in_weight" not in slots else [None] * 2
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
        dtype=dtype_argument(weight),
    )
    laws = [(s.name, found) for s in states if (found := _other_law(view.parameter(s.slot), s.name))]
    weighs = view.used_outputs() > 1
    options: dict[str, Part] = {} if weighs else {"need_weights": "False"}
    if weighs and not operator.int("average_weights"):
        options["average_attn_weights"] = "False"
    return NnLayer(
        _redraw(constructor, laws) if laws else constructor,
        states,
        inputs=(0, 1, 2),
        named={name: slots[name] for name in ("key_padding_mask", "attn_mask") if name in slots},
        options=options,
        results=(0, 1) if weighs else (),
        pick=None if weighs else 0,
        hints=("", "weights") if weighs else (),
    )


def _other_law(parameter: Parameter, name: str) -> Part | None:
    """Return a parameter's known initial distribution if it is not the layer's own, else None."""
    inner, _, attribute = name.rpartition(".")
    shape = parameter.data.shape
    own = MINDSPORE.default_law("Dense" if inner else "MultiheadAttention", attribute, shape, shape[:1] * 2)
    return None if is_same(parameter.initializer, own) else law_of(parameter)


def _redraw(constructor: Call, laws: list[tuple[str, Part]]) -> Call:
    parts: list[Part] = ["**{"]
    for name, found in laws:
        parts += [", "] * (len(parts) > 1) + [f'"{name}": ', found]
    return Call(Helper("redrawn"), (Argument("", constructor), Argument("", Expression((*parts, "}")))))


def _module_parameters(graph: Graph, operator: Operator) -> set[int]:
    if operator.call is None:
        return set()
    return set(graph.modules.module(graph.modules.call(operator.call).module).parameters.values())
