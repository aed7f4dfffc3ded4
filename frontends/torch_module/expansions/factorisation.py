"""Factorisations of small matrices, unrolled and in float64: QR, LU, and singular and eigenvalues.

Where the signs of vectors are LAPACK's choice (singular and eigenvectors), only what does not depend on them.
Torch's own decompositions, where there are any, end in kernels of LAPACK's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .linalg import factored, permuted
from .table import Expansions, Inexpressible

table = Expansions()

_LARGEST = 16
_SWEEPS = 6
"""Each squares what is off the diagonal, after the first few: enough for float32 at this size."""

_TINY = 1e-150


def _sizes(a: Tensor) -> tuple[int, int]:
    rows, columns = a.shape[-2:]
    if not (isinstance(rows, int) and isinstance(columns, int)) or max(rows, columns) > _LARGEST:
        raise Inexpressible(f"its matrices are larger than {_LARGEST} or symbolic: it is unrolled")
    return rows, columns


# -- reflections -------------------------------------------------------------------------------------


def _reflected(a: Tensor) -> tuple[Tensor, Tensor]:
    """LAPACK's geqrf: R with the reflectors below its diagonal, and their factors."""
    rows, columns = _sizes(a)
    kind, a = a.dtype, a.double()
    row, column = torch.arange(rows), torch.arange(columns)
    factors: list[Tensor] = []
    for k in range(min(rows, columns)):
        own = a[..., k]
        below = torch.where(row > k, own, 0.0)
        alpha, rest = own[..., k : k + 1], (below * below).sum(-1, keepdim=True)
        size = torch.sqrt(alpha * alpha + rest)
        none = rest == 0
        beta = torch.where(none, alpha, torch.where(alpha < 0, size, -size))
        factor = torch.where(none, 0.0, (beta - alpha) / torch.where(none, 1.0, beta))
        vector = torch.where(row == k, 1.0, below / torch.where(none, 1.0, alpha - beta))
        turned = _turned(a, vector, factor)
        packed = torch.where(row > k, vector, torch.where(row == k, beta, own))
        a = torch.where(column > k, turned, torch.where(column == k, packed.unsqueeze(-1), a))
        factors.append(factor)
    together = torch.cat(factors, -1) if factors else a.new_zeros([*a.shape[:-2], 0])
    return a.to(kind), together.to(kind)


def _turned(a: Tensor, vector: Tensor, factor: Tensor) -> Tensor:
    """A reflection from the left: (1 - factor v vᵀ) a."""
    v = vector.unsqueeze(-1)
    return a - factor.unsqueeze(-1) * v * (v * a).sum(-2, keepdim=True)


def _product(reflectors: Tensor, factors: Tensor, a: Tensor, transposed: bool) -> Tensor:
    """Q a or Qᵀ a, of the Q that reflectors below a diagonal stand for."""
    rows, _ = _sizes(reflectors)
    row, kind, a = torch.arange(rows), a.dtype, a.double()
    steps = range(factors.shape[-1])
    for k in steps if transposed else reversed(steps):
        vector = torch.where(row == k, 1.0, torch.where(row > k, reflectors[..., k].double(), 0.0))
        a = _turned(a, vector, factors[..., k : k + 1].double())
    return a.to(kind)


@table.of("aten.geqrf.default")
def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """Reflectors and factors."""
    return _reflected(a)


@table.of("aten.linalg_householder_product.default", "aten.orgqr.default")
def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """The first columns of Q."""
    start = torch.eye(*_sizes(a), dtype=a.dtype).expand(a.shape)
    return _product(a, tau, start, transposed=False)


@table.of("aten.ormqr.default")
def ormqr(a: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """A product with Q or its transpose."""
    return _product(a, tau, other, transpose) if left else _product(a, tau, other.mT, not transpose).mT


@table.of("aten.linalg_qr.default")
def linalg_qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Q and R, with the signs of LAPACK; of mode "r" only R."""
    rows, columns = _sizes(a)
    packed, factors = _reflected(a)
    wanted = rows if mode == "complete" else min(rows, columns)
    right = torch.triu(packed[..., :wanted, :])
    if mode == "r":
        return a.new_zeros(0), right
    start = torch.eye(rows, wanted, dtype=a.dtype).expand(*a.shape[:-2], rows, wanted)
    return _product(packed, factors, start, transposed=False), right


@table.of("aten.qr.default")
def qr(a: Tensor, some: bool = True) -> tuple[Tensor, Tensor]:
    """The older form."""
    return linalg_qr(a, "reduced" if some else "complete")


# -- elimination -------------------------------------------------------------------------------------


@table.of("aten.lu_unpack.default")
def lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U of factors and LAPACK's pivots; what is not asked for is empty."""
    rows, columns = _sizes(lu)
    least, empty = min(rows, columns), lu.new_zeros(0)
    order = permuted(pivots, rows, inverse=False)
    places = (order.unsqueeze(-2) == torch.arange(rows).unsqueeze(-1)).to(lu.dtype)
    lower = torch.tril(lu[..., :least], -1) + torch.eye(rows, least, dtype=lu.dtype)
    upper = torch.triu(lu[..., :least, :])
    data = (lower, upper) if unpack_data else (empty, empty)
    return places if unpack_pivots else empty, *data


@table.of("aten.linalg_lu.default")
def linalg_lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U."""
    if not pivot:
        raise Inexpressible("it does not pivot")
    return lu_unpack(*factored(a))


# -- eigenvalues -------------------------------------------------------------------------------------


def _rounds(n: int) -> list[list[int]]:
    """Every pair of n places once, in rounds: the partner of each place, itself where it has none."""
    players = [*range(n), *([-1] if n % 2 else [])]
    half, found = len(players) // 2, []
    for _ in range(len(players) - 1):
        partner = list(range(n))
        for a, b in zip(players[:half], reversed(players[half:]), strict=True):
            if a >= 0 and b >= 0:
                partner[a], partner[b] = b, a
        found.append(partner)
        players = [players[0], players[-1], *players[1:-1]]
    return found


def _eigen(a: Tensor) -> tuple[Tensor, Tensor]:
    """(values ascending, vectors as columns) of symmetric matrices, by Jacobi's rotations, in float64."""
    n, _ = _sizes(a)
    a = a.double()
    one = torch.eye(n, dtype=torch.float64)
    vectors = one.expand(a.shape)
    if n == 0:
        return a.new_zeros(a.shape[:-1]), vectors
    for partner in _rounds(n) * _SWEEPS:
        at, place = torch.tensor(partner), torch.arange(n)
        pairs = one[at] * (at != place).double().unsqueeze(-1)
        first = (2 * (place < at).double() - 1) * _TINY  # which way a tie turns
        diagonal, beside = (a * one).sum(-1), (a * pairs).sum(-1)
        apart = diagonal[..., at] - diagonal + first
        tangent = 2 * beside * torch.sign(apart)
        tangent = tangent / (apart.abs() + torch.sqrt(apart * apart + 4 * beside * beside))
        cosine = 1 / torch.sqrt(1 + tangent * tangent)
        rotation = one * cosine.unsqueeze(-1) + pairs * (tangent * cosine).unsqueeze(-1)
        a = rotation.mT @ a @ rotation
        vectors = vectors @ rotation
    values, order = torch.sort((a * one).sum(-1), -1)
    return values, vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape))


def _symmetric(a: Tensor, uplo: str) -> Tensor:
    """The matrices of which only one triangle is read."""
    part = a.mT if uplo.upper() == "U" else a
    return torch.tril(part) + torch.tril(part, -1).mT


@table.of("aten.linalg_eigvalsh.default")
def linalg_eigvalsh(a: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803 - torch's name
    """The eigenvalues, ascending."""
    return _eigen(_symmetric(a, UPLO))[0].to(a.dtype)


@table.of("aten._linalg_eigh.default")
def linalg_eigh_values(
    a: Tensor,
    UPLO: str = "L",  # noqa: N803 - torch's name
    compute_v: bool = True,
) -> tuple[Tensor, Tensor]:
    """The eigenvalues, where nobody asks for the vectors."""
    if compute_v:
        raise Inexpressible(_SIGNS)
    return linalg_eigvalsh(a, UPLO), a.new_zeros(0)


_SIGNS = "the signs of its vectors are LAPACK's choice; its values alone (eigvalsh, svdvals) can be read"


@table.of("aten.linalg_eigh.default", "aten.linalg_svd.default")
def with_vectors(a: Tensor, *options: object, **others: object) -> Sequence[Tensor]:
    """Refused."""
    del a, options, others
    raise Inexpressible(_SIGNS)


@table.of("aten.svd.default")
def svd(a: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular values, with zeros in the place of the vectors, as torch has it."""
    if compute_uv:
        raise Inexpressible(_SIGNS)
    del some
    rows, columns = a.shape[-2:]
    u, v = (a.new_zeros([*a.shape[:-2], n, n]) for n in (rows, columns))
    return u, linalg_svdvals(a), v


@table.of("aten.linalg_svdvals.default")
def linalg_svdvals(a: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, descending."""
    del driver
    return _singular(a)[0].to(a.dtype)


@table.of("aten._linalg_svd.default")
def linalg_svd_values(
    a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The singular values, where nobody asks for the vectors."""
    del full_matrices, driver
    if compute_uv:
        raise Inexpressible(_SIGNS)
    return a.new_zeros(0), linalg_svdvals(a), a.new_zeros(0)


def _singular(a: Tensor) -> tuple[Tensor, Tensor]:
    """(singular values descending, right singular vectors as columns), in float64."""
    rows, columns = _sizes(a)
    wide = a.double()
    values, vectors = _eigen(wide.mT @ wide)
    least = min(rows, columns)
    sizes = torch.sqrt(torch.clamp(values, min=0)).flip(-1)
    return sizes[..., :least], vectors.flip(-1)[..., :least]


def _kept(sizes: Tensor, a: Tensor, atol: Tensor | float | None, rtol: Tensor | float | None) -> Tensor:
    """Which singular values are above the tolerances; the usual one is relative to the largest."""
    usual = max(_sizes(a)) * torch.finfo(a.dtype).eps
    floor = torch.zeros((), dtype=torch.float64) if atol is None else torch.as_tensor(atol).double()
    ratio = torch.where(floor > 0, 0.0, usual) if rtol is None else torch.as_tensor(rtol).double()
    return sizes > torch.maximum(floor.unsqueeze(-1), ratio.unsqueeze(-1) * sizes[..., :1])


@table.of("aten.linalg_matrix_rank.atol_rtol_tensor", "aten.linalg_matrix_rank.atol_rtol_float")
def linalg_matrix_rank(
    a: Tensor,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
    hermitian: bool = False,
) -> Tensor:
    """How many singular values are above a tolerance."""
    if 0 in _sizes(a):
        return a.new_zeros(a.shape[:-2], dtype=torch.int64)
    sizes, _ = _singular(_symmetric(a, "L") if hermitian else a)
    return _kept(sizes, a, atol, rtol).sum(-1)


@table.of("aten.linalg_matrix_rank.default", "aten.linalg_matrix_rank.tol_tensor")
def linalg_matrix_rank_tol(a: Tensor, tol: Tensor | float, hermitian: bool = False) -> Tensor:
    """The older form."""
    return linalg_matrix_rank(a, atol=tol, rtol=0.0, hermitian=hermitian)


def _pseudo_inverse(a: Tensor, atol: Tensor | float | None, rtol: Tensor | float | None) -> Tensor:
    if 0 in _sizes(a):
        return a.mT
    sizes, right = _singular(a)
    kept = _kept(sizes, a, atol, rtol)
    inverse = torch.where(kept, 1 / torch.where(kept, sizes, 1.0) ** 2, 0.0)
    return ((right * inverse.unsqueeze(-2)) @ (a.double() @ right).mT).to(a.dtype)


@table.of("aten.linalg_pinv.atol_rtol_tensor", "aten.linalg_pinv.atol_rtol_float")
def linalg_pinv(
    a: Tensor,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
    hermitian: bool = False,
) -> Tensor:
    """The pseudo-inverse: V S⁻² (A V)ᵀ, of the singular values above a tolerance."""
    return _pseudo_inverse(_symmetric(a, "L") if hermitian else a, atol, rtol)


@table.of("aten.linalg_pinv.default")
def linalg_pinv_rcond(a: Tensor, rcond: float = 1e-15, hermitian: bool = False) -> Tensor:
    """The older form."""
    return linalg_pinv(a, atol=0.0, rtol=rcond, hermitian=hermitian)


@table.of("aten.pinverse.default")
def pinverse(a: Tensor, rcond: float = 1e-15) -> Tensor:
    """The oldest form."""
    return linalg_pinv_rcond(a, rcond)


@table.of("aten.linalg_matrix_norm.str_ord")
def linalg_matrix_norm(
    a: Tensor,
    ord: str = "fro",  # noqa: A002 - torch's name
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The norms with names: Frobenius's, and the sum of the singular values."""
    a = a if dtype is None else a.to(dtype)
    if ord == "fro":
        return torch.linalg.vector_norm(a, 2, dim, keepdim)
    found = linalg_svdvals(a.movedim(tuple(dim), (-2, -1))).sum(-1)
    for axis in sorted(d % a.dim() for d in dim) if keepdim else ():
        found = found.unsqueeze(axis)
    return found
