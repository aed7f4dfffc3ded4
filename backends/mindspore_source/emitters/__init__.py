"""All emitters, merged by name from the family files."""

from __future__ import annotations

from collections.abc import Callable

from ...source.emitters import PYTHON
from ...source.emitting import CallEmitter, EmitterTable
from ...source.text_emitters import TextEmitter, text_emitter
from . import (
    activation,
    attention,
    conv,
    einsum,
    fourier,
    indexing,
    linear,
    linear_algebra,
    loss,
    math,
    norm,
    onnx_recurrent,
    pool,
    prints,
    random,
    recurrent,
    reduce,
    resize,
    shape,
    special,
)

TABLE = EmitterTable.merge(
    activation.TABLE,
    attention.TABLE,
    conv.TABLE,
    einsum.TABLE,
    fourier.TABLE,
    indexing.TABLE,
    linear.TABLE,
    linear_algebra.TABLE,
    loss.TABLE,
    math.TABLE,
    norm.TABLE,
    onnx_recurrent.TABLE,
    pool.TABLE,
    random.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    resize.TABLE,
    shape.TABLE,
    special.TABLE,
    PYTHON,
    prints.TABLE,
)
"""Every IR operator that can be written as MindSpore source: the tables of the family files, merged."""


def own_emitters() -> tuple[dict[str, CallEmitter], Callable[[TextEmitter], CallEmitter]]:
    """Return the table that users add emitters to, and what makes one of a user's function."""
    return TABLE.calls, text_emitter
