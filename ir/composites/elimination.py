"""Gauss's elimination with partial pivoting: inverses, solutions, determinants, LU factors, and powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable
from .matrices import (
    column,
    constant,
    empty_of,
    identity,
    in_batch_of,
    infer_per_matrix,
    infer_solution,
    infer_square,
    joined,
    least,
    matrix_shape,
    of_matrices,
    part,
    pivot_of,
    places,
    product,
    row,
    spread_like,
    static_sizes,
    swapped,
    total,
    transposed,
    within,
    without,
)
from .terms import Term, log, terms_of, where
from .triangular import substituted

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()
_HEAVY = Traits(heavy=True)


# -- equations -------------------------------------------------------------------------------------------


def _solve(a: Term, sides: Term) -> Term:
    """Return the solution by Gauss and Jordan."""
    n, _ = static_sizes(a)
    sides = in_batch_of(sides, a)
    if not n:
        return sides
    work = joined([in_batch_of(a, sides), sides], -1)
    at = places(n, axis=-2)
    for step in range(n):
        work = swapped(work, step, pivot_of(work, step, n), n)
        head = row(work, step)
        head = head / column(head, step)
        work = where(constant(work, at == step), head, work - column(work, step) * head)
    return part(work, -1, n, 2**31 - 1)


def _inverse(a: Term) -> Term:
    return _solve(a, identity(a, *static_sizes(a)))


for _name, _inputs, _formula, _words in (
    ("Inverse", "A", _inverse, "the inverse of A"),
    ("Solve", "A B", _solve, "X with A @ X = B"),
):
    TABLE.add(
        _name,
        inputs=_inputs,
        infer=infer_square if _inputs == "A" else infer_solution,
        expand=of_matrices(_formula),
        summary=_words,
        traits=_HEAVY,
    )


# -- factors ---------------------------------------------------------------------------------------------


def _factored(a: Term) -> tuple[Term, list[Term]]:
    """Return (L and U in one matrix, the pivot of each step); a column of zeros is left as it is."""
    rows, columns = static_sizes(a)
    at, along = places(rows, axis=-2), places(columns, axis=-1)
    pivots: list[Term] = []
    for step in range(min(rows, columns)):
        pivot = pivot_of(a, step, rows)
        a = swapped(a, step, pivot, rows)
        pivots.append(pivot)
        if step == rows - 1:
            break
        head = row(a, step)
        lead = column(head, step)
        lead = where(lead.equals(0.0), 1.0, lead)
        factor = where(constant(a, at > step), column(a, step) / lead, 0.0)
        reduced = a if step == columns - 1 else where(constant(a, along > step), a - factor * head, a)
        a = where(constant(a, (at > step) & (along == step)), factor, reduced)
    return a, pivots


def _expand_lu(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    found, pivots = _factored(a.cast("float64"))
    numbers = without(joined(pivots, -2), -1) + 1 if pivots else empty_of(a)
    return [found.cast(a.dtype).value, numbers.cast("int32").value]


def _infer_lu(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    shape = matrix_shape(types[0])
    if shape is None:
        return [types[0], TensorType("int32", None)]
    return [types[0], TensorType("int32", (*shape[:-2], least(*shape[-2:])))]


def _order(pivots: Term, rows: int) -> Term:
    """The row of A that each row of L @ U is: what the swaps, in LAPACK's numbers from 1, make of it."""
    known = pivots.b.type_of(pivots.value).shape
    assert known is not None
    steps, at = known[-1], constant(pivots, np.arange(rows))
    assert isinstance(steps, int)
    order = at
    for step in range(steps):
        other = part(pivots, -1, step, step + 1).cast("int64") - 1
        swap = where(at.equals(step), other, where(at.equals(other), step, at))
        order = (
            swap if not step else Term(swap.b, swap.b.op("GatherElements", order.value, swap.value, axis=-1))
        )
    return order


def _permutation(pivots: Term, rows: int, dtype: str) -> Term:
    """P of A = P @ L @ U."""
    at = constant(pivots, np.arange(rows).reshape(-1, 1))
    return within(_order(pivots, rows), -2).equals(at).cast(dtype)


def _expand_unpack(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    lu, pivots = terms_of(b, operands)
    rows, columns = static_sizes(lu)
    inner = min(rows, columns)
    lower = part(lu, -1, 0, inner).op("Trilu", constant(lu, np.array(-1)), upper=0)
    lower = lower + identity(lu, rows, inner)
    upper = part(lu, -2, 0, inner).op("Trilu", upper=1)
    return [_permutation(pivots, rows, lu.dtype).value, lower.value, upper.value]


def _infer_unpack(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    shape, lu = matrix_shape(types[0]), types[0]
    if lu is None or shape is None:
        return [lu, lu, lu]
    *batch, rows, columns = shape
    inner = least(rows, columns)
    return [lu.with_shape((*batch, r, c)) for r, c in ((rows, rows), (rows, inner), (inner, columns))]


def _expand_lu_solve(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    lu, pivots, sides = terms_of(b, operands)
    rows, _ = static_sizes(lu)
    if not rows:
        return [in_batch_of(sides, lu).value]
    a, x = lu.cast("float64"), sides.cast("float64")
    order = _permutation(pivots, rows, "float64")
    if operator.int("transposed"):
        half = substituted(transposed(a), x, upper=False, unit=False)
        found = product(order, substituted(transposed(a), half, upper=True, unit=True))
    else:
        half = substituted(a, product(transposed(order), x), upper=False, unit=True)
        found = substituted(a, half, upper=True, unit=False)
    return [found.cast(sides.dtype).value]


TABLE.add(
    "LU",
    inputs="A",
    outputs="LU pivots",
    infer=_infer_lu,
    expand=_expand_lu,
    summary="L (below a diagonal of ones) and U of A in one, and the row, from 1, that each is swapped for",
    traits=_HEAVY,
)
TABLE.add(
    "LUUnpack",
    inputs="LU pivots",
    outputs="P L U",
    infer=_infer_unpack,
    expand=_expand_unpack,
    summary="the three factors of A = P @ L @ U",
)
TABLE.add(
    "LUSolve",
    inputs="LU pivots B",
    attributes=[AttributeSpec("transposed", "int", default=0)],
    infer=infer_solution,
    expand=_expand_lu_solve,
    summary="X with A @ X = B, or A.T @ X = B, given what LU makes of A",
    traits=_HEAVY,
)


# -- determinants ----------------------------------------------------------------------------------------


def _diagonal(a: Term) -> tuple[Term, Term]:
    """Return (the diagonal of U, a sign) per matrix, of which the product is the determinant."""
    n, _ = static_sizes(a)
    found, pivots = _factored(a)
    signs = joined([where(pivot.equals(step), 1.0, -1.0) for step, pivot in enumerate(pivots)], -2)
    return total(found * identity(found, n, n), -1, keep=False), _product_of(without(signs, -1))


def _product_of(numbers: Term) -> Term:
    return Term(numbers.b, numbers.b.op("ReduceProd", numbers.value, numbers.b.constant([-1]), keepdims=0))


def _per_matrix(a: Term, number: float) -> Value:
    """Return the same number for each."""
    return a.b.op("Expand", a.b.scalar_like(number, a.value), a.b.op("Shape", a.value, end=-2))


def _expand_determinant(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    if (b.type_of(a.value).shape or ())[-1:] == (0,):
        return [_per_matrix(a, 1)]
    if a.dtype == "float32":  # the only one that ONNX Runtime has it for
        return [a.op("Det").value]
    diagonal, sign = _diagonal(a.cast("float64"))
    return [(_product_of(diagonal) * sign).cast(a.dtype).value]


def _expand_logarithm(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    if not static_sizes(a)[0]:
        return [_per_matrix(a, 1), _per_matrix(a, 0)]
    diagonal, sign = _diagonal(a.cast("float64"))
    signs = _product_of(diagonal.op("Sign")) * sign
    return [signs.cast(a.dtype).value, total(log(abs(diagonal)), -1, keep=False).cast(a.dtype).value]


TABLE.add(
    "Determinant",
    inputs="A",
    infer=infer_per_matrix(""),
    expand=_expand_determinant,
    summary="the determinant of A",
    traits=_HEAVY,
)
TABLE.add(
    "LogDeterminant",
    inputs="A",
    outputs="sign logarithm",
    infer=infer_per_matrix("", ""),
    expand=_expand_logarithm,
    summary="the sign of the determinant of A and the logarithm of its size",
    traits=_HEAVY,
)


# -- powers ----------------------------------------------------------------------------------------------


def _expand_power(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Expand a matrix power by squaring."""
    (a,) = terms_of(b, operands)
    n, found = operator.int("n"), None
    if not n:
        rows, columns = static_sizes(a, 1 << 12)
        return [spread_like(identity(a, rows, columns), a).value]
    base = Term(b, b.op("regraft.Inverse", a.value)) if n < 0 else a
    n = abs(n)
    while n:
        if n & 1:
            found = base if found is None else product(found, base)
        n >>= 1
        base = product(base, base) if n else base
    assert found is not None
    return [found.value]


def _exponential(a: Term) -> Term:
    """Return a Taylor series of the matrix divided by a power of two, and squared back."""
    scalings, terms = 12, 12
    x = a * 2.0**-scalings
    one = identity(x, *static_sizes(x, 1 << 12))
    found = one + x / terms
    for k in range(terms - 1, 0, -1):
        found = one + product(x, found) / k
    for _ in range(scalings):
        found = product(found, found)
    return found


TABLE.add(
    "MatrixPower",
    inputs="A",
    attributes=[AttributeSpec("n", "int", required=True)],
    infer=infer_square,
    expand=_expand_power,
    summary="A @ A @ ..., n times; below zero, of the inverse",
    traits=_HEAVY,
)
TABLE.add(
    "MatrixExponential",
    inputs="A",
    infer=infer_square,
    expand=of_matrices(_exponential, 1 << 12),
    summary="1 + A + A @ A / 2 + ..., the exponential of A",
    traits=_HEAVY,
)
