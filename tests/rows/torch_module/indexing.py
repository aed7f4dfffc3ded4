"""Cases of reading and writing by place."""

import torch

from .case import B, Case, Group, J, X, constant, floats, integers

_PLACES = torch.tensor([0, 2, 1])
_IMAGE = floats(2, 3, 6, 5)
_ROWS = J.through(lambda i: i % 3)

PLACES = Group(
    [
        Case("aten._unsafe_index.Tensor", X, [None, _PLACES]),
        Case("aten._unsafe_index_put.default", X, [None, _PLACES], X.through(lambda x: x * 2), True),
        Case("aten.index.Tensor", X, [None, _PLACES, _PLACES]),
        Case("aten.index_put.default", X, [None, _PLACES, _PLACES], X.through(lambda x: x[:, :, 0])),
        Case("aten.index_select.default", X, 1, _PLACES),
        Case("aten.embedding.default", constant(3, 5), _ROWS),
        Case("aten.gather.default", X, 1, _ROWS),
        Case("aten.scatter.src", X, 1, _ROWS.through(lambda i: i[:, :1]), X),
        Case("aten.scatter.value", X, 1, _ROWS, 0.5),
        Case("aten.scatter_add.default", X, 1, _ROWS, X),
        Case("aten.im2col.default", _IMAGE, [2, 3], [1, 1], [1, 0], [2, 1]),
        Case("aten.narrow.default", X, 2, 1, 2),
        Case("aten.narrow_copy.default", X, 2, 1, 2),
        Case("aten.select.int", X, 1, -1),
        Case("aten.select_copy.int", X, 1, 1),
        Case("aten.select_scatter.default", X, X.through(lambda x: x[:, 0] * 2), 1, 2),
        Case("aten.slice.Tensor", X, 2, 1, 9, 2),
        Case("aten.slice_copy.Tensor", X, 2, -3, -1),
        Case("aten.slice_scatter.default", X, X.through(lambda x: x[:, :, :2] * 2), 2, 0, 4, 2),
        Case("aten.unfold.default", X, 2, 2, 1),
    ]
)

_FEW = integers(3, 5, low=0, high=2)

LENGTHS = Group(  # how long these are depends on values
    [
        Case("aten._unique.default", _FEW, True, True),
        Case("aten._unique2.default", _FEW, True, True, True),
        Case("aten.argwhere.default", B),
        Case("aten.masked_select.default", X, B),
        Case("aten.nonzero.default", X),
        Case("aten.unique_dim.default", _FEW, 0, True, True, True),
    ],
    dynamic=False,
)

GROUPS = [PLACES, LENGTHS]
