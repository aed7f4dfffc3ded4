"""Recurrent layers, whose parameters the graph names and orders as torch does."""

from __future__ import annotations

from ...source.emitters import layers
from ...source.emitting import EmitterTable, NnLayer, Refused, View
from .initializers import build

TABLE = EmitterTable()


@TABLE.layer("regraft.LSTM", "regraft.GRU", "regraft.RNN")
def stack_layer(view: View) -> NnLayer:
    """Emit nn.LSTM, nn.GRU, nn.RNN."""
    if view.has(1):
        raise Refused  # lengths, which torch takes as a packed sequence
    return layers.stack_layer(view, build)


@TABLE.layer("regraft.LSTMCell", "regraft.GRUCell", "regraft.RNNCell")
def cell_layer(view: View) -> NnLayer:
    """Emit nn.LSTMCell, nn.GRUCell, nn.RNNCell."""
    return layers.cell_layer(view, build)
