"""Recurrent layers: whole stacks as frameworks have them, and single cells.

Every framework here keeps the gates in the same order: LSTM i, f, g, o and GRU r, z, n, the reset applied
after the product with the state. ONNX has i, o, f, c and z, r, h, one layer an operator, and no projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import BackendError
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


@dataclass(frozen=True, slots=True)
class Kind:
    """The mapping of a kind of recurrence to ONNX: the place of each ONNX gate among ours, its states."""

    gates: tuple[int, ...]
    states: int


KINDS = {
    "LSTM": Kind((0, 3, 1, 2), 2),
    "GRU": Kind((1, 0, 2), 1),
    "RNN": Kind((0,), 1),
}


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of recurrent layers, read from its operator.

    Attributes:
        kind: "LSTM", "GRU" or "RNN".
        directions: 2 for a bidirectional stack, else 1.
        per_direction: number of parameters of one direction of one layer: two weights, two biases where there
            are any, the projection where there is one.
    """

    kind: str
    hidden: int
    layers: int
    directions: int
    bias: bool
    batch_first: bool
    dropout: float
    projection: int
    relu: bool

    @staticmethod
    def of(operator: Operator) -> Stack:
        """Return the stack that an operator ``regraft.LSTM``, ``GRU`` or ``RNN`` is."""
        return Stack(
            operator.op_type,
            operator.int("hidden_size"),
            operator.int("num_layers"),
            2 if operator.int("bidirectional") else 1,
            bool(operator.int("has_bias")),
            bool(operator.int("batch_first")),
            operator.float("dropout"),
            operator.int("proj_size") if operator.op_type == "LSTM" else 0,
            operator.op_type == "RNN" and operator.str("nonlinearity") == "relu",
        )

    @property
    def states(self) -> int:
        """Number of states: hidden, and the LSTM's cell."""
        return KINDS[self.kind].states

    @property
    def first_parameter(self) -> int:
        """Slot of the first parameter, after X, the lengths and the states."""
        return 2 + self.states

    @property
    def per_direction(self) -> int:
        """Parameters of one direction of one layer."""
        return 2 + 2 * self.bias + bool(self.projection)

    @property
    def width(self) -> int:
        """Size of the hidden state that goes out."""
        return self.projection or self.hidden


def _infer_stack(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x, stack = types[0], Stack.of(operator)
    if x is None:
        return [None] * (1 + stack.states)
    if x.shape is None or len(x.shape) != 3:
        return [x.with_shape(None)] * (1 + stack.states)
    batch = x.shape[0 if stack.batch_first else 1]
    rows = stack.layers * stack.directions
    states = [x.with_shape((rows, batch, width)) for width in (stack.width, stack.hidden)]
    return [x.with_shape((*x.shape[:2], stack.directions * stack.width)), *states[: stack.states]]


def _expand_stack(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """An ONNX operator a layer, Dropout between them, transpositions around where the batch is first."""
    stack = Stack.of(operator)
    parameters = [v for v in operands[stack.first_parameter :] if v is not None]
    each = stack.per_direction * stack.directions
    if len(parameters) != each * stack.layers:
        raise BackendError(
            "E602",
            f"expected {each * stack.layers} parameters of a recurrent stack, got {len(parameters)}",
            place=b.graph.describe(operator.key) if operator.key >= 0 else operator.op_type,
        )
    x, lengths = operands[0], operands[1]
    assert x is not None
    if lengths is not None and b.graph.known_type(lengths).dtype != "int32":
        lengths = b.op("Cast", lengths, to=6)
    x = b.op("Transpose", x, perm=[1, 0, 2]) if stack.batch_first else x
    finals: list[list[Value]] = [[] for _ in range(stack.states)]
    for layer in range(stack.layers):
        states = [_rows(b, s, stack, layer) for s in operands[2 : stack.first_parameter]]
        own = _Layer(b, stack, parameters[layer * each : (layer + 1) * each])
        x, last = own.run(x, lengths, states)
        for final, state in zip(finals, last, strict=True):
            final.append(state)
        if stack.dropout and layer + 1 < stack.layers:
            x = b.op("Dropout", x, b.constant(stack.dropout, "float32"))
    x = b.op("Transpose", x, perm=[1, 0, 2]) if stack.batch_first else x
    return [x, *(_joined(b, f, 0) for f in finals)]


def _rows(b: Builder, state: Value | None, stack: Stack, layer: int) -> Value | None:
    """Return the rows of an initial state that belong to one layer."""
    if state is None or stack.layers == 1:
        return state
    bounds = [b.constant([(layer + n) * stack.directions]) for n in (0, 1)]
    return b.op("Slice", state, *bounds, b.constant([0]))


def _joined(b: Builder, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else b.op("Concat", *values, axis=axis)


class _Layer:
    """One layer on its way to ONNX: its parameters reordered, its directions one behind the other."""

    def __init__(self, b: Builder, stack: Stack, parameters: Sequence[Value]) -> None:
        self.b, self.stack, self.kind = b, stack, KINDS[stack.kind]
        n = stack.per_direction
        own = [parameters[d * n : (d + 1) * n] for d in range(stack.directions)]
        self.weight = [self._reordered(p[0]) for p in own]
        self.recurrence = [self._reordered(p[1]) for p in own]
        self.bias = (
            [self.b.op("Concat", *(self._reordered(v) for v in p[2:4]), axis=0) for p in own]
            if stack.bias
            else []
        )
        self.projection = [p[-1] for p in own] if stack.projection else []

    def _reordered(self, value: Value) -> Value:
        """Return blocks of rows in ONNX's order of gates."""
        gates = self.kind.gates
        if len(gates) == 1:
            return value
        parts = self.b.ops("Split", value, outputs=len(gates), axis=0, num_outputs=len(gates))
        return self.b.op("Concat", *(parts[g] for g in gates), axis=0)

    def _stacked(self, values: Sequence[Value]) -> Value:
        axis = self.b.constant([0])
        return _joined(self.b, [self.b.op("Unsqueeze", v, axis) for v in values], 0)

    def run(
        self, x: Value, lengths: Value | None, states: Sequence[Value | None]
    ) -> tuple[Value, list[Value]]:
        """Return (sequence, batch, directions * width) and the final states (directions, batch, width)."""
        b, stack = self.b, self.stack
        if self.projection:
            x, states = self._without_projection(x, lengths, states)
        attributes: dict[str, object] = {
            "hidden_size": stack.hidden,
            "direction": "bidirectional" if stack.directions == 2 else "forward",
            "linear_before_reset": 1 if stack.kind == "GRU" else None,
            "activations": ["Relu"] * stack.directions if stack.relu else None,
        }
        weights = self._stacked(self.weight), self._stacked(self.recurrence)
        bias = self._stacked(self.bias) if self.bias else None
        y, *last = b.ops(
            stack.kind,
            x,
            *weights,
            bias,
            lengths,
            *states,
            outputs=1 + stack.states,
            **attributes,  # type: ignore[arg-type] - attributes alone, none of the other keywords
        )
        if self.projection:
            projections = b.op("Transpose", self._stacked(self.projection), perm=[0, 2, 1])
            y, last[0] = b.op("MatMul", y, projections), b.op("MatMul", last[0], projections)
        # (sequence, directions, batch, width) -> (sequence, batch, directions * width)
        if stack.directions == 1:
            return b.op("Squeeze", y, b.constant([1])), last
        y = b.op("Transpose", y, perm=[0, 2, 1, 3])
        return b.op("Reshape", y, b.constant([0, 0, stack.directions * stack.width])), last

    def _without_projection(
        self, x: Value, lengths: Value | None, states: Sequence[Value | None]
    ) -> tuple[Value, list[Value | None]]:
        """Rewrite the recurrence for states before their projection P, with ``R @ P`` in place of R.

        An initial state is projected already: it comes in as further features of each direction's first step.
        """
        b, hidden = self.b, states[0]
        plain, self.recurrence = (
            self.recurrence,
            [b.op("MatMul", r, p) for r, p in zip(self.recurrence, self.projection, strict=True)],
        )
        if hidden is None:
            return x, [*states]
        steps = (b.graph.known_type(x).shape or (None,))[0]
        if not isinstance(steps, int) or (lengths is not None and self.stack.directions == 2):
            raise BackendError(
                "E602",
                "expected a static sequence length where a projected LSTM is given its initial state",
                hint="leave the initial state out (it is then zero), or give the length with --input",
            )
        features = [x]
        for direction in range(self.stack.directions):
            bounds = [b.constant([direction + n]) for n in (0, 1)]
            own = b.op("Slice", hidden, *bounds, b.constant([0]))
            before, after = (steps - 1, 0) if direction else (0, steps - 1)
            features.append(b.op("Pad", own, b.constant([before, 0, 0, after, 0, 0])))
            weights = [b.op("Mul", r, b.scalar_like(0.0, r)) for r in plain]
            weights[direction] = plain[direction]
            self.weight = [
                b.op("Concat", w, more, axis=1) for w, more in zip(self.weight, weights, strict=True)
            ]
        return b.op("Concat", *features, axis=2), [None, *states[1:]]


_STACK = [
    AttributeSpec("hidden_size", "int", required=True),
    AttributeSpec("num_layers", "int", default=1),
    AttributeSpec("bidirectional", "int", default=0),
    AttributeSpec("has_bias", "int", default=1),
    AttributeSpec("batch_first", "int", default=0),
    AttributeSpec("dropout", "float", default=0.0),
]
_LAYOUT = (
    "X (sequence, batch, input) or batch first; L the lengths (batch,), past which outputs are zero; states "
    "(layers * directions, batch, width), zero where absent; P for every layer and direction W (gates * "
    "hidden, input), R (gates * hidden, width), then the biases of both"
)

TABLE.add(
    "LSTM",
    inputs="X L? H? C? P*",
    outputs="Y H C",
    attributes=[*_STACK, AttributeSpec("proj_size", "int", default=0)],
    infer=_infer_stack,
    expand=_expand_stack,
    traits=Traits(recurrent=True),
    summary=f"a stack of LSTM layers, gates i f g o. {_LAYOUT}, then the projection (proj, hidden)",
)
TABLE.add(
    "GRU",
    inputs="X L? H? P*",
    outputs="Y H",
    attributes=_STACK,
    infer=_infer_stack,
    expand=_expand_stack,
    traits=Traits(recurrent=True),
    summary=f"a stack of GRU layers, gates r z n, the reset after the product. {_LAYOUT}",
)
TABLE.add(
    "RNN",
    inputs="X L? H? P*",
    outputs="Y H",
    attributes=[*_STACK, AttributeSpec("nonlinearity", "string", default="tanh")],
    infer=_infer_stack,
    expand=_expand_stack,
    traits=Traits(recurrent=True),
    summary=f"a stack of Elman layers, tanh or relu. {_LAYOUT}",
)


# -- cells -------------------------------------------------------------------------------------------------


def _infer_cell(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    return list(types[1:3]) if operator.op_type == "LSTMCell" else [types[1]]


def _products(
    b: Builder, x: Value | None, hidden: Value | None, parameters: Sequence[Value | None]
) -> tuple[Value, Value]:
    """Return the input's and the state's share of every gate."""
    weight, recurrence, *biases = [p for p in parameters if p is not None]
    first, second = biases or (None, None)
    return b.op("regraft.Linear", x, weight, first), b.op("regraft.Linear", hidden, recurrence, second)


def _expand_lstm_cell(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, hidden, cell, *parameters = operands
    assert cell is not None
    total = b.op("Add", *_products(b, x, hidden, parameters))
    i, f, g, o = b.ops("Split", total, outputs=4, axis=-1, num_outputs=4)
    kept = b.op("Mul", b.op("Sigmoid", f), cell)
    new = b.op("Add", kept, b.op("Mul", b.op("Sigmoid", i), b.op("Tanh", g)))
    return [b.op("Mul", b.op("Sigmoid", o), b.op("Tanh", new)), new]


def _expand_gru_cell(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, hidden, *parameters = operands
    assert hidden is not None
    shares = [
        b.ops("Split", v, outputs=3, axis=-1, num_outputs=3) for v in _products(b, x, hidden, parameters)
    ]
    (xr, xz, xn), (hr, hz, hn) = shares
    reset, update = (b.op("Sigmoid", b.op("Add", *pair)) for pair in ((xr, hr), (xz, hz)))
    new = b.op("Tanh", b.op("Add", xn, b.op("Mul", reset, hn)))
    return [b.op("Add", new, b.op("Mul", update, b.op("Sub", hidden, new)))]


def _expand_rnn_cell(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, hidden, *parameters = operands
    relu = operator.str("nonlinearity") == "relu"
    return [b.op("Relu" if relu else "Tanh", b.op("Add", *_products(b, x, hidden, parameters)))]


_CELL = (
    "X (batch, input), states (batch, hidden), W (gates * hidden, input), R (gates * hidden, hidden), biases"
)
TABLE.add(
    "LSTMCell",
    inputs="X H C W R Wb? Rb?",
    outputs="Y C",
    infer=_infer_cell,
    expand=_expand_lstm_cell,
    traits=Traits(recurrent=True),
    summary=f"one step of an LSTM layer, gates i f g o: {_CELL}",
)
TABLE.add(
    "GRUCell",
    inputs="X H W R Wb? Rb?",
    infer=_infer_cell,
    expand=_expand_gru_cell,
    traits=Traits(recurrent=True),
    summary=f"one step of a GRU layer, gates r z n: {_CELL}",
)
TABLE.add(
    "RNNCell",
    inputs="X H W R Wb? Rb?",
    attributes=[AttributeSpec("nonlinearity", "string", default="tanh")],
    infer=_infer_cell,
    expand=_expand_rnn_cell,
    traits=Traits(recurrent=True),
    summary=f"one step of an Elman layer, tanh or relu: {_CELL}",
)
