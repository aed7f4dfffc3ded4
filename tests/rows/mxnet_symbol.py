"""Cases of the MXNet frontend's rows that no recorded model has: row -> (its attributes, its inputs, how many
outputs where there are several). What follows a blank in a row's name tells its cases apart.

Whoever adds a row adds a line here and records it with `tests/tools/record_mxnet.py`, which imports this file
in MXNet's own Python: it is Python 3.8 and needs nothing but NumPy.
"""

import numpy as np

_RANDOM = np.random.RandomState(0)
_X = _RANDOM.standard_normal((2, 3)).astype(np.float32)
_Y = _RANDOM.standard_normal((2, 3)).astype(np.float32)
_WIDE = _RANDOM.standard_normal((2, 1, 4)).astype(np.float32)
_TALL = _RANDOM.standard_normal((1, 3, 4)).astype(np.float32)
_SOME = np.array([[0, 1, -2], [1, 0, 1]], np.float32)
_MORE = np.array([[1, 1, 0], [1, 0, -2]], np.float32)
_HOLES = np.array([[1, np.nan, 3], [np.nan, 2, 4]], np.float32)
_SQUARE = _RANDOM.standard_normal((2, 3, 3)).astype(np.float32) + 2 * np.eye(3, dtype=np.float32)
_GOOD = np.matmul(_SQUARE, _SQUARE.transpose(0, 2, 1))
_BESIDE = _RANDOM.standard_normal((2, 3, 2)).astype(np.float32)
_FLAT = _BESIDE.transpose(0, 2, 1).copy()
_TRIANGLE, _GRID = (
    np.arange(12, dtype=np.float32).reshape(2, 6),
    np.arange(16, dtype=np.float32).reshape(1, 4, 4),
)
_RIGHT = {"rightside": "True", "transpose": "True", "lower": "False", "alpha": "0.5"}

MATRICES = {
    "_linalg_gemm": ({"transpose_a": "True", "alpha": "2", "beta": "0.5"}, [_SQUARE, _BESIDE, _BESIDE]),
    "_linalg_gemm2": ({"transpose_b": "True", "alpha": "2"}, [_BESIDE, _BESIDE]),
    "_linalg_syrk": ({"transpose": "True", "alpha": "2"}, [_BESIDE]),
    "_linalg_syrk plain": ({}, [_BESIDE]),
    "_linalg_trmm": ({}, [_SQUARE, _BESIDE]),
    "_linalg_trmm right": (_RIGHT, [_SQUARE, _FLAT]),
    "_linalg_trsm": ({"transpose": "True"}, [_SQUARE, _BESIDE]),
    "_linalg_trsm right": (_RIGHT, [_SQUARE, _FLAT]),
    "_linalg_trsm beside": ({"rightside": "True"}, [_SQUARE, _FLAT]),
    "_linalg_potrf": ({}, [np.tril(_GOOD)]),
    "_linalg_potrf upper": ({"lower": "False"}, [np.triu(_GOOD)]),
    "_linalg_potri": ({}, [_SQUARE]),
    "_linalg_potri upper": ({"lower": "False"}, [_SQUARE]),
    "_linalg_inverse": ({}, [_SQUARE]),
    "_linalg_det": ({}, [_SQUARE]),
    "_linalg_slogdet": ({}, [-_SQUARE], 2),
    "_linalg_gelqf": ({}, [_FLAT], 2),
    "_linalg_syevd": ({}, [_SQUARE], 2),
    "_linalg_extractdiag": ({"offset": "1"}, [_SQUARE]),
    "_linalg_makediag": ({"offset": "-1"}, [_X]),
    "_linalg_extracttrian": ({}, [_SQUARE]),
    "_linalg_extracttrian upper": ({"lower": "False"}, [_SQUARE]),
    "_linalg_extracttrian above": ({"offset": "1"}, [_GRID]),
    "_linalg_extracttrian below": ({"offset": "-1"}, [_SQUARE]),
    "_linalg_maketrian": ({}, [_TRIANGLE]),
    "_linalg_maketrian upper": ({"lower": "False"}, [_TRIANGLE]),
    "_linalg_maketrian above": ({"offset": "1"}, [_TRIANGLE]),
    "_linalg_sumlogdiag": ({}, [_GOOD]),
    **{f"_linalg_{name} single": ({}, [_GOOD[0]]) for name in ("det", "sumlogdiag", "extractdiag")},
}

_SCORES = 2 * _RANDOM.standard_normal((6, 3, 5)).astype(np.float32)
_LABELS = np.array([[1, 2, 2], [3, 0, 0], [1, 0, 2]], np.float32)
_FRAMES, _COUNTS = np.array([6, 4, 2], np.float32), np.array([3, 1, 0], np.float32)
_LENGTHS = {"use_data_lengths": "True", "use_label_lengths": "True"}

ALIGNMENTS = {
    "CTCLoss": ({}, [_SCORES, _LABELS]),
    "CTCLoss last": ({"blank_label": "last"}, [_SCORES, _LABELS - 1]),
    "CTCLoss lengths": (_LENGTHS, [_SCORES, _LABELS, _FRAMES, _COUNTS]),
    "CTCLoss short": ({}, [_SCORES[:3], _LABELS]),
    "CTCLoss labels": ({"use_label_lengths": "True"}, [_SCORES, _LABELS, _COUNTS]),
}

CASES = {
    **MATRICES,
    **ALIGNMENTS,
    **{
        row: ({}, [_SOME, _MORE]) for row in ("_equal", "_not_equal", "_greater", "_greater_equal", "_lesser")
    },
    **{row: ({}, [_SOME, _MORE]) for row in ("_lesser_equal", "_logical_and", "_logical_or", "_logical_xor")},
    **{row: ({}, [_X, _Y]) for row in ("_hypot", "_minimum", "_mod")},
    **{row: ({"scalar": "1"}, [_SOME]) for row in ("_greater_equal_scalar", "_lesser_equal_scalar")},
    **{row: ({"scalar": "1"}, [_SOME]) for row in ("_logical_and_scalar", "_logical_or_scalar")},
    **{row: ({"scalar": "1"}, [_SOME]) for row in ("_logical_xor_scalar", "_not_equal_scalar")},
    **{row: ({"scalar": "0.7"}, [_X]) for row in ("_hypot_scalar", "_minus_scalar", "_mod_scalar")},
    **{row: ({"scalar": "0.7"}, [_X]) for row in ("_rdiv_scalar", "_rmod_scalar", "_rpower_scalar")},
    **{row: ({}, [_WIDE, _TALL]) for row in ("broadcast_hypot", "broadcast_maximum", "broadcast_sub")},
    **{row: ({}, [3 * _X]) for row in ("gamma", "gammaln")},
    "erfinv": ({}, [np.tanh(_X)]),
    **{row: ({"axis": "1"}, [_X]) for row in ("min", "prod")},
    **{row: ({"axis": "1", "keepdims": "True"}, [_HOLES]) for row in ("nanprod", "nansum")},
}
