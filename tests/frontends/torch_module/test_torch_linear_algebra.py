"""Functions of torch.linalg that torch decomposes into those that have lowerings, against LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import linalg

from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read
from regraft.ir import UnsupportedError


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_equations(check):
    def equations(x):
        a, b = x @ x.mT + 2 * torch.eye(4), x[..., :2]
        factor = linalg.cholesky(a)
        return [
            linalg.solve(a, b),
            linalg.solve(a, b[..., 0]),
            linalg.solve(a, b.mT, left=False),
            linalg.solve_ex(a, b)[0],
            linalg.inv(x),
            *linalg.inv_ex(a),
            linalg.matrix_power(x, -2),
            linalg.matrix_power(x, 0),
            linalg.tensorinv(a[0], ind=1),
            factor,
            linalg.cholesky(a, upper=True),
            torch.cholesky_solve(b, factor),
            torch.cholesky_inverse(factor),
            linalg.solve_triangular(a, b, upper=True),
            torch.triangular_solve(b, a)[0],
            linalg.matrix_exp(x / 4),
        ]

    check(equations, floats(3, 4, 4), atol=2e-3, rtol=2e-3)


def test_determinants(check):
    def determinants(x):
        a = x @ x.mT + torch.eye(3)
        return [
            linalg.det(x),
            torch.det(a),
            *linalg.slogdet(x),
            torch.logdet(a),
            torch.logdet(x.sum() * 0 - a),
        ]

    check(determinants, floats(3, 3, 3), atol=1e-4)


def test_factors(check):
    def factors(x):
        lu, pivots = linalg.lu_factor(x)
        return [
            *linalg.qr(x),
            *linalg.qr(x[..., :2], mode="complete"),
            *linalg.lu(x),
            lu,
            pivots,
            *torch.lu_unpack(lu, pivots),
            linalg.lu_solve(lu, pivots, x),
        ]

    check(factors, floats(2, 3, 3), atol=1e-4)
    check(lambda x: torch.orgqr(*torch.geqrf(x)), floats(2, 4, 3), dynamic=False)


def test_values(check):
    def values(x):
        a = x + x.mT
        return [
            linalg.svdvals(x),
            torch.svd(x, compute_uv=False)[1],
            linalg.svd(x)[1],
            linalg.eigvalsh(a),
            linalg.eigvalsh(a, UPLO="U"),
            linalg.eigh(a)[0],
            linalg.matrix_norm(x, "nuc", keepdim=True),
            linalg.matrix_norm(x, 2),
            linalg.cond(x),
        ]

    check(values, floats(2, 3, 3), atol=1e-3, rtol=1e-3, dynamic=False)


def test_ranks_and_pseudo_inverses(check):
    tolerance = torch.tensor(0.01)

    def values(x):
        low = x[..., :1] @ x[..., :1, :]
        return [
            linalg.matrix_rank(x),
            linalg.matrix_rank(low),
            linalg.matrix_rank(x + x.mT, hermitian=True),
            linalg.matrix_rank(x, 0.01),
            linalg.matrix_rank(x, tolerance),
            linalg.matrix_rank(low, atol=tolerance),
            linalg.pinv(x),
            linalg.pinv(x[..., :2]),
            linalg.pinv(x, 0.01),
            linalg.pinv(x, atol=0.01),
            linalg.pinv(low, atol=tolerance, rtol=tolerance),
            linalg.pinv(x + x.mT, hermitian=True),
            torch.pinverse(x),
        ]

    check(values, floats(2, 3, 3), atol=1e-3, rtol=1e-3)


def test_distances(check):
    def distances(x, y):
        found = [torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))]
        return [*found, torch.nn.functional.pdist(x[0]), torch.nn.functional.pdist(x[0, :1])]

    check(distances, floats(2, 3, 4), floats(2, 5, 4, seed=1), dynamic=False)


@pytest.mark.parametrize("function", [linalg.svd, linalg.eigh])
def test_vectors_of_unknown_sign_are_refused(function):
    module = torch.nn.Module()
    module.forward = lambda x: function(x)
    with pytest.raises(UnsupportedError, match="LAPACK's choice"):
        read(module, [("", np.eye(3, dtype=np.float32))], LoadOptions())
