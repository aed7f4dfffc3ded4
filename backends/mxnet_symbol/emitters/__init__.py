"""Every IR operator that can be written as an MXNet symbol: the tables of the family files, merged."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.table import Table
from ..symbol import Emitter
from . import (
    activation,
    boxes,
    conv,
    indexing,
    linear,
    linear_algebra,
    loss,
    math,
    norm,
    pool,
    recurrent,
    reduce,
    resize,
    shape,
)

TABLE: Table[Emitter] = Table(
    activation.TABLE,
    boxes.TABLE,
    conv.TABLE,
    indexing.TABLE,
    linear.TABLE,
    linear_algebra.TABLE,
    loss.TABLE,
    math.TABLE,
    norm.TABLE,
    pool.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    resize.TABLE,
    shape.TABLE,
)
"""IR operator -> emitter."""


def own_emitters() -> tuple[dict[str, Emitter], Callable[[Emitter], Emitter]]:
    """Return the table that users add emitters to, and what makes one of a user's function."""
    return TABLE, lambda function: function
