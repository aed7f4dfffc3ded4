"""FullPool's expansion against loops over MXNet's windows, which are clipped where they hang over."""

from itertools import product
from math import ceil

import numpy as np
import onnxruntime
import pytest

from regraft.backends.onnx_model import to_model
from regraft.ir import BackendError, Builder, Graph, TensorType, Value, expand

SIZES = [(6, 7), (5, 8), (10, 11)]
WINDOWS = [
    ((2, 2), (2, 2), (0, 0)),
    ((3, 3), (2, 2), (1, 1)),
    ((2, 3), (3, 2), (1, 2)),
    ((3, 2), (1, 3), (0, 1)),
]


def by_loops(x: np.ndarray, mode: str, kernel, stride, pad, counted: bool) -> np.ndarray:
    rows, columns = ((n + 2 * p - k) for n, p, k in zip(x.shape[2:], pad, kernel, strict=True))
    out = np.zeros((*x.shape[:2], ceil(rows / stride[0]) + 1, ceil(columns / stride[1]) + 1), np.float64)
    height, width = x.shape[2:]
    for i, j in product(range(out.shape[2]), range(out.shape[3])):
        top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
        inside = x[
            :,
            :,
            max(top, 0) : max(min(top + kernel[0], height), 0),
            max(left, 0) : max(min(left + kernel[1], width), 0),
        ]
        if mode == "max":
            out[:, :, i, j] = inside.max((2, 3), initial=np.finfo(np.float32).min)
            continue
        padded = (min(top + kernel[0], height + pad[0]) - top) * (
            min(left + kernel[1], width + pad[1]) - left
        )
        divisor = 1 if mode == "sum" else padded if counted else inside.shape[2] * inside.shape[3]
        out[:, :, i, j] = inside.sum((2, 3)) / max(divisor, 1)
    return out


def pooled(shape: tuple, mode: str, window, counted: bool) -> tuple[Graph, Value]:
    kernel, stride, pad = window
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", shape))
    y = b.op(
        "regraft.FullPool", x, mode=mode, kernel_shape=kernel, strides=stride, pads=pad * 2,
        count_include_pad=counted,
    )  # fmt: skip
    b.graph.outputs.append(("y", y))
    return b.graph, y


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("mode", "counted"), [("max", True), ("average", True), ("average", False), ("sum", True)]
)
def test_expansion(size, window, mode: str, counted: bool) -> None:
    graph, y = pooled(("N", 2, *size), mode, window, counted)
    data = np.random.default_rng(0).standard_normal((2, 2, *size)).astype(np.float32) - 3  # max is never 0
    want = by_loops(data, mode, *window, counted)
    assert graph.known_type(y).shape == ("N", 2, *want.shape[2:])
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString())
    (got,) = session.run(None, {"x": data})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_symbolic_size_is_refused() -> None:
    graph, y = pooled((1, 2, "H", 7), "max", WINDOWS[0], True)
    assert graph.known_type(y).shape == (1, 2, None, 4)
    with pytest.raises(BackendError, match=r"E602.*static spatial"):
        expand(Builder(graph), y.node)
