"""Every lowering of the torch frontend, merged by name."""

from __future__ import annotations

from ...lowering_table import LoweringTable
from ..call import Call
from . import (
    activation,
    attention,
    conv,
    creation,
    indexing,
    linear,
    logic,
    math,
    norm,
    pool,
    recurrent,
    reduce,
    resize,
    shape,
)

TABLE = LoweringTable[Call]("torch").include(
    activation.TABLE,
    attention.TABLE,
    conv.TABLE,
    creation.TABLE,
    indexing.TABLE,
    linear.TABLE,
    logic.TABLE,
    math.TABLE,
    norm.TABLE,
    pool.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    resize.TABLE,
    shape.TABLE,
)
"""Operator name (``aten.conv2d.default``) -> its lowering; in-place operators use their functional twins'."""

IGNORED = frozenset(
    {
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default",
    }
)
"""Operators that check and compute nothing."""
