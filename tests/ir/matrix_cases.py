"""Cases of composites on matrices, selection, alignment: (name, arrays, attributes, what torch computes)."""

import numpy as np

RANDOM = np.random.default_rng(1)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def of_torch(compute):
    """The first result of a function on tensors, given the attributes too."""

    def run(*arrays, **attributes):
        import torch

        found = compute(torch, *map(torch.from_numpy, arrays), **attributes)
        return (found if isinstance(found, torch.Tensor) else found[0]).numpy()

    return run


A = draw(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)
GOOD = A @ A.swapaxes(-1, -2)
TALL = draw(2, 4, 3)
PIVOTS = np.array([[2, 3, 3], [3, 2, 3]], np.int32)
TAU = np.abs(draw(2, 3))
X = draw(2, 5, 4)

BATCHED = {
    **dict.fromkeys(
        ("Solve", "SolveTriangular", "LUUnpack", "ReflectorsProduct", "SearchSorted", "PairwiseDistances"), 1
    ),
    **dict.fromkeys(("LUSolve", "ApplyReflectors"), 2),
    "CTCLoss": 3,
    "Fourier": 1,
    "RealFourier": 1,
}
"""Name -> the last operand that has the batch."""

SCORES = draw(5, 2, 4)
SCORES -= np.log(np.exp(SCORES).sum(-1, keepdims=True))
LABELS = np.array([[1, 2], [3, 3]])
LENGTHS = [np.array([5, 4]), np.array([2, 2])]


def _of_numpy(compute):
    """The real part of what a function on arrays in float64 gives."""
    return lambda *arrays, **said: compute(*(a.astype(np.float64) for a in arrays), **said).real.astype(
        np.float32
    )


WAVES = draw(2, 7, 6)

CASES = [
    *(
        ("Fourier", [WAVES], {"axis": axis, "norm": norm, "inverse": inverse}, _of_numpy(transform))
        for axis, norm, inverse, transform in (
            (1, "ortho", 0, lambda x, axis, norm, inverse: np.fft.fft(x, axis=axis, norm=norm)),
            (-1, "backward", 1, lambda x, axis, norm, inverse: np.fft.ifft(x, axis=axis, norm=norm)),
        )
    ),
    ("Fourier", [WAVES, draw(2, 7, 6)], {}, _of_numpy(lambda x, y: np.fft.fft(x + 1j * y))),
    ("Fourier", [WAVES], {"half": 1}, _of_numpy(lambda x, half: np.fft.rfft(x))),
    (
        "Fourier",
        [WAVES],
        {"half": 1, "axis": 1, "inverse": 1},
        _of_numpy(lambda x, half, axis, inverse: np.fft.ihfft(x, axis=axis)),
    ),
    *(
        (
            "RealFourier",
            [WAVES, draw(2, 7, 6)],
            {"n": n},
            _of_numpy(lambda x, y, n: np.fft.irfft(x + 1j * y, n)),
        )
        for n in (10, 11)
    ),
    (
        "RealFourier",
        [WAVES, draw(2, 7, 6)],
        {"n": 13, "axis": 1, "inverse": 0, "norm": "forward"},
        _of_numpy(lambda x, y, n, axis, inverse, norm: np.fft.hfft(x + 1j * y, n, axis, norm)),
    ),
    (
        "CTCLoss",
        [SCORES, LABELS, *LENGTHS],
        {},
        of_torch(lambda t, *given: t.nn.functional.ctc_loss(*given, reduction="none")),
    ),
    ("Cholesky", [GOOD], {}, of_torch(lambda t, a: t.linalg.cholesky(a))),
    ("Cholesky", [GOOD], {"upper": 1}, of_torch(lambda t, a, upper: t.linalg.cholesky(a, upper=True))),
    (
        "SolveTriangular",
        [A, draw(2, 3, 2)],
        {"upper": 1},
        of_torch(lambda t, a, b, upper: t.linalg.solve_triangular(a, b, upper=True)),
    ),
    ("Solve", [A, draw(2, 3, 2)], {}, of_torch(lambda t, a, b: t.linalg.solve(a, b))),
    ("Inverse", [A], {}, of_torch(lambda t, a: t.linalg.inv(a))),
    ("Determinant", [A], {}, of_torch(lambda t, a: t.linalg.det(a))),
    ("LogDeterminant", [A], {}, of_torch(lambda t, a: t.linalg.slogdet(a))),
    ("LU", [TALL], {}, of_torch(lambda t, a: t.linalg.lu_factor(a))),
    ("LUUnpack", [A, PIVOTS], {}, of_torch(lambda t, a, p: t.lu_unpack(a, p))),
    ("LUSolve", [A, PIVOTS, draw(2, 3, 2)], {}, of_torch(lambda t, a, p, b: t.linalg.lu_solve(a, p, b))),
    *(
        ("MatrixPower", [A], {"n": n}, of_torch(lambda t, a, n: t.linalg.matrix_power(a, n)))
        for n in (-1, 0, 3)
    ),
    ("MatrixExponential", [A / 4], {}, of_torch(lambda t, a: t.linalg.matrix_exp(a))),
    ("Reflectors", [TALL], {}, of_torch(lambda t, a: t.geqrf(a))),
    (
        "ReflectorsProduct",
        [TALL, TAU],
        {},
        of_torch(lambda t, a, tau: t.linalg.householder_product(a, tau)),
    ),
    ("ApplyReflectors", [TALL, TAU, draw(2, 4, 2)], {}, of_torch(lambda t, a, tau, c: t.ormqr(a, tau, c))),
    ("QR", [TALL], {}, of_torch(lambda t, a: t.linalg.qr(a))),
    ("QR", [TALL], {"full": 1}, of_torch(lambda t, a, full: t.linalg.qr(a, "complete"))),
    ("SymmetricEigen", [GOOD], {}, of_torch(lambda t, a: t.linalg.eigvalsh(a))),
    ("SingularValues", [TALL], {}, of_torch(lambda t, a: t.linalg.svdvals(a))),
    (
        "PseudoInverse",
        [TALL, np.array(0.1, np.float32), np.array(0, np.float32)],
        {},
        of_torch(lambda t, a, atol, rtol: t.linalg.pinv(a, atol=atol, rtol=rtol)),
    ),
    *(
        ("PairwiseDistances", [TALL, draw(2, 2, 3)], {"p": p}, of_torch(lambda t, x, y, p: t.cdist(x, y, p)))
        for p in (0.0, 1.0, 2.0, 3.0, float("inf"))
    ),
    *(
        (
            "Renorm",
            [X],
            {"p": p, "axis": 1, "maxnorm": 1.0},
            of_torch(lambda t, x, p, axis, maxnorm: t.renorm(x, p, axis, maxnorm)),
        )
        for p in (1.0, 2.0, 3.0)
    ),
    ("KthValue", [X], {"k": 2, "axis": 1}, of_torch(lambda t, x, k, axis: x.kthvalue(k, axis))),
    ("Median", [X], {"axis": 1}, of_torch(lambda t, x, axis: x.median(axis))),
    (
        "Median",
        [X],
        {"axis": -1, "keepdims": 1, "ignore_nan": 1},
        of_torch(lambda t, x, axis, keepdims, ignore_nan: x.nanmedian(axis, True)),
    ),
    ("SearchSorted", [np.sort(X), X], {}, of_torch(lambda t, e, v: t.searchsorted(e, v))),
    (
        "SearchSorted",
        [np.sort(X[0, 0]), X],
        {"right": 1},
        of_torch(lambda t, e, v, right: t.searchsorted(e, v, right=True)),
    ),
]
