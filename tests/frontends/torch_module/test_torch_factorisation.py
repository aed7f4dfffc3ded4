"""Factorisations that are unrolled here, against LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import linalg

from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read
from regraft.frontends.torch_module.expansions import EXPANSIONS
from regraft.ir import UnsupportedError

SHAPES = [(5, 5), (3, 5), (5, 3), (2, 4, 4), (2, 0, 3), (1, 1), (2, 10, 10)]


def expansion(name):
    return EXPANSIONS[f"aten.{name}"]


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def assert_same(got, want, atol=1e-4):
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-4, atol=atol)


@pytest.mark.parametrize("shape", SHAPES)
def test_reflections(shape):
    a = drawn(*shape)
    packed, factors = torch.geqrf(a)
    assert_same(expansion("geqrf.default")(a), (packed, factors))
    for mode in ("reduced", "complete", "r"):
        assert_same(expansion("linalg_qr.default")(a, mode), linalg.qr(a, mode))
    if shape[-2] >= shape[-1]:
        q = expansion("linalg_householder_product.default")(packed, factors)
        assert_same([q], [linalg.householder_product(packed, factors)])
    for left, transposed in [(True, True), (True, False), (False, True), (False, False)]:
        rows = shape[-2]
        other = drawn(*shape[:-2], rows, 4) if left else drawn(*shape[:-2], 4, rows)
        given = packed, factors, other, left, transposed
        if rows:  # LAPACK takes no matrix without rows
            assert_same([expansion("ormqr.default")(*given)], [torch.ormqr(*given)])


@pytest.mark.parametrize("shape", SHAPES)
def test_elimination(shape):
    a = drawn(*shape)
    assert_same(expansion("linalg_lu.default")(a), linalg.lu(a))


@pytest.mark.parametrize("shape", SHAPES)
def test_values(shape):
    """Of full and of low rank; of symmetric matrices those of either triangle."""
    a = drawn(*shape)
    low = a @ drawn(shape[-1], 1) @ drawn(1, shape[-1])
    pinv = expansion("linalg_pinv.atol_rtol_tensor")
    for matrix in (a, low, torch.zeros_like(a)):
        assert_same([expansion("linalg_svdvals.default")(matrix)], [linalg.svdvals(matrix)])
        rank = expansion("linalg_matrix_rank.atol_rtol_tensor")(matrix)
        assert_same([rank], [linalg.matrix_rank(matrix)])
        want = linalg.pinv(matrix)
        assert_same([pinv(matrix)], [want], atol=2e-4 * max(1.0, float(want.abs().sum())))
    assert_same([pinv(a, atol=torch.tensor(0.5))], [linalg.pinv(a, atol=0.5)], atol=1e-3)
    if shape[-1] == shape[-2]:
        for triangle in "LU":
            assert_same([expansion("linalg_eigvalsh.default")(a, triangle)], [linalg.eigvalsh(a, triangle)])
    for keepdim in (False, True):
        got = expansion("linalg_matrix_norm.str_ord")(a, "nuc", keepdim=keepdim)
        assert_same([got], [linalg.matrix_norm(a, "nuc", keepdim=keepdim)], atol=1e-3)


def test_equal_values():
    a = 2 * torch.eye(4)
    a[0, 1] = a[1, 0] = 1
    assert_same([expansion("linalg_eigvalsh.default")(a)], [linalg.eigvalsh(a)])


def test_through_onnx(check):
    check(
        lambda x: [*linalg.qr(x), *linalg.lu(x), linalg.svdvals(x), linalg.pinv(x), linalg.matrix_rank(x)],
        np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32),
        atol=1e-3,
    )


@pytest.mark.parametrize("function", [linalg.svd, linalg.eigh])
def test_vectors_of_unknown_sign_are_refused(function):
    module = torch.nn.Module()
    module.forward = lambda x: function(x)
    with pytest.raises(UnsupportedError, match="LAPACK's choice"):
        read(module, [("", np.eye(3, dtype=np.float32))], LoadOptions())
