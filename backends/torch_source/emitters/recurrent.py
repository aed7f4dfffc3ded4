"""Recurrent layers, whose parameters the graph names and orders as torch does."""

from __future__ import annotations

from dataclasses import replace

from ...source.emitters import layers
from ...source.emitting import EmitterTable, NnLayer, Refused, View
from ...source.expressions import Call, Helper, NnClass
from .initializers import build

TABLE = EmitterTable()


@TABLE.layer("regraft.LSTM", "regraft.GRU", "regraft.RNN")
def stack_layer(view: View) -> NnLayer:
    """Emit nn.LSTM, nn.GRU, nn.RNN; with lengths, a class of the file's own that packs by them."""
    layer = layers.stack_layer(view, build)
    if not view.has(1):
        return layer
    if not isinstance(layer.constructor, Call) or not isinstance(layer.constructor.callee, NnClass):
        raise Refused
    packing = Helper(f"{layer.constructor.callee.name}OfLengths")
    return replace(layer, constructor=replace(layer.constructor, callee=packing), named={"lengths": 1})


@TABLE.layer("regraft.LSTMCell", "regraft.GRUCell", "regraft.RNNCell")
def cell_layer(view: View) -> NnLayer:
    """Emit nn.LSTMCell, nn.GRUCell, nn.RNNCell."""
    return layers.cell_layer(view, build)
