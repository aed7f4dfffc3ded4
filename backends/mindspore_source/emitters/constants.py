"""Constants of emitted MindSpore source: written where they are short, else held by the checkpoint."""

from __future__ import annotations

import numpy as np

from ....ir import TensorData
from ...source.expressions import Argument, Call, Literal, Part, Quoted
from .initializers import ms_dtype

_LONGEST = 16
"""Most elements of a constant that is written into the source."""


def constant(array: np.ndarray, dtype: str) -> Part | None:
    """Return a short constant or a causal mask as source; None for what is too long."""
    return _triangle(array) or (_tensor(array, dtype) if array.size <= _LONGEST else None)


def stored_constant(data: TensorData, name: str) -> Part:
    """Return a parameter for a constant whose values are the checkpoint's."""
    values = Call(
        "initializer",
        (
            Argument("", Quoted("zeros")),
            Argument("", Literal(tuple(data.shape), "shape")),
            Argument("", ms_dtype(data.dtype)),
        ),
    )
    return Call(
        "Parameter",
        (Argument("", values), Argument("name", Quoted(name)), Argument("requires_grad", "False")),
    )


def _triangle(array: np.ndarray) -> Call | None:
    """Return ``Tensor(np.tril(np.ones((8, 8), bool)))`` for a causal mask, None for anything else."""
    if array.dtype != np.bool_ or array.ndim < 2 or array.size <= _LONGEST:
        return None
    for name, make in (("tril", np.tril), ("triu", np.triu)):
        if np.array_equal(array, make(np.ones_like(array))):
            ones = Call("np.ones", (Argument("", Literal(array.shape, "shape")), Argument("", "bool")))
            return Call("Tensor", (Argument("", Call(f"np.{name}", (Argument("", ones),))),))
    return None


def _tensor(array: np.ndarray, dtype: str) -> Call:
    """Return ``Tensor([...], ms.float32)``; of no elements, ``ops.zeros((0, 3), ms.float32)``."""
    if not array.size:
        shape = Literal(array.shape, "shape")
        return Call("ops.zeros", (Argument("", shape), Argument("", ms_dtype(dtype))))
    values = _exact(array) if dtype == "float64" else array.tolist()
    return Call("Tensor", (Argument("", Literal(values, "values")), Argument("", ms_dtype(dtype))))


def _exact(array: np.ndarray) -> object:
    """Return nested lists of NumPy's elements, which are written with all their digits."""
    return [_exact(row) for row in array] if array.ndim else array[()]
