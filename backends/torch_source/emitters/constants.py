"""Constants of emitted source: buffers that follow the device, written where they are short."""

from __future__ import annotations

import numpy as np

from ....ir import TensorData
from ...source.expressions import Argument, Call, Literal, Part, call, method
from .initializers import REGISTER_BUFFER, made, torch_dtype

_LONGEST = 16
"""Most elements of a constant that is written into the source."""
_SHORTEST = 4
"""Most elements of a constant whose elements are written although they are alike or count up."""


def constant(array: np.ndarray, dtype: str) -> Part | None:
    """Return a buffer outside the checkpoint for a constant that the source states; None for a long one."""
    value = _filled(array, dtype) or _counted(array, dtype) or _triangle(array)
    if value is None and array.size <= _LONGEST:
        value = _tensor(array, dtype)
    if value is None:
        return None
    return Call(REGISTER_BUFFER, (Argument("", value), Argument("persistent", "False")))


def stored_constant(data: TensorData, name: str) -> Part:  # noqa: ARG001 - the class names its buffer
    """Return a buffer for a constant whose values lie beside the checkpoint."""
    zeros = made("torch.zeros", data.shape, data.dtype)
    return Call(REGISTER_BUFFER, (Argument("", zeros), Argument("persistent", "False")))


def _filled(array: np.ndarray, dtype: str) -> Part | None:
    """Return ``torch.ones(1, 10, dtype=torch.bool)`` for elements that are alike; None for others."""
    if array.size <= _SHORTEST or not np.array_equal(array, np.broadcast_to(array.flat[0], array.shape)):
        return None
    element = array.reshape(-1)[0]
    is_one, is_zero = bool(element == 1), bool(element == 0)
    if is_one or (is_zero and not np.signbit(np.real(element))):
        return made("torch.ones" if is_one else "torch.zeros", array.shape, dtype)
    value = element if dtype == "float64" else element.item()
    is_usual = dtype in ("float32", "int64", "bool")
    return call(
        "torch.full",
        Literal(tuple(array.shape), "shape"),
        Literal(value, "fill"),
        dtype=None if is_usual else torch_dtype(dtype),
    )


def _counted(array: np.ndarray, dtype: str) -> Part | None:
    """Return ``torch.arange(10)``, in whatever shape, for numbers of equal distance; None for others."""
    if array.size <= _SHORTEST or dtype not in ("int64", "int32", "float32"):
        return None
    numbers = array.reshape(-1)
    first, step = float(numbers[0]), float(numbers[1]) - float(numbers[0])
    if not step or not (first.is_integer() and step.is_integer()):  # which no infinity is
        return None
    counted = first + step * np.arange(numbers.size)
    if max(abs(counted)) >= _EXACT:
        return None
    if not np.array_equal(numbers, counted):
        return None
    bounds = [int(first), int(first + step * numbers.size), int(step)]
    given = bounds if step != 1 else bounds[:2] if first else bounds[1:2]
    names = ["size"] if len(given) == 1 else ["start", "stop", "step"]
    sizes = [Literal(number, name) for number, name in zip(given, names, strict=False)]
    found = call("torch.arange", *sizes, dtype=None if dtype == "int64" else torch_dtype(dtype))
    if array.ndim == 1:
        return found
    return method(found, "reshape", *(Literal(size, "size") for size in array.shape))


_EXACT = 1 << 24
"""float32 has every whole number below it."""


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
