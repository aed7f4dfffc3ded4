"""Lowerings of recurrent layers, one ONNX operator a layer."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Value
from ..lowering import LoweringTable
from .context import Call, Lowering

RECURRENT: LoweringTable[Lowering] = LoweringTable("torch")


@dataclass(frozen=True, slots=True)
class Cell:
    """How one kind of cell maps: ONNX's name, the place of each ONNX gate among torch's, extra attributes."""

    op_type: str
    gates: tuple[int, ...]
    states: int
    linear_before_reset: bool = False
    activation: str = ""


LSTM = Cell("LSTM", (0, 3, 1, 2), 2)  # torch i f g o, ONNX i o f c
GRU = Cell("GRU", (1, 0, 2), 1, linear_before_reset=True)  # torch r z n, ONNX z r h
RNN_TANH = Cell("RNN", (0,), 1, activation="Tanh")
RNN_RELU = Cell("RNN", (0,), 1, activation="Relu")


def _reordered(call: Call, value: Value, gates: tuple[int, ...]) -> Value:
    """Blocks of rows in ONNX's order of gates, with a leading axis for the direction."""
    if len(gates) > 1:
        parts = call.b.ops("Split", value, outputs=len(gates), axis=0, num_outputs=len(gates))
        value = call.op("Concat", *(parts[g] for g in gates), axis=0)
    return call.op("Unsqueeze", value, call.constant([0]))


def _weights(
    call: Call, cell: Cell, parameters: list[Value], directions: int
) -> tuple[Value, Value, Value | None]:
    """W, R and B of one layer from torch's parameters of its directions."""
    each = len(parameters) // directions
    rows: list[list[Value]] = [[], [], []]
    for direction in range(directions):
        own = parameters[direction * each : (direction + 1) * each]
        rows[0].append(_reordered(call, own[0], cell.gates))
        rows[1].append(_reordered(call, own[1], cell.gates))
        if len(own) == 4:
            halves = [_reordered(call, b, cell.gates) for b in own[2:]]
            rows[2].append(call.op("Concat", *halves, axis=1))
    joined = [_joined(call, row, 0) if row else None for row in rows]
    assert joined[0] is not None
    assert joined[1] is not None
    return joined[0], joined[1], joined[2]


def _joined(call: Call, values: list[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else call.op("Concat", *values, axis=axis)


def _recurrent(cell: Cell) -> Lowering:
    def recurrent(call: Call) -> list[Value]:
        """All layers in turn; dropout between them as operators, bidirectional layers as one."""
        call.ignore("train")
        x, ratio, layers = call.value("input"), call.float("dropout"), call.int("num_layers")
        directions = 2 if call.flag("bidirectional") else 1
        parameters = call.values("params")
        per_layer = (4 if call.flag("has_biases") else 2) * directions
        if len(parameters) != per_layer * layers:
            raise call.unsupported("expected no projections (`proj_size`)")
        states = call.values("hx") if cell.states == 2 else [call.value("hx")]
        batch_first = call.flag("batch_first")
        if batch_first:
            x = call.op("Transpose", x, perm=[1, 0, 2])
        finals: list[list[Value]] = [[] for _ in states]
        for layer in range(layers):
            own = parameters[layer * per_layer : (layer + 1) * per_layer]
            first = [_layer_state(call, s, layer, layers, directions) for s in states]
            x, last = _layer(call, cell, x, _weights(call, cell, own, directions), first, directions)
            for final, state in zip(finals, last, strict=True):
                final.append(state)
            if ratio and layer + 1 < layers:
                x = call.op("Dropout", x, call.constant(ratio, "float32"))
        if batch_first:
            x = call.op("Transpose", x, perm=[1, 0, 2])
        return [x, *(_joined(call, f, 0) for f in finals)]

    return recurrent


def _layer_state(call: Call, state: Value, layer: int, layers: int, directions: int) -> Value:
    """The rows of an initial state that belong to one layer."""
    if layers == 1:
        return state
    bounds = (call.constant([layer * directions]), call.constant([(layer + 1) * directions]))
    return call.op("Slice", state, *bounds, call.constant([0]))


def _layer(
    call: Call,
    cell: Cell,
    x: Value,
    weights: tuple[Value, Value, Value | None],
    states: list[Value],
    directions: int,
) -> tuple[Value, list[Value]]:
    w, r, bias = weights
    hidden = call.graph.known_type(r).shape
    assert hidden is not None
    width = hidden[-1]
    assert isinstance(width, int)
    attributes: dict[str, object] = {
        "hidden_size": width,
        "direction": "bidirectional" if directions == 2 else "forward",
    }
    if cell.linear_before_reset:
        attributes["linear_before_reset"] = 1
    if cell.activation:
        attributes["activations"] = [cell.activation] * directions
    found = call.b.ops(cell.op_type, x, w, r, bias, None, *states, outputs=1 + cell.states, **attributes)  # type: ignore[arg-type]
    # (sequence, directions, batch, width) -> (sequence, batch, directions * width)
    y = call.op("Transpose", found[0], perm=[0, 2, 1, 3])
    y = call.op("Reshape", y, call.constant([0, 0, directions * width]))
    return y, found[1:]


RECURRENT.op("aten.lstm.input")(_recurrent(LSTM))
RECURRENT.op("aten.gru.input")(_recurrent(GRU))
RECURRENT.op("aten.rnn_tanh.input")(_recurrent(RNN_TANH))
RECURRENT.op("aten.rnn_relu.input")(_recurrent(RNN_RELU))
