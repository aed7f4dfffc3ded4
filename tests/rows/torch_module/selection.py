"""Cases of order statistics, and of look-ups in sorted sequences."""

import torch

from .case import Case, Group, J, X

_EDGES = torch.tensor([-1.0, 0.0, 1.0])
_SORTED = X.through(lambda x: x.flatten().sort()[0])

ALONG_AXES = Group(
    [
        Case("aten.kthvalue.default", X, 2, 1),
        Case("aten.median.dim", X, 1),
        Case("aten.nanmedian.dim", X, 1, True),
        Case("aten.nanmedian.default", X),
        Case("aten.bucketize.Tensor", X, _EDGES, right=True),
        Case("aten.searchsorted.Tensor", _EDGES, X),
        Case("aten.searchsorted.Tensor", _EDGES.flip(0), X, side="right", sorter=torch.tensor([2, 1, 0])),
        Case("aten.searchsorted.Tensor", torch.arange(5), J, out_int32=True),
    ]
)

OF_ALL = Group(
    [
        Case("aten.median.default", X),
        Case("aten.bucketize.Scalar", 0.5, _SORTED),
        Case("aten.searchsorted.Scalar", _SORTED, 0.5),
        Case("aten.searchsorted.Scalar", torch.arange(5), 1.5),
    ],
    dynamic=False,
)

GROUPS = [ALONG_AXES, OF_ALL]
