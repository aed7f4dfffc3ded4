"""Every lowering of the torch frontend, merged by name."""

from __future__ import annotations

from ...lowering_table import LoweringTable
from ..call import Call
from . import (
    activation,
    attention,
    conv,
    creation,
    fourier,
    indexing,
    linear,
    linear_algebra,
    logic,
    loss,
    math,
    norm,
    pool,
    quantised,
    recurrent,
    reduce,
    resize,
    selection,
    shape,
    special,
    vision,
)

TABLE = LoweringTable[Call]("torch").include(
    activation.TABLE,
    attention.TABLE,
    conv.TABLE,
    creation.TABLE,
    fourier.TABLE,
    indexing.TABLE,
    linear.TABLE,
    linear_algebra.TABLE,
    logic.TABLE,
    loss.TABLE,
    math.TABLE,
    norm.TABLE,
    pool.TABLE,
    quantised.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    resize.TABLE,
    selection.TABLE,
    shape.TABLE,
    special.TABLE,
    vision.TABLE,
)
"""Operator name (``aten.conv2d.default``) -> its lowering; in-place operators use their functional twins'."""
