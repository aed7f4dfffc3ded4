"""ONNX's recurrent operators, whose weights are operands: functions of the emitted file's own."""

from __future__ import annotations

from ...source.emitters.onnx_recurrent import GATES, recurrent
from ...source.emitting import EmitterTable, Expression, View
from ...source.expressions import Attribute, Helper, Part, Tuple, call

TABLE = EmitterTable()


@TABLE.call(*GATES)
def recurrent_operator(view: View) -> Expression:
    """Emit ``onnx_lstm(x, w, r, b, lengths, h, c, peepholes, backwards)`` and its kin."""

    def zeros(*sizes: Part) -> Expression:
        return call("ops.zeros", Tuple(sizes), Attribute(view.atom(), "dtype"))

    def activation(name: str) -> Part:
        return "ops.relu" if name == "Relu" else Helper(name.lower())

    return recurrent(view, zeros, activation)
