"""Cases of convolutions and pools."""

from torch.nn import functional

from .case import Case, Group, constant, floats

_LINE, _IMAGE, _SOLID = floats(2, 4, 9), floats(2, 4, 9, 8), floats(2, 4, 5, 6, 7)


def _first(found):
    return found[0]


def _pooled(x, pool, size):
    """The values of a pool and their places."""
    return [x.through(lambda x, n=n: pool(x, size, return_indices=True)[n]) for n in (0, 1)]


CONVOLUTIONS = Group(
    [
        Case("aten.conv1d.default", _LINE, constant(6, 2, 3), constant(6), [2], [1], [1], 2),
        Case("aten.conv1d.padding", _LINE, constant(6, 4, 2), None, [1], "same", [2]),
        Case("aten.conv2d.default", _IMAGE, constant(6, 2, 3, 2), constant(6), [2, 1], [1, 0], [1, 2], 2),
        Case("aten.conv2d.padding", _IMAGE, constant(6, 4, 2, 3), None, [1, 1], "same", [1, 2]),
        Case("aten.conv3d.default", _SOLID, constant(3, 4, 2, 3, 1), constant(3), [2, 2, 2], [1, 1, 0]),
        Case("aten.conv3d.padding", _SOLID, constant(3, 4, 2, 3, 1), constant(3), [1, 1, 1], "valid"),
        Case("aten.conv_transpose1d.default", _LINE, constant(4, 3, 3), constant(6), [2], [1], [1], 2),
        Case(
            "aten.conv_transpose2d.input", _IMAGE, constant(4, 3, 3, 2), constant(3), [2, 1], [1, 0], [1, 0]
        ),
        Case("aten.conv_transpose3d.input", _SOLID, constant(4, 2, 2, 3, 1), None, [2, 2, 2]),
        Case("aten.convolution.default", _IMAGE, constant(6, 4, 3, 3), None, [2], [1], [1], False, [0], 1),
    ]
)

POOLS = Group(
    [
        Case("aten._adaptive_avg_pool2d.default", _IMAGE, [3, 2]),
        Case("aten.adaptive_avg_pool1d.default", _LINE, [4]),
        Case("aten.adaptive_avg_pool2d.default", _IMAGE, [4, 3]),
        Case("aten.adaptive_avg_pool3d.default", _SOLID, [2, 3, 2]),
        Case("aten.adaptive_max_pool1d.default", _LINE, [4]),
        Case("aten.adaptive_max_pool2d.default", _IMAGE, [4, 3]),
        Case("aten.adaptive_max_pool3d.default", _SOLID, [2, 3, 2]),
        Case("aten.adaptive_max_pool1d.default", floats(2, 3, 7), [3]),
        Case("aten.adaptive_max_pool2d.default", _IMAGE, [3, 2]),
        Case("aten.adaptive_max_pool2d.default", _IMAGE.through(lambda x: x[0]), [1, 6], then=_first),
        Case("aten.max_unpool2d.default", *_pooled(_IMAGE, functional.max_pool2d, [2, 3]), [9, 8]),
        Case(
            "aten.max_unpool3d.default",
            *_pooled(_SOLID, functional.max_pool3d, 2),
            [5, 6, 7],
            [2] * 3,
            [0] * 3,
        ),
        Case("aten.avg_pool1d.default", _LINE, [3], [2], [1], True, False),
        Case("aten.avg_pool2d.default", _IMAGE, [3, 2], [2, 2], [1, 0], True, True),
        Case("aten.avg_pool3d.default", _SOLID, [2, 3, 2], [2]),
        Case("aten.max_pool1d.default", _LINE, [3], [2], [1], [2]),
        Case("aten.max_pool1d_with_indices.default", _LINE, [3], [2], [1]),
        Case("aten.max_pool2d.default", _IMAGE, [3, 2], [2, 2], [1, 0], [1, 1], True),
        Case("aten.max_pool2d_with_indices.default", _IMAGE, [3, 2], [2, 2], [1, 0]),
        Case("aten.max_pool3d.default", _SOLID, [2, 3, 2], [2], [1, 1, 0]),
        Case("aten.max_pool3d_with_indices.default", _SOLID, [2, 3, 2], [2], [1, 1, 0]),
    ]
)

GROUPS = [CONVOLUTIONS, POOLS]
