"""Cases of the MXNet frontend's rows that no recorded model has: row -> (its attributes, its inputs).

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

CASES = {
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
