"""Every lowering of the MindSpore frontend, merged by name."""

from __future__ import annotations

from ...lowering_table import LoweringTable
from ..call import Call
from . import (
    activation,
    attention,
    conv,
    detection,
    dropout,
    fourier,
    grids,
    indexing,
    linear,
    linear_algebra,
    loss,
    math,
    more_math,
    norm,
    numbers,
    patches,
    pool,
    recurrent,
    reduce,
    resize,
    selection,
    sets,
    shape,
    special,
)

TABLE = LoweringTable[Call]("MindSpore").include(
    activation.TABLE,
    attention.TABLE,
    conv.TABLE,
    detection.TABLE,
    dropout.TABLE,
    fourier.TABLE,
    grids.TABLE,
    indexing.TABLE,
    linear.TABLE,
    linear_algebra.TABLE,
    loss.TABLE,
    math.TABLE,
    more_math.TABLE,
    norm.TABLE,
    numbers.TABLE,
    patches.TABLE,
    pool.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    resize.TABLE,
    selection.TABLE,
    sets.TABLE,
    shape.TABLE,
    special.TABLE,
)
"""Name of a primitive in MindIR -> its lowering."""
