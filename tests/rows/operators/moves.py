"""Cases of operators that move, join, pick and reduce."""

import numpy as np

from .case import Case, Input, floats, integers

X, Y = Input(floats(2, 3, 4)), Input(floats(2, 3, 4, seed=1))
IMAGE = Input(floats(2, 4, 6, 5))
WIDE = Input(floats(2, 4, 6, 4))
WHOLE = Input(integers(2, 3, 4, high=9).astype(np.int32))
ROW = Input(floats(2, 1, 4))
PLACES = Input(integers(2, 3, 4, high=3))
B = Input(floats(2, 3, 4) > 0)
VECTOR = Input(floats(4))
ALIVE, HIDES = Input(floats(2, 6) > -0.8), Input(np.triu(floats(2, 6, 6, seed=1) > 0, 1))
_MS, _MX = ["mindspore"], ["mxnet"]


def _shape(b, x):
    return b.op("Shape", x)


def _sizes_among_values(b, x):
    """Sizes in arithmetic with tensors, and sizes that are returned."""
    sizes = b.op("Shape", x, start=1)
    places = b.op("ArgMax", x, axis=2, keepdims=0)
    return b.op("Slice", sizes, b.constant([1]), b.constant([2])), b.op("Add", places, b.op("Size", x))


def _like(b, x, y):
    return b.op("Reshape", y, b.op("Shape", x))


def _turned(b, x):
    return b.op("Transpose", x, perm=[0, 2, 1])


_REDUCED = "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare ReduceL1 ReduceL2"

CASES = [
    Case("Reshape", X, [2, -1]),
    Case("Flatten", IMAGE),
    Case("Flatten", X, axis=2, backends=_MS),
    Case("Transpose", X, perm=[2, 0, 1]),
    Case("Unsqueeze", X, [1]),
    Case("Squeeze", ROW, [1]),
    Case("Concat", X, Y, axis=1),
    Case("Split", X, [1, 3], outputs=2, axis=2),
    Case("Split", X, [2, 2], outputs=2, axis=2),
    Case("Split", X, [1, 1, 1], outputs=3, axis=1, backends=_MS),
    Case("Split", X, [4], axis=2, backends=_MS),
    Case("Slice", X, [1, 0], [3, 4], [1, 2], [1, 2]),
    Case("Slice", X, [-1], [-(2**62)], [2], [-1]),
    Case("Slice", X, [-2, 2**62, 0], [-(2**62), -(2**62), 2], [0, 1, 2], [-1, -2, 1], backends=_MS),
    Case("Slice", X, [3], [0], [2], [-2], backends=_MS),
    Case("Pad", IMAGE, [0, 0, 1, 2, 0, 0, 0, 1], np.float32(0.5)),
    Case("Pad", IMAGE, [0, 0, 1, 2, 0, 0, 0, 1], mode="reflect"),
    Case("Pad", IMAGE, [0, 0, 1, 2, 0, 0, 0, 1], mode="edge"),
    Case("Pad", X, [0, 1, 0, 0, 0, 2], np.float32(-1)),
    Case("Tile", X, [1, 2, 3]),
    Case("Expand", ROW, [2, 3, 4]),
    Case("Shape", X, build=_shape),
    Case("Size", X),
    *(
        Case("OneHot", Input(np.array([[0, -1], [3, 7]])), np.int64(4), np.float32([2, 5]), axis=a)
        for a in (-1, 1)
    ),
    Case("Shape", X, build=_sizes_among_values, backends=_MS),
    Case("Shape", X, Input(floats(24)), build=_like, backends=_MS),
    Case("DepthToSpace", IMAGE, blocksize=2),
    Case("DepthToSpace", IMAGE, blocksize=1, backends=_MS),
    Case("DepthToSpace", IMAGE, blocksize=2, mode="CRD", backends=_MS),
    Case("SpaceToDepth", WIDE, blocksize=2),
    *(Case(name, X, [1], keepdims=0) for name in _REDUCED.split()),
    *(Case(name, X, [1, 2]) for name in _REDUCED.split()),
    *(Case(name, WHOLE, [1], backends=_MS) for name in _REDUCED.split() if name != "ReduceL2"),
    Case("ReduceLogSumExp", X, [1], keepdims=0),
    Case("ReduceLogSumExp", X, [1, 2], backends=_MS),
    Case("ReduceLogSumExp", Input(np.array([[-np.inf] * 2, [np.inf, 1], [90, 99]], "f")), [1], backends=_MX),
    *(Case(name, X, axis=1, keepdims=0) for name in ("ArgMax", "ArgMin")),
    *(Case(name, X, axis=2) for name in ("ArgMax", "ArgMin")),
    Case("CumSum", X, np.int64(1)),
    Case("CumSum", X, np.int64(2), exclusive=1, reverse=1),
    Case("TopK", X, [2], outputs=2, axis=1),
    Case("TopK", X, [2], outputs=2, axis=2, largest=0),
    Case("Gather", X, np.array([2, 0, -1]), axis=1),
    Case("GatherElements", X, PLACES, axis=1),
    Case("GatherND", X, np.array([[0, 1], [1, 2]])),
    Case("regraft.Suppressed", ALIVE, HIDES, backends=["mxnet"]),
    Case("GatherND", X, Input(np.array([[0, -1], [-2, 2]]))),
    Case("GatherND", X, Input(np.array([[-1], [2]])), batch_dims=1),
    Case("GatherND", X, Input(np.array([[[-1], [2]], [[0], [1]]])), batch_dims=1),
    Case("GatherND", X, Input(np.array([[[0], [-1], [2]], [[3], [1], [0]]])), batch_dims=2, backends=_MX),
    Case("ScatterElements", X, PLACES, Y, axis=1, reduction="add"),
    Case(
        "ScatterND",
        X,
        Input(np.array([[1, -1], [1, -1], [0, 2]])),
        Input(floats(3, 4)),
        reduction="add",
        backends=_MX,
    ),
    Case(
        "ScatterElements",
        X,
        Input(integers(2, 1, 4, high=3) - 2),
        Input(floats(2, 1, 4)),
        axis=1,
        backends=_MX,
    ),
    *(
        Case(
            "ScatterElements",
            X,
            np.argsort(floats(2, 2, 4), axis=1),
            Input(floats(2, 2, 4)),
            axis=1,
            reduction=r,
        )
        for r in ("add", "none")
    ),
    Case("ScatterND", X, np.array([[1], [0]]), Y),
    Case("ScatterND", X, np.array([[1, 2, 0], [0, 1, 3]]), Input(floats(2)), backends=_MX),
    Case("ScatterND", X, Input(np.array([[-1]])), Input(floats(1, 3, 4)), backends=_MX),
    Case("Trilu", X, np.int64(1), upper=1),
    Case("Trilu", X, np.int64(0), upper=0),
    Case(
        "Trilu", Input(np.where(floats(4, 3) > 0, np.inf, floats(4, 3))), np.int64(-2), upper=1, backends=_MX
    ),
    Case("regraft.Unstack", X, outputs=3, axis=1),
    Case("Einsum", X, Y, equation="bij,bkj->bik"),
    Case("MatMul", X, Input(floats(2, 4, 3, seed=2))),
    Case("MatMul", X, floats(4, 5), backends=_MS),
    Case("MatMul", X, Y, build=lambda b, x, y: b.op("MatMul", x, _turned(b, y)), backends=_MS),
    Case("MatMul", X, Y, build=lambda b, x, y: b.op("MatMul", _turned(b, x), y), backends=_MS),
    Case("Compress", VECTOR, np.array([True, False, True, True]), axis=0),
    Case("NonZero", X),
    Case("Unique", PLACES, sorted=1),
    Case("Unique", PLACES, sorted=0, backends=_MS),
    Case(
        "Col2Im",
        Input(floats(2, 12, 15)),
        np.array([6, 5]),
        np.array([2, 2]),
        strides=[1, 2],
        pads=[0, 1, 0, 1],
    ),
    Case(
        "Col2Im",
        Input(floats(1, 12, 20)),
        np.array([4, 5]),
        np.array([2, 3]),
        dilations=[2, 1],
        pads=[1, 0, 2, 1],
        backends=_MX,
    ),
    *(
        Case(
            "RoiAlign",
            IMAGE,
            Input(np.array([[0, 0, 4, 3], [1.5, 0.5, 3, 5], [0, 1, 9, 9]], np.float32)),
            Input(np.array([0, 1, 1])),
            output_height=2,
            output_width=3,
            sampling_ratio=samples,
            spatial_scale=0.5,
            coordinate_transformation_mode=mode,
            backends=_MX,
        )
        for samples, mode in ((2, "half_pixel"), (0, "output_half_pixel"))
    ),
    Case(
        "ConstantOfShape",
        X,
        build=lambda b, x: b.op("ConstantOfShape", b.op("Shape", x), value=np.float32([2])),
        backends=_MS,
    ),
    Case(
        "Range", X, build=lambda b, x: b.op("Range", b.constant(0), _size(b, x), b.constant(1)), backends=_MS
    ),
]


def _size(b, x):
    return b.op("Squeeze", b.op("Shape", x, start=1, end=2), b.constant([0]))
