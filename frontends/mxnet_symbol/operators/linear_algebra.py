"""Linear algebra on stacks of matrices; where each gives a number, one alone gives an array of one."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...formulas import solve_by_factor, substitute, swap_last_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")
TABLE.direct({"_linalg_inverse": "regraft.Inverse"})


def _scaled(call: Call, x: Value, key: str) -> Value:
    factor = call.float(key, 1.0)
    return x if factor == 1.0 else call.op("Mul", x, call.scalar_like(factor, x))


def _number(call: Call, x: Value) -> Value:
    """Return a number for each matrix."""
    return call.op("Reshape", x, call.constant([1])) if call.rank(x) == 0 else x


def _order(call: Call, x: Value) -> int:
    """Return the number of rows of square matrices."""
    (rows,) = call.static_shape(x, [call.rank(x) - 1])
    call.bounded(rows * rows)
    return rows


# -- products --------------------------------------------------------------------------------------------


@TABLE.op("_linalg_gemm", "_linalg_gemm2")
def gemm(call: Call) -> Value:
    """Return ``alpha * A @ B``, and ``+ beta * C``, of either or both transposed."""
    rank = call.rank()
    rows = call.axis("axis", rank, -2)
    order = [*(n for n in range(rank) if n not in (rows, rank - 1)), rows, rank - 1]
    back = [order.index(n) for n in range(rank)]

    def turned(x: Value, order: list[int]) -> Value:
        return x if rows == rank - 2 else call.op("Transpose", x, perm=order)

    a, b = (
        swap_last_axes(call, turned(call.value(n), order), when=call.flag(f"transpose_{'ab'[n]}"))
        for n in (0, 1)
    )
    product = turned(_scaled(call, call.op("MatMul", a, b), "alpha"), back)
    if call.operator == "_linalg_gemm2":
        return product
    return call.op("Add", product, _scaled(call, call.value(2), "beta"))


@TABLE.op("_linalg_syrk")
def syrk(call: Call) -> Value:
    """Return ``alpha * A @ A.T``, or ``alpha * A.T @ A``."""
    a, transpose = call.value(0), call.flag("transpose")
    other = swap_last_axes(call, a)
    product = call.op("MatMul", other, a) if transpose else call.op("MatMul", a, other)
    return _scaled(call, product, "alpha")


@TABLE.op("_linalg_trmm")
def trmm(call: Call) -> Value:
    """Return a product with a triangular matrix, from the left or the right."""
    a = call.op("Trilu", call.value(0), upper=not call.flag("lower", default=True))
    a, b = swap_last_axes(call, a, when=call.flag("transpose")), call.value(1)
    product = call.op("MatMul", b, a) if call.flag("rightside") else call.op("MatMul", a, b)
    return _scaled(call, product, "alpha")


# -- equations -------------------------------------------------------------------------------------------


@TABLE.op("_linalg_trsm")
def trsm(call: Call) -> Value:
    """X with ``A @ X = alpha * B``, or ``X @ A = alpha * B``, of a triangle of A."""
    upper, right = not call.flag("lower", default=True), call.flag("rightside")
    flip = call.flag("transpose") != right
    a, b = swap_last_axes(call, call.value(0), when=flip), swap_last_axes(call, call.value(1), when=right)
    found = substitute(call, a, _scaled(call, b, "alpha"), upper=upper != flip)
    return swap_last_axes(call, found, when=right)


@TABLE.op("_linalg_potrf")
def potrf(call: Call) -> Value:
    """Cholesky's factor."""
    return call.op("regraft.Cholesky", call.value(0), upper=not call.flag("lower", default=True))


@TABLE.op("_linalg_potri")
def potri(call: Call) -> Value:
    """Return the inverse of what Cholesky's factor is of."""
    factor, upper = call.value(0), not call.flag("lower", default=True)
    one = call.constant(np.eye(_order(call, factor)), call.dtype_of(factor))
    return solve_by_factor(call, factor, one, upper=upper)


@TABLE.op("_linalg_det")
def det(call: Call) -> Value:
    """Return the determinant."""
    return _number(call, call.op("regraft.Determinant", call.value(0)))


@TABLE.op("_linalg_slogdet")
def slogdet(call: Call) -> list[Value]:
    """Return the sign of the determinant, and the logarithm of its size."""
    return [_number(call, v) for v in call.ops("regraft.LogDeterminant", call.value(0), outputs=2)]


# -- factors ---------------------------------------------------------------------------------------------


@TABLE.op("_linalg_gelqf")
def gelqf(call: Call) -> list[Value]:
    """(Q, L) of A = L @ Q, by the QR factors of the transposed matrix."""
    left, right = call.ops("regraft.QR", swap_last_axes(call, call.value(0)), outputs=2)
    return [swap_last_axes(call, left), swap_last_axes(call, right)]


@TABLE.op("_linalg_syevd")
def syevd(call: Call) -> list[Value]:
    """(eigenvectors as rows, eigenvalues); the largest element of a vector is positive."""
    values, vectors = call.ops("regraft.SymmetricEigen", call.value(0), outputs=2)
    at = call.op("ArgMax", call.op("Abs", vectors), axis=-2, keepdims=1)
    largest = call.op("GatherElements", vectors, at, axis=-2)
    return [swap_last_axes(call, call.op("Mul", vectors, call.op("Sign", largest))), values]


# -- parts of matrices -----------------------------------------------------------------------------------


def _picked(call: Call, x: Value, places: np.ndarray) -> Value:
    """Return elements of every matrix, by their places in its rows one after the other."""
    n = _order(call, x)
    flat = call.reshape(x, [*call.shape(x)[:-2], n * n])
    return call.op("Gather", flat, call.constant(places, "int64"), axis=-1)


def _placed(call: Call, x: Value, n: int, places: np.ndarray) -> Value:
    """Return matrices of n rows that have the elements at places, and zeros elsewhere."""
    call.bounded(n * n)
    source = np.full(n * n, len(places))
    source[places] = np.arange(len(places))
    pads = [0] * (2 * call.rank(x) - 1) + [1]
    padded = call.op("Pad", x, call.constant(pads), call.scalar_like(0, x))
    spread = call.op("Gather", padded, call.constant(source, "int64"), axis=-1)
    return call.reshape(spread, [*call.shape(x)[:-1], n, n])


def _diagonal_places(n: int, offset: int) -> np.ndarray:
    return np.flatnonzero(np.eye(n, k=offset).reshape(-1))


def _triangle_places(call: Call, n: int, offset: int) -> np.ndarray:
    """Return the places of a triangle: lower for an offset below 0, upper above 0, else by the flag `lower`.

    A lower triangle goes row by row, an upper one column by column.
    """
    lower = call.flag("lower", default=True)
    lower = lower if offset == 0 else offset < 0
    rows, columns = np.nonzero(np.tril(np.ones((n, n)), -abs(offset)))
    return rows * n + columns if lower else columns * n + rows


@TABLE.op("_linalg_extractdiag")
def extractdiag(call: Call) -> Value:
    """Return a diagonal of every matrix."""
    return _picked(call, call.value(0), _diagonal_places(_order(call, call.value(0)), call.int("offset", 0)))


@TABLE.op("_linalg_extracttrian")
def extracttrian(call: Call) -> Value:
    """Return a triangle of every matrix."""
    n, offset = _order(call, call.value(0)), call.int("offset", 0)
    return _picked(call, call.value(0), _triangle_places(call, n, offset))


@TABLE.op("_linalg_makediag")
def makediag(call: Call) -> Value:
    """Return matrices that have a vector on a diagonal."""
    offset, x = call.int("offset", 0), call.value(0)
    (length,) = call.static_shape(x, [call.rank(x) - 1])
    n = length + abs(offset)
    call.bounded(n * n)
    return _placed(call, x, n, _diagonal_places(n, offset))


@TABLE.op("_linalg_maketrian")
def maketrian(call: Call) -> Value:
    """Return matrices that have a vector's elements in a triangle."""
    offset, x = call.int("offset", 0), call.value(0)
    (count,) = call.static_shape(x, [call.rank(x) - 1])
    side = (int((8 * count + 1) ** 0.5) - 1) // 2
    n = side + abs(offset)
    call.bounded(n * n)
    if side * (side + 1) // 2 != count:
        raise call.unsupported(f"expected the elements of a triangle, got {count}")
    return _placed(call, x, n, _triangle_places(call, n, offset))


@TABLE.op("_linalg_sumlogdiag")
def sumlogdiag(call: Call) -> Value:
    """Return the sum of the logarithms of the main diagonal."""
    x = call.value(0)
    logarithms = call.op("Log", _picked(call, x, _diagonal_places(_order(call, x), 0)))
    return _number(call, call.op("ReduceSum", logarithms, call.constant([-1]), keepdims=0))
