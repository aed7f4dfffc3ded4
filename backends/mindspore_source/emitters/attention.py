"""Attention: MindSpore's whole layer where it is equal, else matrix products around a softmax."""

from __future__ import annotations

import math

from ....ir import Graph, Operator, Parameter
from ....ir.composites.multihead import INPUTS, PARAMETERS
from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnClass,
    NnLayer,
    Refused,
    State,
    View,
    optional,
)
from ...source.expressions import Helper, Part
from ...source.rendering import Renderer
from .initializers import dtype_argument, law_of

TABLE = EmitterTable()

_LAWS = {
    **dict.fromkeys(("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"), "XavierUniform()"),
    "in_proj_bias": '"zeros"',
    "out_proj.weight": "HeUniform(math.sqrt(5))",
    "bias_k": "XavierNormal()",
    "bias_v": "XavierNormal()",
}
"""Laws by which nn.MultiheadAttention draws its parameters, but for out_proj.bias; in torch that is zero."""


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
    constructor = Call(
        NnClass("MultiheadAttention"),
        (
            Argument("", Literal(width, "embed_dim")),
            Argument("", Literal(operator.int("num_heads"), "num_heads")),
            optional("dropout", operator.float("dropout"), 0.0),
            optional("has_bias", "in_bias" in slots, True),
            optional("add_bias_kv", "bias_k" in slots, False),
            optional("add_zero_attn", bool(operator.int("add_zero_attn")), False),
            *(optional(n, w, None) for n, w in zip(("kdim", "vdim"), widths, strict=True)),
            optional("batch_first", bool(operator.int("batch_first")), False),
            *dtype_argument(weight),
        ),
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
    if name == "out_proj.bias" and _is_uniform_over(parameter, parameter.data.shape[0]):
        return None
    found = law_of(parameter)
    return None if found is None or Renderer().text(found) == _LAWS.get(name) else found


def _is_uniform_over(parameter: Parameter, fan_in: int) -> bool:
    """Whether a parameter is drawn as the bias of a Dense that takes `fan_in` features."""
    law = parameter.initializer
    if law is None or law.law != "uniform":
        return False
    bounds = -law.number("low", -1.0), law.number("high", 1.0)
    return all(math.isclose(bound, 1 / math.sqrt(fan_in), rel_tol=1e-6) for bound in bounds)


def _redraw(constructor: Call, laws: list[tuple[str, Part]]) -> Call:
    parts: list[Part] = ["**{"]
    for name, found in laws:
        parts += [", "] * (len(parts) > 1) + [f'"{name}": ', found]
    return Call(Helper("redrawn"), (Argument("", constructor), Argument("", Expression((*parts, "}")))))


def _module_parameters(graph: Graph, operator: Operator) -> set[int]:
    if operator.call is None:
        return set()
    return set(graph.modules.module(graph.modules.call(operator.call).module).parameters.values())
