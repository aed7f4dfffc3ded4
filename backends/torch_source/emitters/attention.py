"""Attention as torch's whole layer, where a module is one."""

from __future__ import annotations

from ...source.emitters.layers import attention_layer
from ...source.emitting import EmitterTable, NnLayer, View
from .initializers import build

TABLE = EmitterTable()


@TABLE.layer("regraft.MultiheadAttention")
def multihead_attention(view: View) -> NnLayer:
    """Emit nn.MultiheadAttention."""
    return attention_layer(view, build)
