"""Cases of linear algebra, of distances and of norms that slices are scaled down to."""

import torch
from torch.torch_version import TorchVersion

from .case import Case, Group, J, Refused, X, Y, constant, floats

_M = floats(2, 2, 2)
_GOOD = _M.through(lambda m: m @ m.mT + 2 * torch.eye(2))
_OFF = _M.through(lambda m: m + 3 * torch.eye(2))
_RIGHT = floats(2, 2, 3, seed=1)
_BESIDE = _RIGHT.through(lambda b: b.mT)
_FACTOR = _GOOD.through(torch.linalg.cholesky)
_LU = torch.linalg.lu_factor(constant(2, 2, 2) + 3 * torch.eye(2))
_REFLECTED = torch.geqrf(constant(2, 4, 3))
_TALL = floats(2, 4, 3)
_ROWS = J.through(lambda i: i % 3)


def _first(found):
    return found[0]


def _second(found):
    return found[1]


def _solved(found):
    """Return all, or of an older torch without the factors, which are there of the transposed matrix."""
    return found if TorchVersion(torch.__version__) >= "2.12" else (found[0], found[3])


TRIANGLES = Group(
    [
        Case("aten.cholesky.default", _GOOD),
        Case("aten.linalg_cholesky_ex.default", _GOOD),
        Case("aten.linalg_cholesky_ex.default", _GOOD, upper=True),
        Case("aten.cholesky_inverse.default", _FACTOR),
        Case("aten.cholesky_solve.default", _RIGHT, _FACTOR),
        Case("aten.cholesky_solve.default", _RIGHT, _FACTOR.through(lambda f: f.mT), True),
        Case("aten.linalg_solve_triangular.default", _GOOD, _RIGHT, upper=True),
        Case("aten.linalg_solve_triangular.default", _GOOD, _BESIDE, upper=True, left=False),
        Case("aten.linalg_solve_triangular.default", _GOOD, _RIGHT, upper=False, unitriangular=True),
        Case("aten.triangular_solve.default", _RIGHT, _GOOD),
        Case("aten.triangular_solve.default", _RIGHT, _GOOD, False, True, then=_first),
        Case("aten.linalg_lu.default", _OFF),
        Case("aten.linalg_lu_factor_ex.default", _OFF),
    ],
    atol=2e-4,
)

SOLUTIONS = Group(
    [
        Case("aten._linalg_det.default", _OFF, then=_first),
        Case("aten._linalg_slogdet.default", _OFF, then=lambda found: found[:2]),
        Case("aten.linalg_inv_ex.default", _OFF),
        Case("aten._linalg_solve_ex.default", _OFF, _RIGHT, then=_solved),
        Case("aten._linalg_solve_ex.default", _OFF, _BESIDE, left=False, then=_first),
        Case("aten._linalg_solve_ex.default", _OFF, _RIGHT.through(lambda b: b[..., 0]), then=_first),
        *(Case(f"aten.{name}.default", _OFF, -2) for name in ("linalg_matrix_power", "matrix_power")),
        Case("aten.linalg_matrix_exp.default", _M.through(lambda m: m / 4)),
    ],
    atol=2e-4,
)

FIXED = Group(
    [
        Case("aten.linalg_lu_solve.default", *_LU, _RIGHT),
        Case("aten.linalg_lu_solve.default", *_LU, _BESIDE, left=False),
        Case("aten.linalg_lu_solve.default", *_LU, _RIGHT, adjoint=True),
        Case("aten.lu_unpack.default", *_LU),
        Case("aten._cdist_forward.default", X, Y, 3.0, None),
        Case("aten._pdist_forward.default", floats(5, 4), 2.0),
        Case("aten.embedding_renorm_.default", X.through(lambda x: x[0].clone()), _ROWS, 1.0, 2.0),
    ],
    dynamic=False,
    atol=2e-4,
)

REFLECTIONS = Group(
    [
        Case("aten.geqrf.default", _TALL),
        *(Case("aten.linalg_qr.default", _TALL, mode) for mode in ("reduced", "complete", "r")),
        Case("aten.linalg_householder_product.default", _TALL, constant(2, 3)),
        Case("aten.ormqr.default", *_REFLECTED, floats(2, 4, 2)),
        Case("aten.ormqr.default", *_REFLECTED, floats(2, 2, 4), False, True),
    ],
    dynamic=False,
    atol=2e-4,
)

_TOL = torch.tensor(0.01)

VALUES = Group(
    [
        Case("aten._linalg_eigh.default", _GOOD, compute_v=False, then=_first),
        Case("aten._linalg_eigh.default", _GOOD, "U", then=_first),
        Case("aten._linalg_svd.default", _M, False, False, then=_second),
        Case("aten._linalg_svd.default", _M, then=_second),
        Case("aten.linalg_eigh.default", _GOOD, then=_first),
        Case("aten.linalg_svd.default", _M, then=_second),
        Case("aten.linalg_pinv.atol_rtol_tensor", _OFF, atol=_TOL),
        Case("aten.linalg_pinv.atol_rtol_tensor", _OFF, rtol=_TOL),
        Case("aten.linalg_pinv.atol_rtol_tensor", _OFF, hermitian=True),
        Case("aten.renorm.default", X, 2, 0, 1.0),
        Case("aten.renorm.default", X, 3, 1, 0.5),
        Case("aten.embedding_renorm.default", constant(3, 4), _ROWS, 1.0, 2.0),
    ],
    atol=1e-3,
)

REFUSED = [
    Refused("aten._linalg_eigh.default", _GOOD, says="signs of its vectors are LAPACK's choice"),
    Refused("aten._linalg_svd.default", _M, says="signs of its vectors are LAPACK's choice"),
    Refused("aten._linalg_det.default", _M, says="read the factors beside a determinant"),
    Refused("aten.linalg_lu.default", _M, pivot=False, says="elimination that pivots"),
]

GROUPS = [TRIANGLES, SOLUTIONS, FIXED, REFLECTIONS, VALUES]
