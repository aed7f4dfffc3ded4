"""Cholesky's factor, and substitution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..signatures import AttributeSpec
from ..traits import Traits
from .base import CompositeTable
from .matrices import (
    column,
    constant,
    in_batch_of,
    infer_solution,
    infer_square,
    joined,
    part,
    places,
    product,
    row,
    static_sizes,
    transposed,
)
from .terms import Term, sqrt, terms_of, where

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _cholesky(a: Term) -> Term:
    """The lower factor, of which only the lower triangle is read: column by column, the rest reduced."""
    n, _ = static_sizes(a)
    if not n:
        return a
    at, columns = places(n, axis=-2), list[Term]()
    for step in range(n):
        own = column(a, step)
        factor = where(constant(a, at >= step), own / sqrt(row(own, step)), 0.0)
        columns.append(factor)
        if step < n - 1:
            a = a - product(factor, transposed(factor))
    return joined(columns, -1)


def _expand_cholesky(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    upper, dtype = operator.int("upper"), a.dtype
    a = a.cast("float64")
    factor = _cholesky(transposed(a) if upper else a)
    return [(transposed(factor) if upper else factor).cast(dtype).value]


def substituted(a: Term, sides: Term, *, upper: bool, unit: bool) -> Term:
    """The solution of triangular equations: row by row, each taken from the right sides of those left."""
    n, _ = static_sizes(a)
    if not n:
        return in_batch_of(sides, a)
    sides = in_batch_of(sides, a)
    rows: dict[int, Term] = {}
    for step in reversed(range(n)) if upper else range(n):
        own = row(sides, step)
        own = own if unit else own / part(row(a, step), -1, step, step + 1)
        rows[step] = own
        if len(rows) < n:
            sides = sides - column(a, step) * own
    return joined([rows[step] for step in range(n)], -2)


def _expand_substitution(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    a, sides = terms_of(b, operands)
    wide = a.cast("float64"), sides.cast("float64")
    found = substituted(*wide, upper=bool(operator.int("upper")), unit=bool(operator.int("unit_diagonal")))
    return [found.cast(sides.dtype).value]


TABLE.add(
    "Cholesky",
    inputs="A",
    attributes=[AttributeSpec("upper", "int", default=0)],
    infer=infer_square,
    expand=_expand_cholesky,
    summary="the triangular L with L @ L.T = A, or U with U.T @ U = A, of which that triangle of A is read",
    traits=Traits(heavy=True),
)
TABLE.add(
    "SolveTriangular",
    inputs="A B",
    attributes=[
        AttributeSpec("upper", "int", default=0),
        AttributeSpec("unit_diagonal", "int", default=0),
    ],
    infer=infer_solution,
    expand=_expand_substitution,
    summary="X with A @ X = B, of one triangle of A",
    traits=Traits(heavy=True),
)
