"""Recurrent layers, whose parameters MindSpore names and orders as torch does."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ....frameworks.mindspore import MINDSPORE
from ....frameworks.record import is_same
from ....ir import Parameter
from ....ir.composites.recurrent import Stack
from ...source.emitters import layers
from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnLayer,
    Refused,
    View,
)
from ...source.expressions import Attribute, Element, Helper, Part, Tuple, call
from ...source.helpers import HelperText
from .initializers import construct, dtype_argument, law

TABLE = EmitterTable()


@TABLE.layer("regraft.LSTM", "regraft.GRU", "regraft.RNN")
def stack_layer(view: View) -> NnLayer:
    """Emit nn.LSTM, nn.GRU, nn.RNN: ``x, (h, c) = self.lstm(x, (h, c))``."""
    if Stack.of(view.operator).projection:
        raise Refused
    return replace(
        layers.stack_layer(view, _build),
        named={"seq_length": 1} if view.has(1) else {},
        unassignable="MindSpore can share a whole nn.LSTM, nn.GRU or nn.RNN, or single parameters of cells",
    )


@TABLE.call("regraft.LSTM", "regraft.GRU", "regraft.RNN")
def computed_stack(view: View) -> Expression:
    """Emit a call of the emitted file's own function, for weights that are computed: no layer takes them."""
    stack = Stack.of(view.operator)
    slots = range(stack.first_parameter, len(view.operands))
    if all(isinstance(view.graph.node(view.value(slot).node), Parameter) for slot in slots):
        raise Refused
    if stack.projection or stack.batch_first or view.has(1) or not stack.bias:
        raise Refused
    batch = Element(Attribute(view.atom(), "shape"), 1)
    shape = Tuple((Literal(stack.layers * stack.directions, "rows"), batch, Literal(stack.hidden, "hidden")))
    states = [
        view.tensor(slot) if view.has(slot) else call("ops.zeros", shape, Attribute(view.atom(), "dtype"))
        for slot in range(2, stack.first_parameter)
    ]
    weights = [Tuple(tuple(map(view.tensor, slots[at : at + 4]))) for at in range(0, len(slots), 4)]
    step = "relu" if stack.relu else stack.kind.lower()
    found = call(
        Helper("recurrent"),
        Expression((Helper(f"{step}_step"),)),
        view.use(0),
        Tuple(tuple(states)),
        Tuple(tuple(weights)),
        directions=2 if stack.directions == 2 else None,
    )
    return Expression(found.parts, outputs=1 + stack.states)


FUNCTIONS = {
    "lstm_step": HelperText(
        '''def lstm_step(x, h, state):
    """Return the states after one LSTM step; x and h are the terms of input and state in its gates."""
    i, f, g, o = ops.chunk(x + h, 4, axis=-1)
    c = sigmoid(f) * state[1] + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c
''',
        ("sigmoid", "tanh"),
    ),
    "gru_step": HelperText(
        '''def gru_step(x, h, state):
    """Return the state after one GRU step; x and h are the terms of input and state in its gates."""
    xr, xz, xn = ops.chunk(x, 3, axis=-1)
    hr, hz, hn = ops.chunk(h, 3, axis=-1)
    new = tanh(xn + sigmoid(xr + hr) * hn)
    return (new + sigmoid(xz + hz) * (state[0] - new),)
''',
        ("sigmoid", "tanh"),
    ),
    "rnn_step": HelperText(
        '''def rnn_step(x, h, state):
    """Return the state after one step of an Elman layer."""
    return (tanh(x + h),)
''',
        ("tanh",),
    ),
    "relu_step": HelperText(
        '''def relu_step(x, h, state):
    """Return the state after one step of an Elman layer with ReLU."""
    return (ops.relu(x + h),)
''',
    ),
    "recurrent": HelperText(
        '''def recurrent(step, x, states, weights, directions=1):
    """Run recurrent layers with computed weights on x of (sequence, batch, input)."""
    finals = ()
    for first in range(0, len(weights), directions):
        outputs = ()
        for number in range(first, first + directions):
            w, r, w_bias, r_bias = weights[number]
            inputs, r = ops.matmul(x, w.T) + w_bias, r.T
            state, steps = tuple([s[number] for s in states]), ()
            for at in range(x.shape[0]):
                place = at if number == first else x.shape[0] - 1 - at
                state = step(inputs[place], ops.matmul(state[0], r) + r_bias, state)
                steps = steps + (state[0],) if number == first else (state[0],) + steps
            outputs += (ops.stack(steps),)
            finals += (state,)
        x = ops.cat(outputs, -1)
    return (x,) + tuple([ops.stack([f[n] for f in finals]) for n in range(len(states))])
''',
    ),
}
"""Functions of an emitted file for layers whose weights are computed."""


@TABLE.layer("regraft.LSTMCell", "regraft.GRUCell", "regraft.RNNCell")
def cell_layer(view: View) -> NnLayer:
    """Emit nn.LSTMCell, nn.GRUCell, nn.RNNCell: ``h, c = self.cell(x, (h, c))``."""
    return layers.cell_layer(view, _build)


def _build(view: View, kind: str, held: dict[str, Parameter], settings: dict[str, object]) -> Part:
    """Return the layer, redrawn unless its parameters start from MindSpore's own law.

    MindSpore's recurrent layers take no initializers; their own law is torch's, uniform over
    ±1/sqrt(hidden_size), in every version.
    """
    constructor = construct(kind, **settings, dtype=dtype_argument(next(iter(held.values()))))
    hidden = cast("int", settings["hidden_size"])
    laws = {name: p.initializer for name, p in held.items()}
    others: list[Argument] = []
    for start in ("weight", "bias", "weight_ih", "weight_hh", "bias_ih", "bias_hh", *held):
        group = [n for n in laws if n == start or n.split("_l")[0].startswith(start)]
        if not group or len({laws[n] for n in group}) > 1:
            continue
        initializer, *_ = [laws.pop(n) for n in group]
        usual = MINDSPORE.default_law(kind, group[0], held[group[0]].data.shape)
        usual = is_same(initializer, usual) and not view.scope.explicit
        found = None if usual else law(initializer, (hidden,))
        others += [] if found is None else [Argument(start, found)]
    return Call(Helper("redrawn"), (Argument("", constructor), *others)) if others else constructor


REDRAWN = '''def redrawn(layer, **laws):
    """Initialise the parameters whose names start with a key of `laws` by its initializer."""
    for name, parameter in layer.parameters_and_names():
        for start, law in laws.items():
            if name == start or name.split("_l")[0].startswith(start):
                parameter.set_data(initializer(law, parameter.shape, parameter.dtype))
    return layer
'''
"""The function for layers that start from another law, in an emitted file."""
