"""Recurrent layers, whose parameters MindSpore names and orders as torch does."""

from __future__ import annotations

import math
from itertools import product

from ....ir import Initializer, Parameter
from ....ir.composites.recurrent import Stack
from ..emitting import Argument, Call, EmitterTable, Literal, NnClass, NnLayer, Refused, State, View, optional
from ..text.expressions import Part
from .initializers import dtype_argument, law

TABLE = EmitterTable()

_HIDDEN = ("h", "c")


@TABLE.layer("regraft.LSTM", "regraft.GRU", "regraft.RNN")
def stack_layer(view: View) -> NnLayer:
    """Emit nn.LSTM, nn.GRU, nn.RNN: ``x, (h, c) = self.lstm(x, (h, c))``."""
    stack = Stack.of(view.operator)
    if stack.projection:
        raise Refused
    slots = range(stack.first_parameter, len(view.operands))
    names = [
        f"{kind}_{side}_l{layer}{suffix}"
        for layer, suffix in product(range(stack.layers), ("", "_reverse")[: stack.directions])
        for kind in ("weight", "bias")[: 1 + stack.bias]
        for side in ("ih", "hh")
    ]
    states = tuple(State(slot, name) for slot, name in zip(slots, names, strict=True))
    first = view.parameter(slots[0])
    arguments = [
        Argument("", Literal(first.data.shape[1], "input_size")),
        Argument("", Literal(stack.hidden, "hidden_size")),
        optional("num_layers", stack.layers, 1),
        *(
            [optional("nonlinearity", "relu" if stack.relu else "tanh", "tanh")]
            if stack.kind == "RNN"
            else []
        ),
        optional("has_bias", stack.bias, True),
        optional("batch_first", stack.batch_first, False),
        optional("dropout", stack.dropout, 0.0),
        optional("bidirectional", stack.directions == 2, False),
        *dtype_argument(first),
    ]
    held = {state.name: view.parameter(state.slot) for state in states}
    given = tuple(slot for slot in range(2, stack.first_parameter) if view.has(slot))
    lengths = {"seq_length": 1} if view.has(1) else {}
    return NnLayer(
        _draw(view, Call(NnClass(stack.kind), tuple(arguments)), held, stack.hidden),
        states,
        inputs=(0, given if stack.kind == "LSTM" else given[0]) if given else (0,),
        named=lengths,
        results=(0, (1, 2)) if stack.kind == "LSTM" else (0, 1),
        hints=("", *_HIDDEN[: stack.states]),
        assignable=False,
    )


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
    arguments = [
        Argument("", Literal(inputs, "input_size")),
        Argument("", Literal(hidden, "hidden_size")),
        optional("has_bias", len(names) == 4, True),
    ]
    if kind == "RNNCell":
        arguments.append(optional("nonlinearity", view.operator.str("nonlinearity"), "tanh"))
    constructor = Call(NnClass(kind), (*arguments, *dtype_argument(held["weight_ih"])))
    return NnLayer(
        _draw(view, constructor, held, hidden),
        states,
        inputs=(0, (1, 2)) if is_lstm else (0, 1),
        results=(0, 1) if is_lstm else (),
        hints=_HIDDEN[: 1 + is_lstm],
    )


def _draw(view: View, constructor: Call, held: dict[str, Parameter], hidden: int) -> Part:
    """Return the layer, redrawn unless its parameters start from MindSpore's own law.

    MindSpore's recurrent layers take no initializers; their own law is torch's, uniform over
    ±1/sqrt(hidden_size), in every version.
    """
    bound = 1 / math.sqrt(hidden)
    laws = {name: p.initializer for name, p in held.items()}
    others: list[Argument] = []
    for start in ("weight", "bias", "weight_ih", "weight_hh", "bias_ih", "bias_hh", *held):
        group = [n for n in laws if n == start or n.split("_l")[0].startswith(start)]
        if not group or len({laws[n] for n in group}) > 1:
            continue
        initializer, *_ = [laws.pop(n) for n in group]
        usual = _is_uniform(initializer, bound) and not view.scope.explicit
        found = None if usual else law(initializer, (hidden,))
        others += [] if found is None else [Argument(start, found)]
    return Call("redrawn", (Argument("", constructor), *others)) if others else constructor


def _is_uniform(initializer: Initializer | None, bound: float) -> bool:
    if initializer is None or initializer.law != "uniform":
        return False
    ends = [initializer.number(name) for name in ("low", "high")]
    return math.isclose(ends[0], -bound, rel_tol=1e-6) and math.isclose(ends[1], bound, rel_tol=1e-6)


REDRAWN = '''def redrawn(layer, **laws):
    """The layer with parameters whose names start so drawn from other laws than MindSpore's."""
    for name, parameter in layer.parameters_and_names():
        for start, law in laws.items():
            if name == start or name.split("_l")[0].startswith(start):
                parameter.set_data(initializer(law, parameter.shape, parameter.dtype))
    return layer
'''
"""The function for layers that start from another law, in an emitted file."""
