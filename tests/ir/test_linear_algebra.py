"""Linear algebra of the IR against LAPACK: shapes, symbolic batches, singular matrices, what is refused."""

from __future__ import annotations

import functools

import numpy as np
import onnxruntime
import pytest
import torch
from torch import linalg

from regraft.backends.onnx_model import to_model
from regraft.ir import COMPOSITES, BackendError, Builder, Graph, InvalidGraphError, TensorType, expand

SHAPES = [(5, 5), (3, 5), (5, 3), (2, 4, 4), (2, 0, 3), (2, 3, 0), (1, 1), (2, 1, 3, 2), (2, 10, 10)]
SQUARE = [(4, 4), (2, 3, 3), (2, 1, 5, 5), (1, 1), (2, 0, 0), (12, 12)]


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@functools.lru_cache(maxsize=8)
def session_of(name, types, attributes):
    """A session of a composite, with what the IR says of its results; many matrices run in one."""
    b = Builder(Graph())
    values = [b.graph.add_input(f"x{number}", type_) for number, type_ in enumerate(types)]
    count = len(COMPOSITES[name].signature.outputs)
    for number, value in enumerate(b.ops(f"regraft.{name}", *values, outputs=count, **dict(attributes))):
        b.graph.outputs.append((f"y{number}", value))
    stated = [b.graph.known_type(value) for _, value in b.graph.outputs]
    return onnxruntime.InferenceSession(to_model(b.graph).SerializeToString()), stated


def run(name, *operands, batch=False, **attributes):
    """The results of a composite; with `batch` the first axes of all operands are one symbol."""
    shapes = [("N", *tensor.shape[1:]) if batch else tuple(tensor.shape) for tensor in operands]
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in operands]
    types = tuple(TensorType(*pair) for pair in zip(dtypes, shapes, strict=True))
    session, stated = session_of(name, types, tuple(attributes.items()))
    feeds = {f"x{number}": tensor.numpy() for number, tensor in enumerate(operands)}
    found = [torch.from_numpy(np.asarray(v)) for v in session.run(None, feeds)]
    for tensor, known in zip(found, stated, strict=True):
        assert str(tensor.dtype).removeprefix("torch.") == known.dtype
        assert tensor.dim() == known.rank
        assert all(a == n for a, n in zip(tensor.shape, known.shape, strict=True) if isinstance(n, int))
    return found


def assert_same(got, want, atol=1e-4):
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-4, atol=atol)


def positive(a):
    return a @ a.mT + torch.eye(a.shape[-1], dtype=a.dtype)


@pytest.mark.parametrize("shape", SQUARE)
def test_triangles(shape):
    a, b = positive(drawn(*shape)), drawn(*shape[:-1], 2, seed=1)
    lower = linalg.cholesky(a)
    garbage = a + torch.triu(torch.full(shape, torch.nan), 1)
    assert_same(run("Cholesky", garbage), [lower])
    assert_same(run("Cholesky", garbage.mT.contiguous(), upper=1), [linalg.cholesky(a, upper=True)])
    for upper in (False, True):
        for unit in (False, True):
            want = linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
            scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
            got = run("SolveTriangular", a, b, upper=int(upper), unit_diagonal=int(unit))
            assert_same(got, [want], atol=1e-4 * scale)


@pytest.mark.parametrize("shape", SQUARE)
def test_equations(shape):
    a, b = drawn(*shape) + 2 * torch.eye(shape[-1]), drawn(*shape[:-1], 2, seed=1)
    assert_same(run("Solve", a, b), [linalg.solve(a, b)], atol=1e-3)
    assert_same(run("Inverse", a), [linalg.inv(a)], atol=1e-3)
    lu, pivots, _ = linalg.lu_factor_ex(a)
    for flipped in (False, True):
        want = linalg.lu_solve(lu, pivots, b, adjoint=flipped)
        assert_same(run("LUSolve", lu, pivots, b, transposed=int(flipped)), [want], atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SQUARE)
def test_determinants(shape, dtype):
    a = drawn(*shape, dtype=dtype)
    scale = float(linalg.det(a).abs().max()) + 1
    assert_same(run("Determinant", a), [linalg.det(a)], atol=1e-4 * scale)
    assert_same(run("LogDeterminant", a), linalg.slogdet(a))


def test_determinants_of_singular_matrices():
    a = torch.stack([torch.zeros(3, 3), torch.ones(3, 3), torch.eye(3)])
    for dtype in (torch.float32, torch.float64):
        assert_same(run("Determinant", a.to(dtype)), [torch.tensor([0, 0, 1], dtype=dtype)])
        assert_same(run("LogDeterminant", a.to(dtype)), linalg.slogdet(a.to(dtype)))


def test_a_determinant_beyond_the_largest_number():
    a = 1e20 * torch.eye(4)
    assert_same(run("LogDeterminant", a), linalg.slogdet(a))


@pytest.mark.parametrize("shape", SHAPES)
def test_elimination(shape):
    a = drawn(*shape)
    lu, pivots, _ = linalg.lu_factor_ex(a)
    assert_same(run("LU", a), (lu, pivots))
    if 0 not in shape:
        assert_same(run("LUUnpack", lu, pivots), torch.lu_unpack(lu, pivots))


def test_elimination_of_a_column_of_zeros():
    a = torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 1.0], [0.0, 0.0, 5.0]])
    assert_same(run("LU", a), linalg.lu_factor_ex(a)[:2])


@pytest.mark.parametrize("shape", SHAPES)
def test_reflections(shape):
    a = drawn(*shape)
    packed, tau = torch.geqrf(a)
    assert_same(run("Reflectors", a), (packed, tau))
    for mode in ("reduced", "complete"):
        assert_same(run("QR", a, full=int(mode == "complete")), linalg.qr(a, mode))
    if shape[-2] >= shape[-1]:
        assert_same(run("ReflectorsProduct", packed, tau), [linalg.householder_product(packed, tau)])
    if shape[-2]:
        other = drawn(*shape[:-1], 4, seed=1)
        for flipped in (False, True):
            want = torch.ormqr(packed, tau, other, True, flipped)
            assert_same(run("ApplyReflectors", packed, tau, other, transposed=int(flipped)), [want])


def test_reflections_of_columns_that_are_done():
    a = torch.tensor([[2.0, 1.0], [0.0, -3.0], [0.0, 0.0]])
    assert_same(run("QR", a), linalg.qr(a))


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(shape):
    a = drawn(*shape)
    low = a @ drawn(shape[-1], 1) @ drawn(1, shape[-1])
    for matrix in (a, low, torch.zeros_like(a)):
        assert_same(run("SingularValues", matrix), [linalg.svdvals(matrix)])
        if 0 in shape:
            continue
        want, usual = linalg.pinv(matrix), max(shape[-2:]) * torch.finfo(a.dtype).eps
        got = run("PseudoInverse", matrix, torch.tensor(0.0), torch.tensor(usual))
        assert_same(got, [want], atol=2e-4 * max(1.0, float(want.abs().sum())))


@pytest.mark.parametrize("shape", SQUARE)
def test_eigenvalues(shape):
    """Of either triangle; the vectors turn the matrix into its values."""
    a = drawn(*shape)
    for triangle in "LU":
        values, vectors = run("SymmetricEigen", a, upper=int(triangle == "U"))
        assert_same([values], [linalg.eigvalsh(a, triangle)])
        whole = (
            (torch.tril(a) + torch.tril(a, -1).mT) if triangle == "L" else torch.triu(a) + torch.triu(a, 1).mT
        )
        assert_same([vectors @ torch.diag_embed(values) @ vectors.mT], [whole])


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_equal_eigenvalues(n):
    """Matrices of which rounding alone tells most of the diagonal and of what is beside it apart."""
    blocks = torch.block_diag(*[torch.ones(2, 2)] * (n // 2), *[torch.ones(1, 1)] * (n % 2))
    for a in (torch.ones(n, n), torch.zeros(n, n), 2 * torch.eye(n), blocks):
        for matrix in (a, 3 * a + torch.eye(n), 0.1 * a + torch.eye(n)):
            values, vectors = run("SymmetricEigen", matrix)
            assert_same([values], [linalg.eigvalsh(matrix)])
            assert_same([vectors @ torch.diag(values) @ vectors.mT], [matrix])
            assert_same(run("SingularValues", matrix), [linalg.svdvals(matrix)])


def test_powers():
    a = drawn(2, 3, 3) + 2 * torch.eye(3)
    for n in (-3, -1, 0, 1, 2, 7):
        want = linalg.matrix_power(a, n)
        assert_same(run("MatrixPower", a, n=n), [want], atol=1e-4 * float(want.abs().max()))
    assert_same(run("MatrixExponential", a), [linalg.matrix_exp(a)], atol=1e-2)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        *(
            (n, {})
            for n in ("Cholesky", "Inverse", "Determinant", "LogDeterminant", "LU", "QR", "Reflectors")
        ),
        *((n, {}) for n in ("SingularValues", "SymmetricEigen", "MatrixExponential")),
        *(("MatrixPower", {"n": n}) for n in (0, -1, 3)),
    ],
)
def test_a_symbolic_batch(name, attributes):
    a = positive(drawn(3, 4, 4))
    for got, want in zip(run(name, a, batch=True, **attributes), run(name, a, **attributes), strict=True):
        torch.testing.assert_close(got, want)


def test_a_symbolic_batch_of_equations():
    a, b = positive(drawn(3, 4, 4)), drawn(3, 4, 2)
    for name in ("Solve", "SolveTriangular"):
        torch.testing.assert_close(run(name, a, b, batch=True), run(name, a, b))


@pytest.mark.parametrize("shapes", [((4, 4), (3, 4, 2)), ((3, 4, 4), (4, 2)), ((3, 1, 4, 4), (2, 4, 2))])
def test_batches_spread(shapes):
    a, b = (drawn(*shape) + 3 * torch.eye(*shape[-2:]) for shape in shapes)
    assert_same(run("Solve", a, b), [linalg.solve(a, b)], atol=1e-3)
    want = linalg.solve_triangular(a, b, upper=False)
    assert_same(run("SolveTriangular", a, b), [want])


@pytest.mark.parametrize(
    ("name", "shapes", "says"),
    [
        ("Inverse", [(3, 4)], r"square matrices, got f32\[3,4\]"),
        ("Determinant", [(4,)], r"square matrices, got f32\[4\]"),
        ("Solve", [(3, 3), (4, 2)], "right sides of as many rows"),
    ],
)
def test_what_is_no_matrix_is_refused(name, shapes, says):
    b = Builder(Graph())
    operands = [b.graph.add_input(f"x{n}", TensorType("float32", s)) for n, s in enumerate(shapes)]
    with pytest.raises(InvalidGraphError, match=says):
        b.op(f"regraft.{name}", *operands)


@pytest.mark.parametrize(("shape", "says"), [(("N", "N"), "static size"), ((65, 65), "at most 64 rows")])
def test_what_cannot_be_written_out_is_refused(shape, says):
    b = Builder(Graph())
    y = b.op("regraft.Inverse", b.graph.add_input("x", TensorType("float32", shape)))
    with pytest.raises(BackendError, match=says) as caught:
        expand(b, y.node)
    assert caught.value.hint
