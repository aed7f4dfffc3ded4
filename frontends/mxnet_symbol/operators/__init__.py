"""Every lowering of the MXNet frontend, merged by name."""

from __future__ import annotations

from ...lowering_table import LoweringTable
from ..call import Call
from . import (
    activation,
    attention,
    boxes,
    conv,
    creation,
    functions,
    grids,
    images,
    indexing,
    linear,
    linear_algebra,
    loss,
    math,
    norm,
    numpy_arrays,
    pool,
    quantization,
    random,
    recurrent,
    reduce,
    regions,
    resize,
    sequence,
    shape,
)

TABLE = LoweringTable[Call]("MXNet").include(
    activation.TABLE,
    attention.TABLE,
    boxes.TABLE,
    conv.TABLE,
    creation.TABLE,
    functions.TABLE,
    grids.TABLE,
    images.TABLE,
    indexing.TABLE,
    linear.TABLE,
    linear_algebra.TABLE,
    loss.TABLE,
    math.TABLE,
    norm.TABLE,
    numpy_arrays.TABLE,
    pool.TABLE,
    quantization.TABLE,
    random.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    regions.TABLE,
    resize.TABLE,
    sequence.TABLE,
    shape.TABLE,
)
"""Name of an MXNet operator -> its lowering."""
