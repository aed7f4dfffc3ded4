"""Cases of linear algebra that is expanded: small matrices, unrolled."""

import torch

from .case import Case, Group, Refused, constant, floats

_M = floats(2, 2, 2)
_GOOD = _M.through(lambda m: m @ m.mT + 2 * torch.eye(2))
_OFF = _M.through(lambda m: m + 3 * torch.eye(2))
_RIGHT = floats(2, 2, 3, seed=1)
_FACTOR = _GOOD.through(torch.linalg.cholesky)
_LU = torch.linalg.lu_factor(constant(2, 2, 2) + 3 * torch.eye(2))
_REFLECTED = torch.geqrf(constant(2, 4, 3))
_TALL = floats(2, 4, 3)


def _first(found):
    return found[0]


def _second(found):
    return found[1]


TRIANGLES = Group(
    [
        *(
            Case(f"aten.{name}.default", _GOOD)
            for name in ("cholesky", "linalg_cholesky", "linalg_cholesky_ex")
        ),
        Case("aten.cholesky_inverse.default", _FACTOR),
        Case("aten.cholesky_solve.default", _RIGHT, _FACTOR),
        Case("aten.linalg_solve_triangular.default", _GOOD, _RIGHT, upper=True),
        Case("aten.triangular_solve.default", _RIGHT, _GOOD, then=_first),
        Case("aten._lu_with_info.default", _OFF),
        Case("aten.linalg_lu.default", _OFF),
        Case("aten.linalg_lu_factor.default", _OFF),
        Case("aten.linalg_lu_factor_ex.default", _OFF),
    ],
    atol=2e-4,
)

SOLUTIONS = Group(
    [
        *(
            Case(f"aten.{name}.default", _OFF)
            for name in ("det", "linalg_det", "inverse", "linalg_inv", "logdet")
        ),
        *(Case(f"aten.{name}.default", _OFF) for name in ("linalg_inv_ex", "linalg_slogdet", "slogdet")),
        Case("aten._linalg_solve_ex.default", _OFF, _RIGHT),
        Case("aten.linalg_solve.default", _OFF, _RIGHT),
        Case("aten.linalg_solve_ex.default", _OFF, _RIGHT),
        *(Case(f"aten.{name}.default", _OFF, -2) for name in ("linalg_matrix_power", "matrix_power")),
    ],
    atol=2e-4,
)

FIXED = Group(
    [
        Case("aten.linalg_lu_solve.default", *_LU, _RIGHT),
        Case("aten.lu_unpack.default", *_LU),
    ],
    dynamic=False,
    atol=2e-4,
)

REFLECTIONS = Group(
    [
        Case("aten.geqrf.default", _TALL),
        Case("aten.linalg_qr.default", _TALL),
        Case("aten.qr.default", _TALL, False),
        Case("aten.linalg_householder_product.default", _TALL, constant(2, 3)),
        Case("aten.orgqr.default", _TALL, constant(2, 3)),
        Case("aten.ormqr.default", *_REFLECTED, floats(2, 4, 2)),
    ],
    dynamic=False,
    atol=2e-4,
)

_TOL = torch.tensor(0.01)

VALUES = Group(
    [
        *(
            Case(f"aten.{name}.default", _M.through(lambda m: m / 4))
            for name in ("linalg_matrix_exp", "matrix_exp")
        ),
        Case("aten._linalg_eigh.default", _GOOD, compute_v=False, then=_first),
        Case("aten.linalg_eigvalsh.default", _GOOD),
        Case("aten._linalg_svd.default", _M, False, False, then=_second),
        Case("aten.svd.default", _M, compute_uv=False),
        Case("aten.linalg_svdvals.default", _M),
        Case("aten.linalg_matrix_norm.str_ord", _M, "nuc"),
        Case("aten.linalg_matrix_rank.atol_rtol_float", _M, atol=0.01),
        Case("aten.linalg_matrix_rank.atol_rtol_tensor", _M, atol=_TOL),
        Case("aten.linalg_matrix_rank.default", _M, 0.01),
        Case("aten.linalg_matrix_rank.tol_tensor", _M, _TOL),
        Case("aten.linalg_pinv.atol_rtol_float", _OFF, atol=0.01),
        Case("aten.linalg_pinv.atol_rtol_tensor", _OFF, atol=_TOL),
        Case("aten.linalg_pinv.default", _OFF, 0.01),
        Case("aten.pinverse.default", _OFF, 0.01),
    ],
    captured=False,
    atol=1e-3,
)

REFUSED = [
    Refused("aten.linalg_eigh.default", _GOOD, says="signs of its vectors are LAPACK's choice"),
    Refused("aten.linalg_svd.default", _M, says="signs of its vectors are LAPACK's choice"),
]

GROUPS = [TRIANGLES, SOLUTIONS, FIXED, REFLECTIONS, VALUES]
