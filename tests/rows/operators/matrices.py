"""Cases of linear algebra, distances, medians, look-ups and alignments."""

import numpy as np

from .case import Case, Input, floats

A = Input(floats(2, 3, 3) + 3 * np.eye(3, dtype=np.float32))
B = Input(floats(2, 3, 2))
TALL, SHORT = Input(floats(2, 4, 3)), Input(floats(2, 5, 3, seed=1))
SINGLE = Input(floats(3, 3) + 3 * np.eye(3, dtype=np.float32))
PIVOTS = np.array([[2, 3, 3], [1, 2, 3]], np.int32)
EDGES = np.array([-1, 0, 1], np.float32)
GOOD = Input(A.array @ A.array.swapaxes(1, 2))
SCORES = Input(np.log(np.random.default_rng(0).dirichlet(np.ones(5), (6, 2))).astype(np.float32))
LABELS = np.array([[1, 2, 2], [3, 1, 0]])
LABELLED = np.array([[0, 3, 2], [1, 1, 3]])
ROWS = Input(floats(2, 2, 3))
_MS = ["mindspore"]

CASES = [
    *(Case(f"regraft.{name}", A) for name in ("Inverse", "Determinant", "SingularValues")),
    Case("regraft.LogDeterminant", A, outputs=2),
    Case("regraft.Inverse", SINGLE),
    Case("regraft.Determinant", SINGLE),
    Case("regraft.Solve", A, B),
    Case("regraft.Solve", SINGLE, B),
    *(Case("regraft.SolveTriangular", A, B, upper=n) for n in (0, 1)),
    Case("regraft.SolveTriangular", A, B, unit_diagonal=1, backends=_MS),
    *(Case("regraft.MatrixPower", A, n=n) for n in (-2, 3)),
    Case("regraft.LUUnpack", A, PIVOTS, outputs=3),
    Case("regraft.Cholesky", GOOD, backends=["mxnet"]),
    Case("regraft.Cholesky", GOOD, upper=1, backends=["mxnet"]),
    *(Case("regraft.PairwiseDistances", TALL, SHORT, p=p) for p in (1.0, 2.0, 3.0)),
    Case("regraft.Renorm", TALL, p=2.0, axis=1, maxnorm=1.0),
    *(Case("regraft.Median", TALL, outputs=2, axis=axis, ignore_nan=axis - 1) for axis in (1, 2)),
    Case("regraft.Median", TALL, outputs=2, compared=1, axis=1, keepdims=1),
    Case("regraft.CTCLoss", SCORES, LABELS, np.array([6, 5]), np.array([3, 2]), blank=4, backends=_MS),
    Case(
        "regraft.CTCLoss", SCORES, LABELS, np.array([6, 1]), np.array([3, 2]), zero_infinity=1, backends=_MS
    ),
    *(
        Case(
            name,
            Input(floats(*LABELLED.shape[:1], 4, *LABELLED.shape[1:])),
            LABELLED,
            *weights,
            **how,
            backends=_MS,
        )
        for name in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
        for weights, how in (
            ((), {"ignore_index": 3}),
            ((np.float32([1, 2, 0.5, 1]),), {"reduction": "none"}),
        )
    ),
    *(Case("AffineGrid", ROWS, np.array([2, 3, 4, 5]), align_corners=n, backends=_MS) for n in (0, 1)),
    *(Case("regraft.SearchSorted", EDGES, TALL, right=right) for right in (0, 1)),
]
