"""Eigenvalues of symmetric matrices by Jacobi's rotations, and singular values by those of A.T @ A."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import Array, TensorType
from .base import CompositeTable
from .matrices import (
    constant,
    empty_of,
    gathered,
    least,
    matrix_shape,
    part,
    product,
    spread_like,
    static_sizes,
    symmetric,
    total,
    transposed,
    within,
    without,
)
from .terms import Term, maximum, sqrt, terms_of, where

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()
_HEAVY = Traits(heavy=True)
_MOST = 16
"""The most rows of a matrix whose rotations are written out: their number grows as its square."""

_SWEEPS = 6
"""Each squares what is off the diagonal, after the first few: enough for float32 at this size."""

_TINY = 1e-150


def _rounds(n: int) -> list[list[int]]:
    """Return every pair of n places once, in rounds: the partner of each place, itself where it has none."""
    players = [*range(n), *([-1] if n % 2 else [])]
    half, found = len(players) // 2, list[list[int]]()
    for _ in range(len(players) - 1):
        partner = list(range(n))
        for a, b in zip(players[:half], reversed(players[half:]), strict=True):
            if a >= 0 and b >= 0:
                partner[a], partner[b] = b, a
        found.append(partner)
        players = [players[0], players[-1], *players[1:-1]]
    return found


def _across(numbers: Term, at: Array) -> Term:
    """Return the number of each row's partner."""
    return Term(numbers.b, numbers.b.op("Gather", numbers.value, numbers.b.constant(at), axis=-2))


def _rotation(a: Term, partner: Sequence[int]) -> Term:
    """Return the rotations of a round, as one matrix."""
    n = len(partner)
    at, place, one = np.array(partner), np.arange(n), np.eye(n)
    pairs = constant(a, one[at] * (at != place)[:, None])
    diagonal, beside = total(a * constant(a, one), -1), total(a * pairs, -1)
    apart = _across(diagonal, at) - diagonal + constant(a, (np.where(place < at, 1.0, -1.0) * _TINY)[:, None])
    twice = beside + _across(beside, at)  # the same for both: where all is rounding, they turn as one
    tangent = twice * apart.op("Sign") / (abs(apart) + sqrt(apart * apart + twice * twice))
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    return cosine * constant(a, one) + pairs * (tangent * cosine)


def _eigen(a: Term) -> tuple[Term, Term]:
    """Return (values ascending as a row, vectors as columns) of symmetric matrices in float64."""
    n, _ = static_sizes(a, _MOST)
    vectors = constant(a, np.eye(n))
    for number, partner in enumerate(_rounds(n) * _SWEEPS if n > 1 else []):
        rotation = _rotation(a, partner)
        a = product(product(transposed(rotation), a), rotation)
        vectors = product(vectors, rotation) if number else rotation
    values = total(a * constant(a, np.eye(n)), -2)
    if n < 2:
        return values, spread_like(vectors, a)
    count = a.b.constant([n])
    values, order = (Term(a.b, v) for v in a.b.ops("TopK", values.value, count, outputs=2, largest=0))
    return values, gathered(vectors, order, -1)


def _infer_eigen(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    a, shape = types[0], matrix_shape(types[0], square=True)
    return [a if a is None or shape is None else a.with_shape(shape[:-1]), a]


def _expand_eigen(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    values, vectors = _eigen(symmetric(a.cast("float64"), upper=bool(operator.int("upper"))))
    return [without(values, -2).cast(a.dtype).value, vectors.cast(a.dtype).value]


TABLE.add(
    "SymmetricEigen",
    inputs="A",
    outputs="values vectors",
    attributes=[AttributeSpec("upper", "int", default=0)],
    infer=_infer_eigen,
    expand=_expand_eigen,
    summary="eigenvalues of symmetric matrices, ascending, and the vectors as columns, of either sign",
    traits=_HEAVY,
)


# -- singular values -------------------------------------------------------------------------------------


def _backwards(row: Term, count: int, n: int) -> Term:
    """Return the last so many of a row or of columns, the last first."""
    b = row.b
    bounds = [b.constant([bound]) for bound in (-1, -1 - count if count < n else -(2**31), -1, -1)]
    return Term(b, b.op("Slice", row.value, *bounds))


def _singular(a: Term) -> tuple[Term, Term]:
    """Return (singular values descending as a row, right vectors as columns) in float64."""
    rows, columns = static_sizes(a, _MOST)
    values, vectors = _eigen(product(transposed(a), a))
    count = min(rows, columns)
    return sqrt(_backwards(values, count, columns).clip(low=0.0)), _backwards(vectors, count, columns)


def _infer_singular(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    a, shape = types[0], matrix_shape(types[0])
    if a is None or shape is None:
        return [a]
    return [a.with_shape((*shape[:-2], least(*shape[-2:])))]


def _expand_singular(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    rows, columns = static_sizes(a, _MOST)
    if not rows or not columns:
        return [empty_of(a).value]
    narrow = transposed(a) if columns > rows else a
    return [without(_singular(narrow.cast("float64"))[0], -2).cast(a.dtype).value]


TABLE.add(
    "SingularValues",
    inputs="A",
    infer=_infer_singular,
    expand=_expand_singular,
    summary="singular values of A, descending",
    traits=_HEAVY,
)


def _infer_inverse(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    a, shape = types[0], matrix_shape(types[0])
    if a is None or shape is None:
        return [a]
    return [a.with_shape((*shape[:-2], shape[-1], shape[-2]))]


def _expand_inverse(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """V S**-2 (A V).T of the singular values that count."""
    a, atol, rtol = terms_of(b, operands)
    if 0 in static_sizes(a, _MOST):
        return [transposed(a).value]
    wide = a.cast("float64")
    sizes, right = _singular(wide)
    relative = within(within(rtol.cast("float64"), -1), -1) * part(sizes, -1, 0, 1)
    kept = sizes > maximum(within(within(atol.cast("float64"), -1), -1), relative)
    inverse = where(kept, 1.0 / where(kept, sizes, 1.0) ** 2.0, 0.0)
    return [product(right * inverse, transposed(product(wide, right))).cast(a.dtype).value]


TABLE.add(
    "PseudoInverse",
    inputs="A atol rtol",
    infer=_infer_inverse,
    expand=_expand_inverse,
    summary="the pseudo-inverse of A, of the singular values above atol and above rtol times the largest",
    traits=_HEAVY,
)
