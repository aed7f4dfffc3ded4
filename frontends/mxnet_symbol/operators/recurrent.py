"""The fused recurrent operator, whose parameters are one vector: first all weights, then all biases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ....ir import Parameter, TensorData, Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")

_KINDS = {"lstm": ("LSTM", 4), "gru": ("GRU", 3), "rnn_tanh": ("RNN", 1), "rnn_relu": ("RNN", 1)}
"""Mode -> (composite, number of gates); the gates are in the composite's order."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One tensor in the vector: gluon's name of it, its first element and its shape."""

    name: str
    start: int
    shape: tuple[int, ...]

    @property
    def stop(self) -> int:
        """Behind its last element."""
        return self.start + prod(self.shape)


def pieces(inputs: int, hidden: int, layers: int, directions: int, gates: int) -> list[Piece]:
    """Return the tensors of a vector as it holds them.

    Example:
        >>> [(p.name, p.start, p.shape) for p in pieces(3, 5, 1, 1, 1)][:2]
        [('l0_i2h_weight', 0, (5, 3)), ('l0_h2h_weight', 15, (5, 5))]
    """
    found: list[Piece] = []
    for role in ("weight", "bias"):
        for layer in range(layers):
            width = inputs if layer == 0 else directions * hidden
            for direction in "lr"[:directions]:
                for side, columns in (("i2h", width), ("h2h", hidden)):
                    shape = (gates * hidden, columns) if role == "weight" else (gates * hidden,)
                    start = found[-1].stop if found else 0
                    found.append(Piece(f"{direction}{layer}_{side}_{role}", start, shape))
    return found


def _in_order(found: list[Piece], layers: int, directions: int) -> Iterator[Piece]:
    """Yield the same as the composite takes them: layer by layer, direction by direction."""
    half = len(found) // 2
    for at in range(layers * directions):
        yield from found[2 * at : 2 * at + 2]
        yield from found[half + 2 * at : half + 2 * at + 2]


@TABLE.op("RNN")
def rnn(call: Call) -> list[Value]:
    """Return a stack of layers over (sequence, batch, input); the final states only with `state_outputs`."""
    mode, hidden, layers = call.text("mode"), call.int("state_size"), call.int("num_layers")
    if mode not in _KINDS:
        raise call.unsupported(f"expected a mode among {', '.join(_KINDS)}, got `{mode}`")
    (kind, gates), ratio = _KINDS[mode], call.float("p", 0.0)
    directions = 2 if call.flag("bidirectional") else 1
    _refuse_options(call)
    data = call.value(0)
    (inputs,) = call.static_shape(data, [2])
    states = [call.optional(slot) for slot in range(2, 4 if gates == 4 else 3)]
    given = [s for s in states if s is not None]
    lengths = call.value(call.count - 1) if call.flag("use_sequence_length") else None
    batches = {call.shape(data)[1], *(call.shape(s)[1] for s in given)}
    if len(batches) > 1:
        raise call.unsupported(f"aligns batches of {' and '.join(map(str, sorted(batches, key=str)))}")
    wrong = next((size for s in given if (size := call.shape(s)[0]) != layers * directions), None)
    if wrong is not None:  # which is as long as a batch, or a sequence, by chance
        raise call.unsupported(f"expected states of {layers * directions} layers, got {wrong}")
    if given and len(given) < len(states):
        raise call.unsupported("expected both initial states or none")
    found = pieces(inputs, hidden, layers, directions, gates)
    outputs = call.ops(
        f"regraft.{kind}",
        data,
        lengths,
        *states,
        *_parameters(call, found, list(_in_order(found, layers, directions))),
        outputs=1 + len(states),
        hidden_size=hidden,
        num_layers=layers if layers > 1 else None,
        bidirectional=1 if directions == 2 else None,
        dropout=ratio if ratio and layers > 1 else None,
        nonlinearity="relu" if mode == "rnn_relu" else None,
    )
    return outputs if call.flag("state_outputs") else outputs[:1]


def _refuse_options(call: Call) -> None:
    for name in ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max"):
        if call.text(name, "None") != "None":
            raise call.unsupported(f"expected no `{name}`")
    call.ignore("lstm_state_clip_nan")  # of no effect without the bounds


def _parameters(call: Call, found: list[Piece], wanted: list[Piece]) -> list[Value]:
    """The tensors that the vector holds: parameters of their own, or slices of a vector that is computed."""
    packed = call.value(1)
    node = call.graph.node(packed.node)
    holders = [m for m in call.graph.modules if packed.node in m.parameters.values()]
    shared = len(holders) != 1 or holders[0].key == 0 or call.graph.users(packed)
    if not isinstance(node, Parameter) or shared:
        return [_slice(call, packed, piece) for piece in wanted]
    values = {piece: _part(call, node, piece) for piece in found}
    call.graph.origin.packed[node.declared] = [
        call.graph.parameter(value.node).declared for value in values.values()
    ]
    held = holders[0].parameters
    held.clear()
    held |= {piece.name: value.node for piece, value in values.items()}
    call.graph.remove(packed.node)
    return [values[piece] for piece in wanted]


def _slice(call: Call, packed: Value, piece: Piece) -> Value:
    bounds = [call.constant([n]) for n in (piece.start, piece.stop, 0)]
    part = call.op("Slice", packed, *bounds)
    return part if len(piece.shape) == 1 else call.reshape(part, piece.shape)


def _part(call: Call, packed: Parameter, piece: Piece) -> Value:
    """Return a parameter on the vector's memory, named as gluon names it."""
    data = packed.data

    def read() -> np.ndarray:
        return data.numpy()[piece.start : piece.stop].reshape(piece.shape)

    load = None if data.load is None else read
    stem = packed.name.removesuffix("parameters").rstrip("_") or call.node.name
    name = f"{stem}_{piece.name}"
    return call.graph.add_parameter(
        Parameter(
            name,
            name,
            TensorData(data.dtype, piece.shape, load, (data.storage, piece.start)),
            trainable=packed.trainable,
            location=packed.location,
            role=piece.name,
        )
    )
