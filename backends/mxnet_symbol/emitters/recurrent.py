"""Emitters of stacks of recurrent layers, whose weights and biases are one vector in MXNet."""

from __future__ import annotations

from ....ir import Value
from ....ir.composites.recurrent import KINDS, Stack
from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()

_ONE_LENGTH = "expected sequences of one length: MXNet's RNN takes lengths on a GPU alone"


@TABLE.op("regraft.LSTM", "regraft.GRU", "regraft.RNN")
def recurrent(e: View) -> list[Reference]:
    """Emit RNN of (sequence, batch, input), its parameters joined in the symbol as gluon joins them."""
    stack = Stack.of(e.operator)
    if e.has(1):
        raise e.refused(_ONE_LENGTH)
    if stack.projection:
        raise e.refused("expected no projection: MXNet's RNN has one on a GPU alone")
    mode = f"rnn_{'relu' if stack.relu else 'tanh'}" if stack.kind == "RNN" else stack.kind.lower()
    data = _swapped(e, e.input()) if stack.batch_first else e.input()
    finals = [Value(e.operator.key, n) for n in range(1, 1 + stack.states)]
    outputs = [value for _, value in e.graph.outputs]
    used = any(value in outputs or e.graph.users(value) for value in finals)
    given = [e.input(slot) if e.has(slot) else None for slot in range(2, stack.first_parameter)]
    batch = e.shape(0)[0 if stack.batch_first else 1]
    found, _ = e.node(
        "RNN",
        [data, _packed(e, stack), *_states(e, given, stack.layers * stack.directions, batch, stack.hidden)],
        mode=mode,
        state_size=stack.hidden,
        num_layers=stack.layers,
        bidirectional=stack.directions == 2,
        p=stack.dropout,
        state_outputs=used,
    )
    sequence = _swapped(e, (found, 0)) if stack.batch_first else (found, 0)
    return [sequence, *((found, n) for n in range(1, 1 + stack.states if used else 1))]


_USUAL = {
    "LSTM": {"lstm": ["Sigmoid", "Tanh", "Tanh"]},
    "GRU": {"gru": ["Sigmoid", "Tanh"]},
    "RNN": {"rnn_tanh": ["Tanh"], "rnn_relu": ["Relu"]},
}
"""Operator of ONNX -> mode of MXNet -> the activations that it has."""


@TABLE.op("LSTM", "GRU", "RNN")
def onnx_recurrent(e: View) -> list[Reference]:
    """Emit RNN of one layer, the gates in its order; a reversed layer runs over the reversed sequence."""
    directions, _, hidden = e.static_shape(2)
    kind, mode = KINDS[e.operator.op_type], _mode(e, directions)
    backwards = e.operator.str("direction") == "reverse"
    data = e.node("reverse", [e.input()], axis=(0,)) if backwards else e.input()
    rows = len(kind.gates) * hidden

    def ordered(part: Reference) -> Reference:
        """Put the blocks of rows of the gates in MXNet's order."""
        if len(kind.gates) == 1:
            return part
        starts = [kind.gates.index(n) * hidden for n in range(len(kind.gates))]
        blocks = [e.node("slice_axis", [part], axis=0, begin=at, end=at + hidden) for at in starts]
        return e.node("Concat", blocks, dim=0, num_args=len(blocks))

    def part(slot: int, direction: int) -> Reference:
        return e.node(
            "squeeze",
            [e.node("slice_axis", [e.input(slot)], axis=0, begin=direction, end=direction + 1)],
            axis=(0,),
        )

    weights = [ordered(part(slot, n)) for n in range(directions) for slot in (1, 2)]
    if e.has(3):
        halves = [
            e.node("slice_axis", [part(3, n)], axis=0, begin=at, end=at + rows)
            for n in range(directions)
            for at in (0, rows)
        ]
        biases = [ordered(half) for half in halves]
    else:
        biases = [e.node("_zeros", [], shape=(2 * rows * directions,), dtype=e.type(0).dtype)]
    slots = range(5, 5 + kind.states)
    given = [e.input(slot) if e.has(slot) else None for slot in slots]
    found, _ = e.node(
        "RNN",
        [data, _joined(e, [*weights, *biases]), *_states(e, given, directions, e.shape(0)[1], hidden)],
        mode=mode,
        state_size=hidden,
        num_layers=1,
        bidirectional=directions == 2,
        state_outputs=True,
    )
    apart = e.node("Reshape", [(found, 0)], shape=(0, 0, directions, -1))
    sequence = e.node("transpose", [apart], axes=(0, 2, 1, 3))
    if backwards:
        sequence = e.node("reverse", [sequence], axis=(0,))
    return [sequence, *((found, n) for n in range(1, 1 + kind.states))]


def _mode(e: View, directions: int) -> str:
    """Return MXNet's mode of an operator of ONNX.

    Raises:
        BackendError: for a form that no mode has.
    """
    operator = e.operator
    if e.has(4):
        raise e.refused(_ONE_LENGTH)
    if operator.int("layout") or operator.attribute("clip") is not None:
        raise e.refused("expected a recurrent layer of (sequence, batch, input) without `clip`")
    if operator.op_type == "LSTM" and (operator.int("input_forget") or e.has(7)):
        raise e.refused("expected an LSTM with a forget gate and without peepholes")
    if operator.op_type == "GRU" and not operator.int("linear_before_reset"):
        raise e.refused("expected a GRU whose reset is applied behind the product (linear_before_reset=1)")
    named = operator.attribute("activations")
    names = [str(name) for name in named] if isinstance(named, (list, tuple)) else []
    modes = _USUAL[operator.op_type]
    wanted = {mode: usual * directions for mode, usual in modes.items()}
    found = next((m for m, usual in wanted.items() if not names or names[: len(usual)] == usual), None)
    if found is None:  # names behind those of its directions are of none
        raise e.refused(f"expected the activations of MXNet's RNN, got {', '.join(names)}")
    return found


def _swapped(e: View, data: Reference) -> Reference:
    return e.node("SwapAxis", [data], dim1=0, dim2=1)


def _packed(e: View, stack: Stack) -> Reference:
    """Return all weights, then all biases, each layer by layer and direction by direction."""
    each, first = stack.per_direction, stack.first_parameter
    places = [first + each * n for n in range(stack.layers * stack.directions)]
    parts = [e.input(place + n) for place in places for n in range(2)]
    if stack.bias:
        parts += [e.input(place + n) for place in places for n in range(2, 4)]
    else:
        rows = e.static_shape(first)[0] * 2 * len(places)
        parts.append(e.node("_zeros", [], shape=(rows,), dtype=e.type(0).dtype))
    return _joined(e, parts)


def _joined(e: View, parts: list[Reference]) -> Reference:
    flat = [e.node("Reshape", [part], shape=(-1,)) for part in parts]
    return e.node("_rnn_param_concat", flat, dim=0, num_args=len(flat))


def _states(
    e: View, given: list[Reference | None], rows: int, batch: int | str | None, width: int
) -> list[Reference]:
    """The initial states; zeros for those that are not given, whose batch MXNet infers where it is 0."""
    sizes = rows, batch if isinstance(batch, int) else 0, width
    return [
        state if state is not None else e.node("_zeros", [], shape=sizes, dtype=e.type(0).dtype)
        for state in given
    ]
