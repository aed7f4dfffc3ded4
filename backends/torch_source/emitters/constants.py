"""Constants of emitted source: buffers that follow the device, written where they are short."""

from __future__ import annotations

import numpy as np

from ....ir import TensorData
from ...source.expressions import Argument, Call, Literal, Part
from .initializers import REGISTER_BUFFER, made, torch_dtype

_LONGEST = 16
"""Most elements of a constant that is written into the source."""


def constant(array: np.ndarray, dtype: str) -> Part | None:
    """Return a short constant or a causal mask as a buffer outside the checkpoint; None for a long one."""
    value = _triangle(array) or (_tensor(array, dtype) if array.size <= _LONGEST else None)
    if value is None:
        return None
    return Call(REGISTER_BUFFER, (Argument("", value), Argument("persistent", "False")))


def stored_constant(data: TensorData, name: str) -> Part:  # noqa: ARG001 - the class names its buffer
    """Return a buffer for a constant whose values lie beside the checkpoint."""
    zeros = made("torch.zeros", data.shape, data.dtype)
    return Call(REGISTER_BUFFER, (Argument("", zeros), Argument("persistent", "False")))


def _triangle(array: np.ndarray) -> Call | None:
    """Return ``torch.tril(torch.ones(8, 8, dtype=torch.bool))`` for a causal mask, None for anything else."""
    if array.dtype != np.bool_ or array.ndim < 2 or array.size <= _LONGEST or not array.any():
        return None
    first = array.reshape(-1, *array.shape[-2:])[0]
    for name, make, edge in (
        ("tril", np.tril, first[0].sum() - 1),
        ("triu", np.triu, int(first[0].argmax())),
    ):
        diagonal = int(edge)
        if np.array_equal(array, make(np.ones_like(array), diagonal)):
            ones = made("torch.ones", array.shape, "bool")
            shift = [Argument("", Literal(diagonal, "diagonal"))] if diagonal else []
            return Call(f"torch.{name}", (Argument("", ones), *shift))
    return None


def _tensor(array: np.ndarray, dtype: str) -> Part:
    """Return ``torch.tensor([...], dtype=torch.int64)``; of no elements, ``torch.zeros(0, 3)``."""
    kind = () if dtype == "float32" else (Argument("dtype", torch_dtype(dtype)),)
    if not array.size:
        return made("torch.zeros", array.shape, dtype)
    if dtype in ("int64", "bool"):  # which torch takes whole numbers and truths for
        kind = ()
    values = _exact(array) if dtype == "float64" else array.tolist()
    return Call("torch.tensor", (Argument("", Literal(values, "values")), *kind))


def _exact(array: np.ndarray) -> object:
    """Return nested lists of NumPy's elements, which are written with all their digits."""
    return [_exact(row) for row in array] if array.ndim else array[()]
