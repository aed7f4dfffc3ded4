"""Cases of operators that are expanded: indices, scans, selections, losses."""

from contextlib import suppress

import torch

from .case import B, Case, Group, J, Refused, X, Y, constant, floats, integers

with suppress(ImportError):  # a torch before 2.13 has neither the module nor the operators that it registers
    import torch.nn.modules.linear_cross_entropy

_PLACES = torch.tensor([0, 2, 1])
_ROWS = J.through(lambda i: i % 3)
_IMAGE, _SOLID = floats(2, 3, 7, 8), floats(2, 3, 5, 6, 7)
_FLAT = [0, 2, 1, 3, 4, 5]

PLACES = Group(
    [
        Case(
            "aten._unsafe_masked_index.default",
            X,
            B.through(lambda b: b[:, :, :3]),
            [None, None, _PLACES],
            0.5,
        ),
        Case("aten.index_reduce.default", X, 1, _PLACES, Y, "amax"),
        Case("aten.masked_scatter.default", X, B, Y),
        Case("aten.put.default", X, _ROWS, Y, True),
        Case("aten.scatter.reduce", X, 1, _ROWS, Y, reduce="multiply"),
        Case("aten.scatter.value_reduce", X, 1, _ROWS, 0.5, reduce="add"),
        Case("aten.scatter_reduce.two", X, 1, _ROWS, Y, "amin"),
        Case("aten.diagonal_scatter.default", X, Y.through(lambda y: y[:, 0, :3]), 0, 1, 2),
        Case("aten.cummax.default", X, 1),
        Case("aten.cummin.default", X, 2),
        Case("aten.cumprod.default", X, 1),
        Case("aten.logcumsumexp.default", X, 1),
        Case("aten.isin.Tensor_Tensor", J, torch.tensor([1, 3, 5])),
        Case("aten.mode.default", _ROWS, 2),
        Case("aten.quantile.default", X, torch.tensor([0.3, 0.8]), 1),
        Case("aten.nanquantile.default", X, torch.tensor([0.3]), 1),
        Case("aten.histc.default", X, 5, -2, 2),
    ]
)

_FEW, _FLAGS = integers(12, low=0, high=3), floats(2, 3).through(lambda x: x > 0)
_TABLE, _BAGS = constant(7, 4), (torch.tensor([1, 4, 2, 6, 0]), torch.tensor([0, 2]))
_TARGET = torch.tensor([1, 3, 0])
_LABELS = torch.tensor([[1, -1, -1, -1], [0, 2, -1, -1], [3, -1, -1, -1]])
_POINTS = floats(20, 2)


def _flat(found):
    return [found[0], *found[1]]


FIXED = Group(  # what counts positions or strides in memory is of one batch
    [
        Case("aten._embedding_bag.default", _TABLE, *_BAGS, then=lambda found: found[0]),
        Case(
            "aten._embedding_bag_forward_only.default", _TABLE, *_BAGS, False, 1, then=lambda found: found[0]
        ),
        Case(
            "aten._embedding_bag_forward_only.default",
            *(_TABLE, *_BAGS, False, 2, False, None, False, 4),
            then=lambda found: found[0],
        ),
        Case("aten.fill_diagonal_.default", X.through(lambda x: x[0].clone()), 0.5),
        Case("aten.as_strided.default", X, [2, 3], [1, 2], 1),
        Case("aten.as_strided_scatter.default", X, Y.through(lambda y: y[0, :2, :3]), [2, 3], [3, 1], 1),
        Case("aten.fractional_max_pool2d.default", _IMAGE, [2, 3], [4, 3], constant(2, 3, 2).sigmoid()),
        Case("aten.fractional_max_pool3d.default", _SOLID, [2, 2, 3], [3, 2, 3], constant(2, 3, 3).sigmoid()),
        Case("aten.histogram.bin_ct", X, 5, range=[-2.0, 2.0]),
        Case("aten.histogram.bins_tensor", X, torch.tensor([-2.0, 0.0, 1.0])),
        Case("aten.histogramdd.default", _POINTS, [2, 3], then=_flat),
        Case("aten.histogramdd.int_bins", _POINTS, 3, density=True, then=_flat),
        Case("aten.histogramdd.TensorList_bins", _POINTS, [torch.tensor([-1.0, 0.5, 2.0])] * 2, then=_flat),
        Case("aten.multi_margin_loss.default", floats(3, 4), _TARGET),
        Case("aten.multilabel_margin_loss_forward.default", floats(3, 4), _LABELS, 1),
        Case("aten.nonzero_static.default", X.through(lambda x: x > 0.3), size=9),
        Case("aten.segment_reduce.default", floats(6, 2), "max", lengths=torch.tensor([2, 1, 3])),
        Case("aten.unique_consecutive.default", _FEW, True, True),
        Case("aten.bincount.default", _FEW, None, 5),
        Case(
            "aten._unsafe_masked_index_put_accumulate.default",
            *(
                X.through(lambda x: x[0]),
                B.through(lambda b: b[0, :, :4]),
                [_PLACES],
                Y.through(lambda y: y[0]),
            ),
        ),
        Case("aten._weight_norm.default", X, constant(1, 3, 1), 1),
        Case(
            "torch_nn._linear_cross_entropy_batch_chunked.default",
            *(floats(3, 4), constant(5, 4), _TARGET, constant(5), None, "mean", -100, 0.0),
            *(2, "balanced", torch.float32, False, False, False, False),
            then=lambda found: found[0],  # the others are for gradients
        ),
        Case(
            "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default",
            *(floats(3, 4), constant(5, 4), _TARGET, constant(5), None, 1, 2, "balanced", torch.float32),
        ),
    ],
    dynamic=False,
)

REFUSED = [
    Refused("aten.repeat_interleave.Tensor", _PLACES, says="size of its result depends on data"),
    Refused("aten.repeat_interleave.self_Tensor", X, _PLACES, 1, says="size of its result depends on data"),
]

GROUPS = [PLACES, FIXED]
