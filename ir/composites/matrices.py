"""Stacks of matrices: their typing rules, and the steps of which factorisations are made.

A matrix is the last two axes of a tensor; axes before them are a batch, which may be symbolic. Expansions are
unrolled, an iteration a row or column, and computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..dims import broadcast, differ
from ..errors import BackendError
from ..types import Array, TensorType
from .base import Expand
from .terms import Term, terms_of, where, whole

if TYPE_CHECKING:
    from ..builder import Builder
    from ..dims import Dim
    from ..nodes import Operator, Value

MOST = 64
"""The most rows or columns of a matrix of which every step is written out."""

Infer = Callable[["Operator", Sequence["TensorType | None"]], "list[TensorType | None]"]


# -- types -----------------------------------------------------------------------------------------------


def matrix_shape(given: TensorType | None, *, square: bool = False) -> tuple[Dim, ...] | None:
    """Return the shape of a stack of matrices; None where it is unknown.

    Raises:
        ValueError: for other element types than floating-point numbers, or another shape.
    """
    if given is None:
        return None
    if not given.dtype.startswith(("float", "bfloat")):
        raise ValueError(f"expected floating-point numbers, got {given.dtype}")
    if given.shape is None:
        return None
    if len(given.shape) < 2 or (square and differ(given.shape[-2], given.shape[-1])):
        raise ValueError(f"expected {'square matrices' if square else 'matrices'}, got {given}")
    return given.shape


def infer_square(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    """Square matrices, which give matrices of the same shape.

    Raises:
        ValueError: for anything else.
    """
    matrix_shape(types[0], square=True)
    return [types[0]]


def infer_per_matrix(*dtypes: str) -> Infer:
    """Square matrices, which give numbers: of these element types, or of their own where that is empty."""

    def infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
        given, shape = types[0], matrix_shape(types[0], square=True)
        if given is None:
            return [None] * len(dtypes)
        batch = None if shape is None else shape[:-2]
        return [TensorType(dtype or given.dtype, batch) for dtype in dtypes]

    return infer


def infer_solution(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    """Square matrices and right sides of as many rows: the right sides' columns, in a batch that both share.

    Raises:
        ValueError: where the two do not fit.
    """
    left, right = types[0], types[-1]
    coefficients, sides = matrix_shape(left, square=True), matrix_shape(right)
    if left is None or right is None:
        return [right if right is None else right.with_shape(None)]
    if left.dtype != right.dtype:
        raise ValueError(f"expected operands of one element type, got {left.dtype} and {right.dtype}")
    if coefficients is None or sides is None:
        return [right.with_shape(None)]
    if differ(coefficients[-1], sides[-2]):
        raise ValueError(f"expected right sides of as many rows as {left} has, got {right}")
    return [right.with_shape((*broadcast(coefficients[:-2], sides[:-2]), *sides[-2:]))]


def least(rows: Dim, columns: Dim) -> Dim:
    """Return the smaller of two sizes; None where that depends on a symbol."""
    if rows == columns:
        return rows
    return min(rows, columns) if isinstance(rows, int) and isinstance(columns, int) else None


# -- formulas --------------------------------------------------------------------------------------------


def static_sizes(x: Term, most: int = MOST) -> tuple[int, int]:
    """Return the numbers of rows and columns.

    Raises:
        BackendError: when they are symbolic, or more than are written out.
    """
    known = x.b.type_of(x.value)
    rows, columns = (known.shape or (None, None))[-2:]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise BackendError(
            "E602",
            f"expected matrices of a static size, got {known}",
            hint="give the input sizes with --input",
        )
    if max(rows, columns) > most:
        raise BackendError(
            "E602",
            f"expected matrices of at most {most} rows and columns, whose steps are written out, got {known}",
            hint="save for a target that has the operator, or compute it outside the model",
        )
    return rows, columns


def constant(like: Term, array: Array) -> Term:
    """Return an array as a constant beside a term."""
    return Term(like.b, like.b.constant(array))


def places(count: int, *, axis: int) -> Array:
    """Return the numbers from 0 on as a column (axis -2) or a row (axis -1)."""
    return np.arange(count).reshape((-1, 1) if axis == -2 else (1, -1))


def identity(like: Term, rows: int, columns: int) -> Term:
    """Return the identity, or as much of it as there is room for, in a term's element type."""
    return constant(like, np.eye(rows, columns)).cast(like.dtype)


def part(x: Term, axis: int, start: int, end: int) -> Term:
    """Slice between two places along an axis."""
    return x.op("Slice", *(whole(x, n) for n in (start, end, axis)))


def column(x: Term, at: int) -> Term:
    """Return one column, as a matrix."""
    return part(x, -1, at, at + 1)


def row(x: Term, at: int) -> Term:
    """Return one row, as a matrix."""
    return part(x, -2, at, at + 1)


def transposed(x: Term) -> Term:
    """Return the matrices with rows for columns."""
    rank = x.b.type_of(x.value).rank
    assert rank is not None
    return x.op("Transpose", perm=[*range(rank - 2), rank - 1, rank - 2])


def product(x: Term, y: Term) -> Term:
    """Return the product of matrices."""
    return x.op("MatMul", y)


def total(x: Term, axis: int, *, keep: bool = True) -> Term:
    """Return the sum along an axis."""
    return x.op("ReduceSum", whole(x, axis), keepdims=int(keep))


def joined(terms: Sequence[Term], axis: int) -> Term:
    """Terms one after the other along an axis."""
    if len(terms) == 1:
        return terms[0]
    return terms[0].op("Concat", *terms[1:], axis=axis)


def without(x: Term, axis: int) -> Term:
    """Return the term without an axis of size 1."""
    return x.op("Squeeze", whole(x, axis))


def within(x: Term, axis: int) -> Term:
    """Return the term with an axis of size 1."""
    return x.op("Unsqueeze", whole(x, axis))


def empty_of(a: Term) -> Term:
    """Return the numbers, one a step, of matrices without rows or without columns: none for each."""
    return total(a, -2 if static_sizes(a)[0] else -1, keep=False)


def symmetric(a: Term, *, upper: bool = False) -> Term:
    """Return the matrices of which one triangle alone is read."""
    half = transposed(a) if upper else a
    lower = half.op("Trilu", upper=0)
    return lower + transposed(half.op("Trilu", constant(a, np.array(-1)), upper=0))


def spread_like(x: Term, shaped: Term) -> Term:
    """Return the term spread to another's shape."""
    return x.op("Expand", shaped.op("Shape"))


def in_batch_of(x: Term, other: Term) -> Term:
    """Matrices repeated for every matrix of another's batch; themselves where they have that already."""
    b = x.b
    own, wanted = (b.type_of(t.value).shape or () for t in (x, other))
    batch = broadcast(own[:-2], wanted[:-2])
    if len(wanted) == 2 or (own[:-2] == batch and None not in batch):
        return x
    if all(isinstance(size, int) for size in batch):
        shape = b.constant([*batch, 1, 1])
    else:
        stay = [size if isinstance(size, int) else 1 for size in own[-2:]]  # 1 stays too, but for MindSpore
        shape = b.op("Concat", b.op("Shape", other.value, end=-2), b.constant(stay), axis=0)
    known = b.type_of(x.value).with_shape((*batch, *own[-2:]))
    return Term(b, b.op("Expand", x.value, shape, types=[known]))


def gathered(x: Term, order: Term, axis: int) -> Term:
    """Return the term with its rows (axis -2) or columns (axis -1) in the order of a column or a row."""
    return x.op("GatherElements", spread_like(order, x), axis=axis)


def pivot_of(a: Term, step: int, rows: int) -> Term:
    """Return the place of the largest element of a column from the diagonal on, as a 1x1 matrix."""
    sizes, reached = abs(column(a, step)), constant(a, places(rows, axis=-2) >= step)
    return where(reached, sizes, -1).op("ArgMax", axis=-2, keepdims=1)


def swapped(a: Term, step: int, pivot: Term, rows: int) -> Term:
    """Return the matrices with a row and that of its pivot in each other's place."""
    at = places(rows, axis=-2)
    numbers = constant(a, at)
    order = where(constant(a, at == step), pivot, where(numbers.equals(pivot), step, numbers))
    return gathered(a, order, -2)


def of_matrices(function: Callable[..., Term], most: int = MOST) -> Expand:
    """Return the expansion that a formula of all operands is, in float64 and given in their own type."""

    def expand(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
        terms = terms_of(b, operands)
        static_sizes(terms[0], most)
        return [function(*(x.cast("float64") for x in terms)).cast(terms[0].dtype).value]

    return expand
