"""Cases of moves, joins and pads."""

from .case import Case, Group, X, Y, floats

_IMAGE, _ROWS = floats(2, 4, 5, 6), floats(2, 4)
_SAME = "alias clone contiguous detach detach_copy lift_fresh_copy ravel"

MOVES = Group(
    [
        *(Case(f"aten.{name}.default", X) for name in _SAME.split()),
        Case("aten._unsafe_view.default", X, [-1, 12]),
        Case("aten.view.default", X, [-1, 6]),
        Case("aten.view_as.default", X, Y),
        Case("aten.reshape.default", X, [-1, 4, 3]),
        Case("aten.reshape_as.default", X, Y.through(lambda y: y.flatten(1))),
        Case("aten.flatten.using_ints", X, 1),
        Case("aten.unflatten.int", X, 2, [2, 2]),
        Case("aten.broadcast_to.default", X.through(lambda x: x[:, :, :1]), [-1, 3, 5]),
        Case("aten.expand.default", X.through(lambda x: x[:, :1]), [-1, 5, 4]),
        Case("aten.expand_as.default", X.through(lambda x: x[:, :1]), Y),
        Case("aten.channel_shuffle.default", _IMAGE, 2),
        Case("aten.pixel_shuffle.default", _IMAGE, 2),
        Case("aten.diagonal.default", X, 1, 1, 2),
        Case("aten.flip.default", X, [1, 2]),
        Case("aten.mT.default", X),
        Case("aten.movedim.int", X, 1, 2),
        Case("aten.movedim.intlist", X, [0, 1], [1, 2]),
        Case("aten.numpy_T.default", X),
        Case("aten.permute.default", X, [2, 0, 1]),
        Case("aten.roll.default", X, [1, -1], [1, 2]),
        Case("aten.swapaxes.default", X, 1, 2),
        Case("aten.swapdims.default", X, 1, 2),
        Case("aten.t.default", _ROWS),
        Case("aten.transpose.int", X, 1, 2),
        Case("aten.squeeze.default", X.through(lambda x: x[:, :1])),
        Case("aten.squeeze.dim", X.through(lambda x: x[:, :1]), 1),
        Case("aten.squeeze.dims", X.through(lambda x: x[:, :1, :1]), [1, 2]),
        Case("aten.unsqueeze.default", X, 2),
        Case("aten.repeat.default", X, [1, 2, 3]),
        Case("aten.tile.default", X, [2, 1]),
    ]
)

JOINS = Group(
    [
        Case("aten.cat.default", [X, Y], 1),
        Case("aten.concat.default", [X, Y], 2),
        Case("aten.stack.default", [X, Y], 1),
        Case("aten.chunk.default", X, 2, 2),
        Case("aten.split.Tensor", X, 2, 1),
        Case("aten.split.sizes", X, [1, 3], 2),
        Case("aten.split_copy.Tensor", X, 2, 1),
        Case("aten.split_with_sizes.default", X, [3, 1], 2),
        Case("aten.tensor_split.indices", X, [1, 3], 2),
        Case("aten.tensor_split.sections", X, 3, 2),
        Case("aten.unbind.int", X, 1),
    ]
)

_LINE, _SOLID = floats(2, 4, 5), floats(2, 3, 4, 5, 6)

PADS = Group(
    [
        Case("aten.constant_pad_nd.default", _IMAGE, [1, 2, 0, -1], 0.5),
        Case("aten.pad.default", _IMAGE, [1, 2, 3, 0], "circular"),
        *(
            Case(f"aten.{kind}_pad{rank}d.default", x, [1, 2, 0, 1, 2, 1][: 2 * rank])
            for kind in ("reflection", "replication")
            for rank, x in enumerate((_LINE, _IMAGE, _SOLID), 1)
        ),
    ]
)

_A, _B = floats(3), floats(4)

GRIDS = Group(
    [
        Case("aten.meshgrid.default", [_A, _B]),
        Case("aten.meshgrid.indexing", [_A, _B], indexing="xy"),
    ],
    dynamic=False,
)

GROUPS = [MOVES, JOINS, PADS, GRIDS]
