"""Layers that frameworks have alike: attention, and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ....ir import Parameter
from ....ir.composites.multihead import INPUTS, PARAMETERS
from ....ir.composites.recurrent import Stack
from ..emitting import NnLayer, Refused, State, View
from ..expressions import Part

Build = Callable[[View, str, dict[str, Parameter], dict[str, object]], Part]
"""Gives the layer of a class that holds these parameters, by attribute, and has these settings."""

_HIDDEN = ("h", "c")


def attention_layer(view: View, build: Build) -> NnLayer:
    """Emit nn.MultiheadAttention, if the module does nothing else."""
    operator = view.operator
    slots = {name: slot for slot, name in enumerate(INPUTS) if view.has(slot)}
    states = tuple(State(slots[n], name) for n, name in PARAMETERS.items() if n in slots)
    modules = view.graph.modules
    module = None if operator.call is None else modules.module(modules.call(operator.call).module)
    own = set[int]() if module is None else set(module.parameters.values())
    if not all(view.value(state.slot).node in own for state in states):
        raise Refused
    held = {state.name: view.parameter(state.slot) for state in states}
    widths = [view.shape(slots[n])[-1] for n in ("key", "value")] if "in_weight" not in slots else [None] * 2
    settings: dict[str, object] = {
        "embed_dim": held[PARAMETERS["out_weight"]].data.shape[0],
        "num_heads": operator.int("num_heads"),
        "dropout": operator.float("dropout"),
        "bias": "in_bias" in slots,
        "add_bias_kv": "bias_k" in slots,
        "add_zero_attn": bool(operator.int("add_zero_attn")),
        "kdim": widths[0],
        "vdim": widths[1],
        "batch_first": bool(operator.int("batch_first")),
    }
    weighs = view.used_outputs() > 1
    options: dict[str, Part] = {} if weighs else {"need_weights": "False"}
    if weighs and not operator.int("average_weights"):
        options["average_attn_weights"] = "False"
    return NnLayer(
        build(view, "MultiheadAttention", held, settings),
        states,
        inputs=(0, 1, 2),
        named={name: slots[name] for name in ("key_padding_mask", "attn_mask") if name in slots},
        options=options,
        results=(0, 1) if weighs else (),
        pick=None if weighs else 0,
        hints=("", "weights") if weighs else (),
    )


def stack_layer(view: View, build: Build) -> NnLayer:
    """Emit nn.LSTM, nn.GRU, nn.RNN: ``x, (h, c) = self.lstm(x, (h, c))``."""
    stack = Stack.of(view.operator)
    slots = range(stack.first_parameter, len(view.operands))
    kinds = [f"{kind}_{side}" for kind in ("weight", "bias")[: 1 + stack.bias] for side in ("ih", "hh")]
    kinds += ["weight_hr"] if stack.projection else []
    suffixes = ("", "_reverse")[: stack.directions]
    layers = [f"l{layer}{suffix}" for layer, suffix in product(range(stack.layers), suffixes)]
    names = [f"{kind}_{layer}" for layer, kind in product(layers, kinds)]
    states = tuple(State(slot, name) for slot, name in zip(slots, names, strict=True))
    held = {state.name: view.parameter(state.slot) for state in states}
    settings: dict[str, object] = {
        "input_size": held[names[0]].data.shape[1],
        "hidden_size": stack.hidden,
        "num_layers": stack.layers,
        "nonlinearity": ("relu" if stack.relu else "tanh") if stack.kind == "RNN" else (),
        "bias": stack.bias,
        "batch_first": stack.batch_first,
        "dropout": stack.dropout,
        "bidirectional": stack.directions == 2,
        "proj_size": stack.projection or (),
    }
    given = tuple(slot for slot in range(2, stack.first_parameter) if view.has(slot))
    return NnLayer(
        build(view, stack.kind, held, settings),
        states,
        inputs=(0, given if stack.kind == "LSTM" else given[0]) if given else (0,),
        results=(0, (1, 2)) if stack.kind == "LSTM" else (0, 1),
        hints=("", *_HIDDEN[: stack.states]),
    )


def cell_layer(view: View, build: Build) -> NnLayer:
    """Emit nn.LSTMCell, nn.GRUCell, nn.RNNCell: ``h, c = self.cell(x, (h, c))``."""
    kind = view.operator.op_type
    is_lstm = kind == "LSTMCell"
    first = 3 if is_lstm else 2
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if view.has(first + 2) else [])]
    states = tuple(State(first + at, name) for at, name in enumerate(names))
    held = {state.name: view.parameter(state.slot) for state in states}
    settings: dict[str, object] = {
        "input_size": held["weight_ih"].data.shape[1],
        "hidden_size": held["weight_hh"].data.shape[1],
        "bias": len(names) == 4,
        "nonlinearity": view.operator.str("nonlinearity") if kind == "RNNCell" else (),
    }
    return NnLayer(
        build(view, kind, held, settings),
        states,
        inputs=(0, (1, 2)) if is_lstm else (0, 1),
        results=(0, 1) if is_lstm else (),
        hints=_HIDDEN[: 1 + is_lstm],
    )
