"""Linear algebra of small matrices, unrolled: elimination, substitution; pivots are chosen as data say.

Torch's own decompositions, where there are any, end in kernels of LAPACK's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .table import Expansions, Inexpressible

table = Expansions()

_LARGEST = 16


def _order(a: Tensor) -> int:
    n = a.shape[-1]
    if not isinstance(n, int) or n > _LARGEST:
        raise Inexpressible(f"its matrices are larger than {_LARGEST} or symbolic: elimination is unrolled")
    return n


def _eliminated(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(solution of a x = b, det a) by Gauss-Jordan elimination with partial pivoting, in float64."""
    n = _order(a)
    kind = a.dtype
    work = torch.cat([a.double(), b.double()], -1)
    determinant = torch.ones(a.shape[:-2], dtype=torch.float64)
    rows = torch.arange(n)
    for k in range(n):
        column = torch.where(rows >= k, work[..., k].abs(), -1.0)
        pivot = column.argmax(-1, keepdim=True)  # (..., 1)
        swap = torch.where(rows == k, pivot, torch.where(rows == pivot, k, rows))
        work = work.gather(-2, swap.unsqueeze(-1).expand(work.shape))
        head = work[..., k : k + 1, :]
        lead = head[..., k]
        determinant = determinant * torch.where(pivot.squeeze(-1) == k, 1.0, -1.0) * lead.squeeze(-1)
        head = head / lead.unsqueeze(-1)
        own = (rows == k).unsqueeze(-1)
        work = torch.where(own, head, work - work[..., k : k + 1] * head)
    return work[..., n:].to(kind), determinant.to(kind)


def _solved(a: Tensor, b: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _eliminated(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))[0]


@table.of("aten._linalg_solve_ex.default")
def solve_ex(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The solution, the factors and pivots of a, and no error."""
    del check_errors
    return linalg_solve(a, b, left=left), *factored(a), torch.zeros(a.shape[:-2], dtype=torch.int32)


@table.of("aten.linalg_solve.default")
def linalg_solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """The solution of a x = b or x a = b; a vector where b has one axis less."""
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    b = b.unsqueeze(-1) if vector else b
    found = _solved(a, b) if left else _solved(a.mT, b.mT).mT
    return found.squeeze(-1) if vector else found


@table.of("aten.linalg_solve_ex.default")
def linalg_solve_ex(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """The solution, and no error."""
    del check_errors
    return linalg_solve(a, b, left=left), torch.zeros(a.shape[:-2], dtype=torch.int32)


@table.of("aten.linalg_inv_ex.default")
def linalg_inv_ex(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """The inverse, and no error."""
    del check_errors
    return linalg_inv(a), torch.zeros(a.shape[:-2], dtype=torch.int32)


@table.of("aten.linalg_inv.default", "aten.inverse.default")
def linalg_inv(a: Tensor) -> Tensor:
    """The inverse."""
    return _solved(a, torch.eye(_order(a), dtype=a.dtype))


@table.of("aten.linalg_det.default", "aten.det.default")
def linalg_det(a: Tensor) -> Tensor:
    """The determinant."""
    return _eliminated(a, a[..., :0])[1] if a.shape[-1] else torch.ones(a.shape[:-2], dtype=a.dtype)


@table.of("aten.linalg_slogdet.default", "aten.slogdet.default")
def linalg_slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    """The determinant's sign and the logarithm of its size."""
    determinant = linalg_det(a)
    return determinant.sign(), determinant.abs().log()


@table.of("aten.logdet.default")
def logdet(a: Tensor) -> Tensor:
    """The logarithm of the determinant."""
    return linalg_det(a).log()


@table.of("aten.linalg_matrix_power.default", "aten.matrix_power.default")
def linalg_matrix_power(a: Tensor, n: int) -> Tensor:
    """A whole power, by squaring."""
    if n == 0:
        return torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)
    base, found = (linalg_inv(a) if n < 0 else a), None
    n = abs(n)
    while n:
        if n & 1:
            found = base if found is None else found @ base
        n >>= 1
        base = base @ base if n else base
    assert found is not None
    return found


# -- triangular matrices -----------------------------------------------------------------------------


@table.of("aten.linalg_solve_triangular.default")
def linalg_solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Substitution, row by row."""
    if not left:
        return linalg_solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    n = _order(a)
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    rows: dict[int, Tensor] = {}
    for i in reversed(range(n)) if upper else range(n):
        row = b[..., i : i + 1, :]
        for j, known in rows.items():
            row = row - a[..., i : i + 1, j : j + 1] * known
        rows[i] = row if unitriangular else row / a[..., i : i + 1, i : i + 1]
    return torch.cat([rows[i] for i in range(n)], -2) if n else b


@table.of("aten.triangular_solve.default")
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """The older form, which gives the coefficients back."""
    matrix, side = (a.mT, not upper) if transpose else (a, upper)
    found = linalg_solve_triangular(matrix, b, upper=side, unitriangular=unitriangular)
    return found, a.expand(*found.shape[:-2], *a.shape[-2:]).clone()


def _cholesky(a: Tensor) -> Tensor:
    """The lower factor, column by column."""
    n = _order(a)
    columns: list[Tensor] = []
    below = torch.arange(n)
    for j in range(n):
        rest = a[..., :, j]
        for column in columns:
            rest = rest - column * column[..., j : j + 1]
        pivot = torch.sqrt(rest[..., j : j + 1])
        columns.append(torch.where(below > j, rest / pivot, torch.where(below == j, pivot, 0.0)))
    return torch.stack(columns, -1) if columns else a


@table.of("aten.linalg_cholesky_ex.default")
def linalg_cholesky_ex(
    a: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """The factor, and no error."""
    del check_errors
    return cholesky(a, upper), torch.zeros(a.shape[:-2], dtype=torch.int32)


@table.of("aten.cholesky.default")
def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    """The lower or upper factor of a positive definite matrix."""
    factor = _cholesky(a.mT if upper else a)
    return factor.mT if upper else factor


@table.of("aten.linalg_cholesky.default")
def linalg_cholesky(a: Tensor, *, upper: bool = False) -> Tensor:
    """The same."""
    return cholesky(a, upper)


@table.of("aten.cholesky_solve.default")
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """The solution, given a factor."""
    lower = factor.mT if upper else factor
    half = linalg_solve_triangular(lower, b, upper=False)
    return linalg_solve_triangular(lower.mT, half, upper=True)


@table.of("aten.cholesky_inverse.default")
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """The inverse, given a factor."""
    return cholesky_solve(torch.eye(_order(factor), dtype=factor.dtype).expand(factor.shape), factor, upper)


def factored(a: Tensor) -> tuple[Tensor, Tensor]:
    """(L and U in one matrix, LAPACK's pivots counted from 1), by elimination with partial pivoting."""
    rows_count, columns = a.shape[-2:]
    steps = min(_order(a.mT), _order(a))
    rows, pivots = torch.arange(rows_count), []
    for k in range(steps):
        column = torch.where(rows >= k, a[..., k].abs(), -1.0)
        pivot = column.argmax(-1, keepdim=True)
        pivots.append(pivot)
        swap = torch.where(rows == k, pivot, torch.where(rows == pivot, k, rows))
        a = a.gather(-2, swap.unsqueeze(-1).expand(a.shape))
        head = a[..., k : k + 1, :]
        factor = torch.where(rows > k, a[..., k] / head[..., k], 0.0).unsqueeze(-1)
        right = torch.arange(columns) > k
        reduced = torch.where(right, a - factor * head, a)
        below = (rows > k).unsqueeze(-1) & (torch.arange(columns) == k)
        a = torch.where(below, factor, reduced)
    if not pivots:
        return a, torch.zeros([*a.shape[:-2], 0], dtype=torch.int32)
    return a, (torch.cat(pivots, -1) + 1).to(torch.int32)


@table.of("aten.linalg_lu_factor_ex.default")
def linalg_lu_factor_ex(
    a: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Factors and pivots, and no error."""
    del check_errors
    if not pivot:
        raise Inexpressible("it does not pivot")
    return *factored(a), torch.zeros(a.shape[:-2], dtype=torch.int32)


@table.of("aten.linalg_lu_factor.default")
def linalg_lu_factor(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """Factors and pivots."""
    return linalg_lu_factor_ex(a, pivot=pivot)[:2]


@table.of("aten._lu_with_info.default")
def lu_with_info(a: Tensor, pivot: bool = True, check_errors: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The older form."""
    return linalg_lu_factor_ex(a, pivot=pivot, check_errors=check_errors)


def permuted(pivots: Tensor, n: int, inverse: bool) -> Tensor:
    """The rows' order that LAPACK's pivots (counted from 1) stand for."""
    rows = torch.arange(n).expand(*pivots.shape[:-1], n)
    at = torch.arange(n)
    for k in reversed(range(pivots.shape[-1])) if inverse else range(pivots.shape[-1]):
        other = pivots[..., k : k + 1].to(torch.int64) - 1
        swap = torch.where(at == k, other, torch.where(at == other, k, at))
        rows = rows.gather(-1, swap)
    return rows


def _lu_solved(lu: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    n = _order(lu)
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b = b.expand(*batch, *b.shape[-2:])
    order = permuted(pivots, n, inverse=adjoint).expand(*batch, n).unsqueeze(-1).expand(b.shape)
    if not adjoint:
        half = linalg_solve_triangular(lu, b.gather(-2, order), upper=False, unitriangular=True)
        return linalg_solve_triangular(lu, half, upper=True)
    half = linalg_solve_triangular(lu.mT, b, upper=False)
    return linalg_solve_triangular(lu.mT, half, upper=True, unitriangular=True).gather(-2, order)


@table.of("aten.linalg_lu_solve.default")
def linalg_lu_solve(
    lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """The solution, given factors and pivots."""
    return _lu_solved(lu, pivots, b, adjoint) if left else _lu_solved(lu, pivots, b.mT, not adjoint).mT


@table.of("aten.matrix_exp.default", "aten.linalg_matrix_exp.default")
def matrix_exp(a: Tensor) -> Tensor:
    """The exponential: a Taylor series of a scaled matrix, squared back; in float64."""
    kind, scalings, terms = a.dtype, 12, 12
    x = a.double() / 2**scalings
    one = torch.eye(a.shape[-1], dtype=torch.float64)
    found = one + x / terms
    for k in range(terms - 1, 0, -1):
        found = one + (x @ found) / k
    for _ in range(scalings):
        found = found @ found
    return found.to(kind)


@table.of("aten._cdist_forward.default")
def cdist_forward(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """Distances of all pairs of rows, element by element."""
    del compute_mode
    difference = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    if p == 0:
        return (difference != 0).to(x.dtype).sum(-1)
    if p == 1:
        return difference.sum(-1)
    if p == 2:
        return (difference * difference).sum(-1).sqrt()
    if math.isinf(p):
        return difference.amax(-1)
    return difference.pow(p).sum(-1).pow(1 / p)


@table.of("aten._pdist_forward.default")
def pdist_forward(x: Tensor, p: float = 2) -> Tensor:
    """Distances of pairs of rows, each pair once."""
    n = x.shape[0]
    if not isinstance(n, int):
        raise Inexpressible("the number of its rows is symbolic")
    if n < 2:
        return x.new_zeros(0)
    all_pairs = cdist_forward(x, x, p, None)
    return torch.cat([all_pairs[i, i + 1 :] for i in range(n - 1)])
