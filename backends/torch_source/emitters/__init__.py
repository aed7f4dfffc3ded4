"""All emitters, merged by name from the family files."""

from __future__ import annotations

from collections.abc import Callable

from ...source.emitters import PYTHON
from ...source.emitting import CallEmitter, EmitterTable
from ...source.helpers import HelperText
from ...source.text_emitters import TextEmitter, text_emitter
from . import (
    activation,
    attention,
    conv,
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
    stub,
)
from .run_time import functions
from .run_time import recurrent as recurrent_functions
from .run_time import resize as resize_functions

TABLE = EmitterTable.merge(
    PYTHON,
    activation.TABLE,
    attention.TABLE,
    conv.TABLE,
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
    prints.TABLE,
)
"""Every IR operator that can be written as PyTorch source: the tables of the family files, merged."""

HELPERS = {
    "Unsupported": HelperText(stub.STUB),
    **functions.FUNCTIONS,
    **recurrent_functions.FUNCTIONS,
    **resize_functions.FUNCTIONS,
}
"""Functions and classes of an emitted file's own."""


def own_emitters() -> tuple[dict[str, CallEmitter], Callable[[TextEmitter], CallEmitter]]:
    """Return the table that users add emitters to, and what makes one of a user's function."""
    return TABLE.calls, text_emitter
