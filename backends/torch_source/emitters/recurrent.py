"""Recurrent layers, whose parameters the graph names and orders as torch does."""

from __future__ import annotations

from itertools import product

from ....ir.composites.recurrent import Stack
from ...source.emitting import (
    EmitterTable,
    NnLayer,
    Refused,
    State,
    View,
)
from .initializers import construct, dtype_argument, laws_of_layer

TABLE = EmitterTable()

_HIDDEN = ("h", "c")


@TABLE.layer("regraft.LSTM", "regraft.GRU", "regraft.RNN")
def stack_layer(view: View) -> NnLayer:
    """Emit nn.LSTM, nn.GRU, nn.RNN: ``x, (h, c) = self.lstm(x, (h, c))``."""
    stack = Stack.of(view.operator)
    if view.has(1):
        raise Refused  # lengths, which torch takes as a packed sequence
    slots = range(stack.first_parameter, len(view.operands))
    suffixes = ("", "_reverse")[: stack.directions]
    names = [
        name + suffix
        for layer, suffix in product(range(stack.layers), suffixes)
        for name in _names_of(stack, layer)
    ]
    states = tuple(State(slot, name) for slot, name in zip(slots, names, strict=True))
    first = view.parameter(slots[0])
    held = {state.name: view.parameter(state.slot) for state in states}
    constructor = construct(
        stack.kind,
        input_size=first.data.shape[1],
        hidden_size=stack.hidden,
        num_layers=stack.layers,
        nonlinearity=("relu" if stack.relu else "tanh") if stack.kind == "RNN" else (),
        bias=bool(stack.bias),
        batch_first=bool(stack.batch_first),
        dropout=stack.dropout,
        bidirectional=stack.directions == 2,
        proj_size=stack.projection,
        laws=laws_of_layer(view, stack.kind, held, (stack.hidden,)),
        dtype=dtype_argument(first),
    )
    given = tuple(slot for slot in range(2, stack.first_parameter) if view.has(slot))
    return NnLayer(
        constructor,
        states,
        inputs=(0, given if stack.kind == "LSTM" else given[0]) if given else (0,),
        results=(0, (1, 2)) if stack.kind == "LSTM" else (0, 1),
        hints=("", *_HIDDEN[: stack.states]),
    )


def _names_of(stack: Stack, layer: int) -> list[str]:
    """Return the names of one layer's parameters in one direction, in the order of the operands."""
    names = [f"weight_{side}_l{layer}" for side in ("ih", "hh")]
    names += [f"bias_{side}_l{layer}" for side in ("ih", "hh") if stack.bias]
    return names + ([f"weight_hr_l{layer}"] if stack.projection else [])


@TABLE.layer("regraft.LSTMCell", "regraft.GRUCell", "regraft.RNNCell")
def cell_layer(view: View) -> NnLayer:
    """Emit nn.LSTMCell, nn.GRUCell, nn.RNNCell: ``h, c = self.cell(x, (h, c))``."""
    kind = view.operator.op_type
    is_lstm = kind == "LSTMCell"
    first = 3 if is_lstm else 2
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if view.has(first + 2) else [])]
    states = tuple(State(first + at, name) for at, name in enumerate(names))
    held = {state.name: view.parameter(state.slot) for state in states}
    hidden, inputs = held["weight_hh"].data.shape[1], held["weight_ih"].data.shape[1]
    constructor = construct(
        kind,
        input_size=inputs,
        hidden_size=hidden,
        bias=len(names) == 4,
        nonlinearity=view.operator.str("nonlinearity") if kind == "RNNCell" else (),
        laws=laws_of_layer(view, kind, held, (hidden,)),
        dtype=dtype_argument(held["weight_ih"]),
    )
    return NnLayer(
        constructor,
        states,
        inputs=(0, (1, 2)) if is_lstm else (0, 1),
        results=(0, 1) if is_lstm else (),
        hints=_HIDDEN[: 1 + is_lstm],
    )
