"""ONNX's recurrent operators, whose weights are operands: functions of the emitted file's own."""

from __future__ import annotations

from functools import partial

from ...source.emitters.onnx_recurrent import GATES, recurrent
from ...source.emitting import EmitterTable, Expression, View
from ...source.expressions import method

TABLE = EmitterTable()

_FUNCTIONS = {"Tanh": "torch.tanh", "Relu": "torch.relu", "Sigmoid": "torch.sigmoid"}


@TABLE.call(*GATES)
def recurrent_operator(view: View) -> Expression:
    """Emit ``onnx_lstm(x, w, r, b, lengths, h, c, peepholes, backwards)`` and its kin."""
    return recurrent(view, partial(method, view.atom(), "new_zeros"), _FUNCTIONS.__getitem__)
