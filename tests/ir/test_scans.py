"""Scans of the IR: where extremes are, what NaN and infinities do, long axes, and what is refused."""

import numpy as np
import onnxruntime
import pytest
import torch

from regraft.backends.onnx_model import to_model
from regraft.ir import BackendError, Builder, Graph, InvalidGraphError, TensorType, expand

RANDOM = np.random.default_rng(0)
INF, NAN = np.inf, np.nan


def run(name, x, axis):
    b = Builder(Graph())
    given = b.graph.add_input("x", TensorType(str(x.dtype), x.shape))
    outputs = 2 if name in ("CumMax", "CumMin") else 1
    for number, value in enumerate(b.ops(f"regraft.{name}", given, outputs=outputs, axis=axis)):
        b.graph.outputs.append((f"y{number}", value))
    session = onnxruntime.InferenceSession(to_model(b.graph).SerializeToString())
    return session.run(None, {"x": x})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["CumMax", "CumMin"])
def test_extremes_and_the_last_of_equal_places(name, dtype):
    x = (RANDOM.integers(-4, 5, (3, 23, 2))).astype(dtype)
    want = getattr(torch, name.lower())(torch.from_numpy(x), 1)
    for found, expected in zip(run(name, x, 1), want, strict=True):
        np.testing.assert_array_equal(found, expected.numpy())
        assert found.dtype == expected.numpy().dtype


@pytest.mark.parametrize("name", ["CumMax", "CumMin"])
def test_nan_stays_an_extreme(name):
    x = np.array([[1, 2, NAN, 5, NAN, 0], [-INF, -INF, INF, INF, 0, 1], [3, 2, 1, 0, -1, -2]], np.float32)
    want = getattr(torch, name.lower())(torch.from_numpy(x), 1)
    for found, expected in zip(run(name, x, -1), want, strict=True):
        np.testing.assert_array_equal(found, expected.numpy())


def test_infinities_among_logarithms():
    x = np.array([[-INF, -INF, 1, 2], [1000, -1000, 1000.5, INF], [3, INF, -INF, 0]], np.float32)
    (found,) = run("LogCumSumExp", x, 1)
    np.testing.assert_allclose(found, torch.logcumsumexp(torch.from_numpy(x), 1).numpy(), rtol=1e-6)


def test_zeros_among_factors():
    x = np.array([[2, 0, 3], [0.5, -4, 2]], np.float32)
    np.testing.assert_array_equal(run("CumProd", x, 1)[0], np.cumprod(x, 1))


def test_a_long_axis():
    """Logarithms of single precision that 4099 numbers in a row do not spoil."""
    x = RANDOM.standard_normal((2, 4099)).astype(np.float32)
    want = torch.logcumsumexp(torch.from_numpy(x).double(), 1).numpy()
    np.testing.assert_allclose(run("LogCumSumExp", x, 1)[0], want, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(run("CumMax", x, 1)[1], torch.from_numpy(x).cummax(1)[1].numpy())


def test_what_is_no_axis_or_has_no_size_is_refused():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", ("N", 3)))
    with pytest.raises(InvalidGraphError, match=r"expected an axis of f32\[N,3\], got 2"):
        b.op("regraft.CumProd", x, axis=2)
    y = b.op("regraft.CumProd", x, axis=0)
    with pytest.raises(BackendError, match="static size of the scanned axis 0"):
        expand(b, y.node)
