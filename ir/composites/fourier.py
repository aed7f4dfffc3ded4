"""Fourier transforms as products with matrices of cosines and sines; complex numbers are two tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..dims import differ
from ..errors import BackendError
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import Array, TensorType, numpy_dtype
from .base import CompositeTable
from .matrices import constant, product
from .terms import Term, axis_of, terms_of

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()
_LONGEST = 4096
"""The length beyond which the matrix would be larger than a model ought to hold (64 MiB)."""

_NORMS = ("backward", "forward", "ortho")


def _operand(operator: Operator, types: Sequence[TensorType | None]) -> TensorType | None:
    """Return the type of both parts.

    Raises:
        ValueError: where they do not fit, or are no floating-point numbers.
    """
    if operator.str("norm") not in _NORMS:
        raise ValueError(f"expected a norm of {', '.join(_NORMS)}, got {operator.str('norm')}")
    given = [t for t in types if t is not None]
    for other in given:
        if not other.dtype.startswith(("float", "bfloat")) or other.dtype != given[0].dtype:
            raise ValueError(
                f"expected parts of one type of floating-point numbers, got {given[0]} and {other}"
            )
        shapes = given[0].shape, other.shape
        if None not in shapes and any(map(differ, shapes[0] or (), shapes[1] or ())):
            raise ValueError(f"expected parts of one shape, got {given[0]} and {other}")
    return given[0] if given else None


def _resized(operator: Operator, given: TensorType, size: int | None) -> TensorType:
    shape = list(given.shape or ())
    shape[axis_of(operator, given)] = size
    return given.with_shape(tuple(shape))


def _infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    given = _operand(operator, types)
    if given is not None and given.shape is not None:
        axis = axis_of(operator, given)
        if operator.int("half"):
            if len(types) > 1 and types[1] is not None:
                raise ValueError("expected real numbers of which half of the transform is wanted")
            length = given.shape[axis]
            given = _resized(operator, given, length // 2 + 1 if isinstance(length, int) else None)
    return [given, given]


def _infer_inverse(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    given, n = _operand(operator, types), operator.int("n")
    if given is None or given.shape is None:
        return [given]
    held = given.shape[axis_of(operator, given)]
    if isinstance(held, int) and held != n // 2 + 1:
        raise ValueError(f"expected {n // 2 + 1} frequencies of a signal of length {n}, got {given}")
    return [_resized(operator, given, n)]


def _checked(b: Builder, length: object, value: Value) -> int:
    if not isinstance(length, int) or length > _LONGEST:
        raise BackendError(
            "E602",
            f"expected a transform of a static length up to {_LONGEST}, got one along {b.type_of(value)}",
            hint="it is a product with a matrix here: give sizes with --input, or save for MindSpore",
        )
    return length


def _matrices(n: int, frequencies: int) -> tuple[Array, Array]:
    """Cosines and sines of (place, frequency), in float64."""
    angles = np.outer(np.arange(n), np.arange(frequencies)) % n * (2 * math.pi / max(n, 1))
    cosines, sines = (np.where(np.abs(v) < 1e-12, 0, v) for v in (np.cos(angles), np.sin(angles)))
    return cosines, sines


def _factor(n: int, operator: Operator, *, inverse: bool) -> float:
    norm = operator.str("norm")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1.0


def _turned(x: Term, axis: int) -> Term:
    """Return an axis and the last one in each other's place."""
    rank = x.b.type_of(x.value).rank
    assert rank is not None
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return x if axis == rank - 1 else x.op("Transpose", perm=order)


def _by(x: Term, matrix: Array) -> Term:
    return product(x, constant(x, matrix.astype(numpy_dtype(x.dtype))))


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    parts = terms_of(b, operands)
    known, inverse = b.type_of(parts[0].value), bool(operator.int("inverse"))
    axis = axis_of(operator, known)
    n = _checked(b, (known.shape or ())[axis], parts[0].value)
    cosines, sines = _matrices(n, n // 2 + 1 if operator.int("half") else n)
    factor = _factor(n, operator, inverse=inverse)
    cosines, sines = cosines * factor, sines * (factor if inverse else -factor)
    real, *rest = (_turned(part, axis) for part in parts)
    found = [_by(real, cosines), _by(real, sines)]
    for imag in rest:
        found = [found[0] - _by(imag, sines), found[1] + _by(imag, cosines)]
    return [_turned(part, axis).value for part in found]


def _expand_inverse(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Every frequency but the first, and the last of an even length, stands for two."""
    parts = terms_of(b, operands)
    axis, n = axis_of(operator, b.type_of(parts[0].value)), operator.int("n")
    _checked(b, n, parts[0].value)
    inverse = bool(operator.int("inverse"))
    cosines, sines = _matrices(n, n // 2 + 1)
    at = np.arange(n // 2 + 1)
    weights = np.where((at == 0) | (2 * at == n), 1.0, 2.0) * _factor(n, operator, inverse=inverse)
    real, imag = (_turned(part, axis) for part in parts)
    even, odd = _by(real, (cosines * weights).T), _by(imag, (sines * weights).T)
    return [_turned(even - odd if inverse else even + odd, axis).value]


_COMMON = [
    AttributeSpec("axis", "int", default=-1),
    AttributeSpec("norm", "string", default="backward"),
]
TABLE.add(
    "Fourier",
    inputs="X imag?",
    outputs="real imag",
    attributes=[
        *_COMMON,
        AttributeSpec("inverse", "int", default=0),
        AttributeSpec("half", "int", default=0),
    ],
    infer=_infer,
    expand=_expand,
    summary="the Fourier transform along an axis, or its inverse; with half the frequencies up to the middle",
    traits=Traits(heavy=True),
)
TABLE.add(
    "RealFourier",
    inputs="real imag",
    attributes=[
        *_COMMON,
        AttributeSpec("n", "int", required=True),
        AttributeSpec("inverse", "int", default=1),
    ],
    infer=_infer_inverse,
    expand=_expand_inverse,
    summary="the real signal of length n of which the frequencies up to the middle are given",
    traits=Traits(heavy=True),
)
