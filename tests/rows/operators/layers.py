"""Cases of operators with weights or windows."""

import numpy as np

from .case import Case, Input, Weight, floats, integers

ROWS, X = Input(floats(3, 4)), Input(floats(2, 3, 4))
LINE, IMAGE, SOLID = Input(floats(2, 4, 9)), Input(floats(2, 4, 6, 5)), Input(floats(2, 4, 4, 6, 5))
PLACES = {
    x: np.broadcast_to(np.arange(x.array[0, 0].size).reshape(x.array.shape[2:]) * 2, x.array.shape).copy()
    for x in (LINE, IMAGE, SOLID)
}
"""As many places that are apart as each has elements."""
IDS = Input(integers(2, 3, high=7))
DOUBLE = Input(floats(2, 4, 3).astype(np.float64))
SEQUENCE = Input(floats(3, 2, 4))
H, C = Input(floats(2, 5)), Input(floats(2, 5, seed=1))
H2, C2 = Input(floats(4, 2, 5)), Input(floats(4, 2, 5, seed=1))
_MS, _MX = ["mindspore"], ["mxnet"]


def _vector(name, seed=0, positive=False):
    array = floats(4, seed=seed)
    return Weight(np.abs(array) + 0.5 if positive else array, name)


def _double(seed):
    return Weight(np.abs(floats(4, seed=seed)).astype(np.float64), f"vector{seed}")


def _gates(gates, inputs=4, hidden=5):
    shapes = [(gates * hidden, inputs), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)]
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [
        Weight(floats(*s, seed=n) * 0.5, name) for n, (s, name) in enumerate(zip(shapes, names, strict=True))
    ]


def _computed(gates, hidden=5):
    """Weights of two bidirectional layers that are inputs, not parameters."""
    each = (_gates(gates, inputs, hidden) for inputs in (4, 4, 2 * hidden, 2 * hidden))
    return [Input(weight.array) for layer in each for weight in layer]


_TWO = {"hidden_size": 5, "num_layers": 2, "bidirectional": 1}
_BOTH_WAYS = {"hidden_size": 5, "direction": "bidirectional"}


def _joined(gates, directions=2, hidden=5):
    """Weights of a layer as ONNX has them: of all directions, the two biases behind one another."""
    rows = gates * hidden
    shapes = {"w": (rows, 4), "r": (rows, hidden), "b": (2 * rows,)}
    return [Weight(floats(directions, *s, seed=n) * 0.5, name) for n, (name, s) in enumerate(shapes.items())]


def _multihead():
    shapes = {"out_weight": (4, 4), "out_bias": (4,), "in_weight": (12, 4), "in_bias": (12,)}
    return [Weight(floats(*s, seed=n), name) for n, (name, s) in enumerate(shapes.items())]


def _sloped(b, x, slope):
    return b.op("PRelu", x, b.op("Reshape", slope, b.constant([4, 1, 1])))


_STATISTICS = (_vector("mean", 2), _vector("variance", 3, positive=True))

CASES = [
    Case("Conv", LINE, Weight(floats(6, 2, 3)), Weight(floats(6), "bias"), group=2, strides=[2], pads=[1, 1]),
    Case(
        "Conv",
        IMAGE,
        Weight(floats(6, 2, 3, 2)),
        Weight(floats(6), "bias"),
        group=2,
        strides=[2, 1],
        dilations=[1, 2],
        pads=[1, 0, 1, 0],
    ),
    Case("Conv", IMAGE, Weight(floats(6, 4, 3, 2)), pads=[1, 0, 0, 1]),
    Case("Conv", SOLID, Weight(floats(3, 4, 2, 3, 1)), strides=[1, 2, 1]),
    Case(
        "ConvTranspose",
        IMAGE,
        Weight(floats(4, 3, 3, 2)),
        Weight(floats(3), "bias"),
        strides=[2, 1],
        pads=[1, 0, 1, 0],
        output_padding=[1, 0],
    ),
    Case("ConvTranspose", LINE, Weight(floats(4, 3, 3)), strides=[2]),
    Case("BatchNormalization", IMAGE, _vector("gamma", 0), _vector("beta", 1), *_STATISTICS, epsilon=1e-3),
    Case("BatchNormalization", DOUBLE, *map(_double, range(4)), epsilon=1e-3, backends=_MS),
    Case("LayerNormalization", X, _vector("gamma", 0), _vector("beta", 1), epsilon=1e-3),
    Case("GroupNormalization", IMAGE, _vector("gamma", 0), _vector("beta", 1), num_groups=2, epsilon=1e-3),
    Case("InstanceNormalization", IMAGE, _vector("gamma", 0), _vector("beta", 1), epsilon=1e-3),
    Case("RMSNormalization", X, _vector("gamma", 0), epsilon=1e-3),
    Case("BatchNormalization", IMAGE, *(Input(np.abs(floats(4, seed=n))) for n in range(4)), backends=_MS),
    Case("GroupNormalization", IMAGE, Input(floats(4)), Input(floats(4, seed=1)), num_groups=2, backends=_MS),
    Case("InstanceNormalization", IMAGE, Input(floats(4)), Input(floats(4, seed=1)), backends=_MS),
    Case("LRN", IMAGE, size=3, alpha=0.1, beta=0.6, bias=2.0),
    Case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]),
    Case("MaxPool", LINE, kernel_shape=[3], strides=[2]),
    Case("MaxPool", SOLID, kernel_shape=[2, 3, 2], strides=[2, 2, 2]),
    Case("MaxPool", IMAGE, kernel_shape=[3, 2], pads=[2, 1, 2, 1], backends=_MS),
    Case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[2, 2] * 2, count_include_pad=1, backends=_MS),
    Case("AveragePool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]),
    Case("AveragePool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], count_include_pad=1),
    Case("GlobalAveragePool", IMAGE),
    Case("GlobalMaxPool", IMAGE),
    Case("regraft.AdaptiveAveragePool", IMAGE, output_size=[3, 2]),
    Case("regraft.AdaptiveMaxPool", LINE, outputs=2, compared=1, output_size=[4], backends=_MS),
    Case("regraft.AdaptiveMaxPool", LINE, outputs=2, output_size=[4], backends=_MS),
    Case("regraft.AdaptiveMaxPool", IMAGE, outputs=2, compared=1, output_size=[4, 3]),
    Case("regraft.AdaptiveMaxPool", IMAGE, outputs=2, output_size=[4, 1], backends=_MS),
    Case("regraft.AdaptiveMaxPool", SOLID, outputs=2, compared=1, output_size=[3, 4, 2], backends=_MS),
    Case("regraft.AdaptiveMaxPool", SOLID, outputs=2, output_size=[2, 4, 3], backends=_MS),
    *(
        Case("regraft.MaxUnpool", x, PLACES[x], output_size=size, backends=_MS)
        for x, size in ((IMAGE, [12, 15]), (IMAGE, [9, 8]), (SOLID, [4, 9, 10]), (LINE, [18]))
    ),
    Case("regraft.FullPool", IMAGE, mode="max", kernel_shape=[3, 2], strides=[2, 2]),
    Case("regraft.FullPool", IMAGE, mode="average", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 1]),
    Case("regraft.FullPool", IMAGE, mode="sum", kernel_shape=[3, 2], strides=[2, 2]),
    Case(
        "Resize",
        IMAGE,
        None,
        np.float32([1, 1, 2, 2]),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    Case(
        "Resize",
        IMAGE,
        None,
        None,
        np.array([2, 4, 11, 7]),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    ),
    Case(
        "Resize",
        IMAGE,
        None,
        None,
        np.array([2, 4, 11, 7]),
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    ),
    Case("GridSample", IMAGE, Input(np.tanh(floats(2, 3, 4, 2, seed=5))), align_corners=1),
    Case("Gemm", ROWS, Weight(floats(5, 4)), Weight(floats(5), "bias"), transB=1),
    Case("Gemm", ROWS, Weight(floats(4, 5)), Weight(floats(5), "bias"), alpha=0.5, beta=2.0, backends=_MS),
    Case("regraft.Linear", X, Weight(floats(5, 4)), Weight(floats(5), "bias")),
    Case("regraft.PaddedEmbedding", Weight(floats(7, 4)), IDS, padding_idx=2),
    Case("Gather", Weight(floats(7, 4)), IDS),
    Case("PRelu", IMAGE, Weight(floats(4, 1, 1))),
    Case("PRelu", IMAGE, Weight(floats(4)), build=_sloped, backends=_MS),
    Case("regraft.LSTM", SEQUENCE, None, None, None, *_gates(4), outputs=3, hidden_size=5),
    Case("regraft.GRU", SEQUENCE, None, None, *_gates(3), outputs=2, hidden_size=5),
    Case("regraft.RNN", SEQUENCE, None, None, *_gates(1), outputs=2, hidden_size=5),
    Case("regraft.LSTM", SEQUENCE, None, H2, C2, *_computed(4), outputs=3, **_TWO),
    Case("regraft.GRU", SEQUENCE, None, H2, *_computed(3), outputs=2, **_TWO),
    Case("regraft.RNN", SEQUENCE, None, None, *_computed(1), outputs=2, **_TWO),
    Case(
        "regraft.RNN",
        SEQUENCE,
        None,
        None,
        *_computed(1)[:8],
        outputs=2,
        hidden_size=5,
        bidirectional=1,
        nonlinearity="relu",
    ),
    Case(
        "LSTM",
        SEQUENCE,
        *_joined(4),
        None,
        Input(floats(2, 2, 5)),
        Input(floats(2, 2, 5, seed=1)),
        outputs=3,
        backends=_MX,
        **_BOTH_WAYS,
    ),
    Case("LSTM", SEQUENCE, *_joined(4, 1), outputs=3, backends=_MX, hidden_size=5, direction="reverse"),
    Case("GRU", SEQUENCE, *_joined(3), outputs=2, backends=_MX, linear_before_reset=1, **_BOTH_WAYS),
    Case("RNN", SEQUENCE, *_joined(1)[:2], outputs=2, backends=_MX, **_BOTH_WAYS),
    Case("RNN", SEQUENCE, *_joined(1), outputs=2, backends=_MX, activations=["Relu", "Relu"], **_BOTH_WAYS),
    Case("regraft.LSTMCell", Input(floats(2, 4, seed=7)), H, C, *_gates(4), outputs=2),
    Case("regraft.GRUCell", Input(floats(2, 4, seed=7)), H, *_gates(3)),
    Case("regraft.RNNCell", Input(floats(2, 4, seed=7)), H, *_gates(1)),
    Case("regraft.MultiheadAttention", X, X, X, *_multihead(), num_heads=2, batch_first=1),
    Case("regraft.LinearRegressionOutput", ROWS),
    Case("regraft.LogisticRegressionOutput", ROWS),
    Case("regraft.MAERegressionOutput", ROWS),
    Case("regraft.SVMOutput", ROWS),
    Case("regraft.SoftmaxOutput", ROWS),
    Case("regraft.MakeLoss", ROWS),
]
