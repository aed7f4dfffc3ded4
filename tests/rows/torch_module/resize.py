"""Cases of resampling."""

from .case import Case, Group, floats

_LINE, _IMAGE, _SOLID = floats(2, 3, 6), floats(2, 3, 6, 5), floats(2, 3, 4, 5, 3)
_EXACT = [("nearest", "upsample"), ("nearest_exact", "_upsample")]
_SIZES = {1: (_LINE, [9]), 2: (_IMAGE, [9, 7]), 3: (_SOLID, [6, 4, 7])}
_SCALES = {1: [1.5], 2: [1.5, 2.0], 3: [1.5, 2.0, 1.0]}
_KINDS = {"linear1d": 1, "bilinear2d": 2, "bicubic2d": 2, "trilinear3d": 3}
_SMOOTHED = [f"_upsample_{kind}2d_aa" for kind in ("bilinear", "bicubic")]


def _nearest(kind: str, prefix: str) -> list[Case]:
    name = f"aten.{prefix}_{kind}"
    return [Case(f"{name}{rank}d.default", *_SIZES[rank]) for rank in (1, 2, 3)] + [
        Case(f"{name}{rank}d.vec", _SIZES[rank][0], None, _SCALES[rank]) for rank in (1, 2, 3)
    ]


NEAREST = Group([case for kind, prefix in _EXACT for case in _nearest(kind, prefix)])

INTERPOLATED = Group(
    [
        *(Case(f"aten.upsample_{kind}.default", *_SIZES[rank], True) for kind, rank in _KINDS.items()),
        *(
            Case(f"aten.upsample_{kind}.vec", _SIZES[rank][0], None, False, _SCALES[rank])
            for kind, rank in _KINDS.items()
        ),
        *(
            Case(f"aten.upsample_{kind}.vec", _SIZES[rank][0], None, True, [1.7, 1.3, 0.7][:rank])
            for kind, rank in _KINDS.items()
        ),
        Case("aten.upsample_bilinear2d.default", _IMAGE, [9, 7], True, 2.0, 2.0),  # the size counts
        *(Case(f"aten.{name}.default", _IMAGE, [3, 4], False) for name in _SMOOTHED),
        *(Case(f"aten.{name}.vec", _IMAGE, [3, 4], False, None) for name in _SMOOTHED),
    ]
)

_PLANE, _SPACE = floats(2, 4, 5, 2, seed=1), floats(2, 3, 4, 2, 3, seed=1)

SAMPLED = Group(
    [
        Case("aten.grid_sampler.default", _IMAGE, _PLANE, 0, 0, False),
        Case("aten.grid_sampler_2d.default", _IMAGE, _PLANE, 1, 1, True),
        Case("aten.grid_sampler_3d.default", _SOLID, _SPACE, 0, 1, False),
    ]
)

GROUPS = [NEAREST, INTERPOLATED, SAMPLED]
