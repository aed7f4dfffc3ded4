"""Cases of operators that MindSpore has no function for, or that need one of the file's own."""

import numpy as np

from .case import Case, Input, floats, integers

X, Y = Input(floats(2, 3, 4)), Input(floats(2, 3, 4, seed=1))
IMAGE, LINE, SOLID = Input(floats(2, 4, 6, 5)), Input(floats(2, 3, 9)), Input(floats(1, 2, 5, 6, 5))
TIES = Input(integers(2, 3, 4, high=3).astype(np.float32))
FAR = Input(np.array([[1, -1, 7, -7, 0, 5], [-3, 3, np.nan, 4, np.inf, 2]], np.float32))
NEAR = Input(np.array([[np.inf, np.inf, -2, 2, -np.inf, 3], [-np.inf, 2, 2, np.inf, 2, -3]], np.float32))
BYTES, SIGNED = Input(integers(3, 8, high=256).astype(np.uint8)), Input((floats(8, 5) * 50).astype(np.int8))
SCALE, ZERO = np.float32(0.03), np.array(120, np.uint8)
HALVES = Input((integers(2, 3, 4, high=40) / 4 - 5).astype(np.float32))
BOXES = Input(np.array([[[0, 0, 1, 1], [1, 1.1, 0, 0.1], [0, 0.9, 1, 1.9], [0, 10, 1, 11]]] * 2, np.float32))
SCORES = Input(np.array([[[0.9, 0.75, 0.6, 0.95]], [[0.3, 0.8, 0.8, 0.1]]], np.float32))
STEPS = Input(floats(3, 3, 4))
LENGTHS = Input(np.array([3, 1, 2], np.int32))
_MS = ["mindspore"]


def _weights(gates, directions=2):
    shapes = ((gates * 6, 4), (gates * 6, 6), (gates * 12,))
    return [Input(floats(directions, *shape, seed=n)) for n, shape in enumerate(shapes)]


H, C, P = (Input(floats(2, *shape, seed=9)) for shape in ((3, 6), (3, 6), (18,)))
_TWO = {"direction": "bidirectional", "hidden_size": 6, "backends": _MS}


def _grid(*shape):
    """Places of which many lie between two pixels."""
    return Input((integers(*shape, high=25) / 8 - 1.5).astype(np.float32))


CASES = [
    Case("Mod", FAR, NEAR, fmod=1, backends=_MS),
    *(
        Case("Mod", Input(a.astype(t)), Input((a[::-1] + 1).astype(t)), backends=_MS)
        for t in (np.uint16, np.uint32)
        for a in [integers(9, high=60000)]
    ),
    *(
        Case("BitShift", BYTES, np.array(n, np.uint8), direction=d, backends=_MS)
        for n, d in ((2, "LEFT"), (3, "RIGHT"))
    ),
    Case("BitwiseNot", Input(integers(7, high=60000).astype(np.uint16)), backends=_MS),
    Case("Mean", X, Y, X, backends=_MS),
    Case("Mean", X, backends=_MS),
    Case(
        "Pow", Input(integers(5, high=9).astype(np.int32)), Input(np.full(5, 2.0, np.float32)), backends=_MS
    ),
    Case("Pow", Input(floats(5)), Input(np.arange(5)), backends=_MS),
    *(
        Case("IsInf", FAR, detect_negative=n, detect_positive=p, backends=_MS)
        for n, p in ((0, 1), (1, 0), (0, 0))
    ),
    Case("Det", Input(floats(2, 3, 3)), backends=_MS),
    Case("ReduceLogSum", Input(np.abs(floats(2, 3, 4))), [1], backends=_MS),
    Case("Transpose", Input(floats(3, 3)), perm=[0, 1], backends=_MS),
    Case("ReduceSum", X, [], noop_with_empty_axes=1, backends=_MS),
    Case("ReduceMax", X, noop_with_empty_axes=1, backends=_MS),
    *(
        Case(name, Input(floats(2, 3) > 0), [1], keepdims=k, backends=_MS)
        for name in ("ReduceMax", "ReduceMin")
        for k in (0, 1)
    ),
    *(
        Case(
            "GridSample",
            IMAGE,
            _grid(2, 3, 4, 2),
            mode="nearest",
            padding_mode=p,
            align_corners=a,
            backends=_MS,
        )
        for p in ("zeros", "border", "reflection")
        for a in (0, 1)
    ),
    Case("GridSample", SOLID, _grid(1, 2, 3, 4, 3), mode="nearest", backends=_MS),
    Case("NonMaxSuppression", BOXES, SCORES, [3], np.float32([0.5]), np.float32([0.2]), backends=_MS),
    Case("NonMaxSuppression", BOXES, SCORES, [2], np.float32([0.5]), center_point_box=1, backends=_MS),
    Case("LSTM", STEPS, *_weights(4), LENGTHS, H, C, P, outputs=3, **_TWO),
    Case("GRU", STEPS, *_weights(3), LENGTHS, H, outputs=2, linear_before_reset=1, **_TWO),
    Case("GRU", STEPS, *_weights(3), outputs=2, **_TWO),
    Case("RNN", STEPS, *_weights(1), LENGTHS, H, outputs=2, **_TWO),
    Case("RNN", STEPS, *_weights(1)[:2], outputs=2, activations=["Relu", "Relu"], **_TWO),
]

WRITTEN_OUT = [
    *(
        Case(name, TIES, axis=1, keepdims=k, select_last_index=1)
        for name in ("ArgMax", "ArgMin")
        for k in (0, 1)
    ),
    *(Case("Hardmax", TIES, axis=a) for a in (0, -1)),
    Case("OneHot", Input(np.array([[0, -1], [3, 7]])), np.int64(4), Input(np.float32([2, 5])), axis=1),
    *(Case("Trilu", X, Input(np.array(k)), upper=u) for k, u in ((-1, 0), (1, 1))),
    Case("Compress", X, Input(np.array([True, False, True])), axis=1),
    Case("Compress", X, Input(np.array([True, False, True]))),
    *(
        Case("Unique", Input(integers(6, 2, 2, high=2).astype(np.float32)), outputs=4, axis=a, sorted=o)
        for a in (0, -1)
        for o in (0, 1)
    ),
    Case("EyeLike", Input(floats(3, 5)), k=-1),
    Case("ReverseSequence", X, Input(np.array([1, 3])), batch_axis=0, time_axis=1),
    Case("ReverseSequence", Input(floats(5, 3, 4)), Input(np.array([1, 3, 5]))),
    *(
        Case("ScatterElements", X, Input(integers(2, 3, 4, high=5) - 2), Y, axis=1, reduction=r)
        for r in ("add", "mul", "max", "min")
    ),
    *(  # slices, of which some are written twice
        Case(
            "ScatterElements",
            x,
            np.broadcast_to(at, shape) + 0,
            Input(floats(*shape)),
            axis=a,
            reduction="add",
        )
        for x, at, shape, a in (
            (X, np.array([[[1]], [[-2]], [[1]]]), (3, 3, 4), 0),
            (X, np.array([[2, 0, 2, -1]]).T, (2, 4, 4), 1),
            (X, np.array([[0, 0, 3]]), (2, 3, 3), 2),
            (TIES, np.array([[[1, 0, 0, 1]], [[0, 0, 1, 0]]]), (2, 3, 4), 1),
        )
    ),
    Case("regraft.MaxUnpool", LINE, Input(np.arange(54).reshape(2, 3, 9) % 18), output_size=[18]),
    Case(
        "MaxUnpool",
        Input(floats(1, 1, 2, 2)),
        Input(np.array([[[[5, 7], [13, 15]]]])),
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    Case("MaxPool", IMAGE, outputs=2, kernel_shape=[2, 3], strides=[2, 1]),
    Case("MaxPool", IMAGE, outputs=2, kernel_shape=[2, 3], strides=[2, 1], storage_order=1),
    Case("AveragePool", IMAGE, kernel_shape=[3, 2], pads=[1, 0, 0, 1]),
    Case("AveragePool", IMAGE, kernel_shape=[3, 2], dilations=[2, 3], strides=[1, 2]),
    Case("AveragePool", IMAGE, kernel_shape=[3, 3], auto_pad="SAME_LOWER", strides=[2, 2]),
    Case(
        "AveragePool",
        SOLID,
        kernel_shape=[2, 2, 2],
        dilations=[2, 1, 2],
        pads=[1, 0, 1] * 2,
        ceil_mode=1,
        strides=[2, 2, 2],
        count_include_pad=1,
    ),
    *(Case("LpPool", LINE, kernel_shape=[3], strides=[2], p=p) for p in (1, 2, 3)),
    Case("LpPool", IMAGE, kernel_shape=[3, 2], pads=[1, 1, 1, 0]),
    *(
        Case(
            "LpNormalization",
            Input(np.concatenate([floats(2, 3), np.zeros((2, 3), np.float32)])),
            axis=1,
            p=p,
        )
        for p in (1, 2)
    ),
    Case(
        "BatchNormalization",
        IMAGE,
        *(Input(np.abs(floats(4, seed=n))) for n in range(4)),
        outputs=3,
        training_mode=1,
        momentum=0.8,
    ),
    Case("Dropout", X, outputs=2),
    *(
        Case("QuantizeLinear", HALVES, np.float32(0.5), z)
        for z in (None, np.array(3, np.uint8), np.array(-3, np.int8), np.array(9, np.uint16))
    ),
    Case("QuantizeLinear", X, np.float32([0.1, 0.2, 0.5]), np.uint8([3, 5, 200]), axis=1),
    Case("DequantizeLinear", BYTES, np.float32(0.5), ZERO),
    Case("DequantizeLinear", BYTES, np.float32(np.arange(8) + 1), np.arange(8).astype(np.uint8), axis=1),
    Case("DequantizeLinear", BYTES, floats(3, 4), axis=1, block_size=2),
    Case("DynamicQuantizeLinear", X, outputs=3),
    Case("MatMulInteger", BYTES, SIGNED, ZERO, np.array(7, np.int8)),
    Case("QLinearMatMul", BYTES, SCALE, ZERO, SIGNED, SCALE, np.array(7, np.int8), np.float32(0.5), ZERO),
    Case(
        "ConvInteger",
        Input(integers(1, 3, 6, 5, high=256).astype(np.uint8)),
        Input(integers(2, 3, 3, 3, high=256).astype(np.uint8)),
        ZERO,
        np.array(9, np.uint8),
        pads=[1, 1, 1, 1],
    ),
    Case(
        "ConvInteger",
        Input(integers(1, 600, 4, high=256).astype(np.uint8)),
        Input(integers(2, 600, 2, high=256).astype(np.uint8)),
    ),
    Case(
        "QLinearConv",
        Input(integers(1, 3, 6, 5, high=256).astype(np.uint8)),
        SCALE,
        ZERO,
        Input(integers(2, 3, 3, 3, high=256).astype(np.uint8)),
        np.float32([0.01, 0.02]),
        np.uint8([9, 8]),
        np.float32(0.5),
        ZERO,
        np.int32([70, -80]),
    ),
    *(
        Case("DFT", Input(floats(2, 6, 5, n)), None, np.int64(1), onesided=o)
        for n, o in ((1, 0), (1, 1), (2, 0))
    ),
    Case("DFT", Input(floats(2, 6, 2)), None, np.int64(-2), inverse=1),
    *(Case("DFT", Input(floats(2, 6, 2)), np.int64(n), np.int64(1)) for n in (4, 8)),
    Case("STFT", Input(floats(2, 20, 1)), np.int64(3), Input(np.abs(floats(6))), onesided=1),
    *(Case("GridSample", IMAGE, _grid(2, 3, 4, 2), mode="cubic", align_corners=a) for a in (0, 1)),
    Case(
        "DeformConv",
        IMAGE,
        Input(floats(6, 2, 2, 3)),
        Input(floats(2, 24, 3, 4)),
        Input(floats(6)),
        Input(floats(2, 12, 3, 4)),
        group=2,
        offset_group=2,
        strides=[2, 1],
        dilations=[2, 1],
        pads=[1, 0, 1, 1],
    ),
    *(
        Case(
            "TfIdfVectorizer",
            Input(np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)),
            mode=m,
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=2,
            ngram_counts=[0, 4],
            ngram_indexes=[0, 1, 2, 4, 3, 5, 6],
            pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
            weights=[0.5, 2, 1, 1, 3, 1, 7],
        )
        for m in ("TF", "IDF", "TFIDF")
    ),
]
"""Cases that no emitter takes: each is written in other operators."""

BATCH_FIRST = [
    Case(name, Input(floats(3, 5, 4)), *_weights(gates, 1), *more, outputs=outputs, layout=1, hidden_size=6)
    for name, gates, outputs, more in (
        ("LSTM", 4, 3, ()),
        ("GRU", 3, 2, (None, Input(floats(3, 1, 6)))),
        ("RNN", 1, 2, ()),
    )
]
"""Cases of recurrent operators in the layout that ONNX Runtime does not have."""
