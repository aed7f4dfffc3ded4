"""Lowerings of recurrent layers: a whole stack, or one step of a cell, is one composite."""

from __future__ import annotations

from ....ir import Operator, Value
from ...lowering_table import Lowering, LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


def _stack(kind: str, *, of_lengths: bool = False, **attributes: object) -> Lowering[Call]:
    def stack(call: Call) -> list[Value]:
        """All layers as one operator; states of zeros are what the composite starts from anyway."""
        if not of_lengths:
            call.ignore("train")
        states = call.values("hx") if kind == "LSTM" or of_lengths else [call.value("hx")]
        given = [None] * len(states) if all(_is_zero(call, s) for s in states) else states
        parameters, layers = call.values("params"), call.int("num_layers")
        directions = 2 if call.flag("bidirectional") else 1
        bias, batch_first = call.flag("has_biases"), call.flag("batch_first")
        projected = len(parameters) == (3 + 2 * bias) * directions * layers
        width = call.type_of(parameters[-1]).static_shape()[0]
        return call.ops(
            f"regraft.{kind}",
            call.value("x" if of_lengths else "input"),
            call.value("lengths") if of_lengths else None,
            *given,
            *parameters,
            outputs=1 + len(states),
            hidden_size=call.type_of(parameters[0]).static_shape()[0] // _GATES[kind],
            num_layers=layers if layers > 1 else None,
            bidirectional=1 if directions == 2 else None,
            has_bias=None if bias else 0,
            batch_first=1 if batch_first else None,
            dropout=(call.float("dropout") or None) if layers > 1 else call.ignore("dropout"),
            proj_size=width if projected else None,
            **attributes,  # type: ignore[arg-type]
        )

    return stack


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _is_zero(call: Call, value: Value) -> bool:
    """Whether a value is zeros, made on the spot or constant."""
    node = call.graph.node(value.node)
    if isinstance(node, Operator) and node.op_type == "Expand":
        return _is_zero(call, call.graph.operands(value.node)[0] or value)
    found = call.graph.constant_value(value)
    return found is not None and not found.any()


@TABLE.op("regraft.recurrent_of_lengths.default")
def stack_of_lengths(call: Call) -> Value | list[Value]:
    """All layers as one operator, each sequence as long as it is said to be."""
    kind = call.text("kind")
    how = {"nonlinearity": "relu"} if kind == "RNN_RELU" else {}
    return _stack(kind.partition("_")[0], of_lengths=True, **how)(call)


TABLE.op("aten.lstm.input")(_stack("LSTM"))
TABLE.op("aten.gru.input")(_stack("GRU"))
TABLE.op("aten.rnn_tanh.input")(_stack("RNN"))
TABLE.op("aten.rnn_relu.input")(_stack("RNN", nonlinearity="relu"))


@TABLE.op("aten.lstm_cell.default")
def lstm_cell(call: Call) -> list[Value]:
    """Return one step."""
    return call.ops("regraft.LSTMCell", *_step(call, call.values("hx")), outputs=2)


@TABLE.op("aten.gru_cell.default")
def gru_cell(call: Call) -> Value:
    """Return one step."""
    return call.op("regraft.GRUCell", *_step(call, [call.value("hx")]))


@TABLE.op("aten.rnn_tanh_cell.default", "aten.rnn_relu_cell.default")
def rnn_cell(call: Call) -> Value:
    """Return one step."""
    relu = "relu" if "relu" in call.operator else None
    return call.op("regraft.RNNCell", *_step(call, [call.value("hx")]), nonlinearity=relu)


def _step(call: Call, states: list[Value]) -> list[Value | None]:
    weights = [call.value("w_ih"), call.value("w_hh")]
    return [call.value("input"), *states, *weights, call.optional("b_ih"), call.optional("b_hh")]
