"""Writes operators without a function in a framework as other operators; merged by name."""

from __future__ import annotations

from .....ir.table import Table
from . import fourier, normalisation, pooling, quantised, recurrent, sampling, selection, text
from .table import Expansion

TABLE: Table[Expansion] = Table(
    fourier.TABLE,
    normalisation.TABLE,
    pooling.TABLE,
    quantised.TABLE,
    recurrent.TABLE,
    sampling.TABLE,
    selection.TABLE,
    text.TABLE,
)
"""ONNX operator -> how it is written in others."""
