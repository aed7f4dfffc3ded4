"""Elements by rank and places in sorted sequences: equals, NaN, the lower of two, and what is refused."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from regraft.backends.onnx_model import to_model
from regraft.ir import COMPOSITES, BackendError, Builder, Graph, InvalidGraphError, TensorType, expand

RANDOM = np.random.default_rng(0)
NAN = np.nan
HOLES = np.array([[3, NAN, 1, 2], [NAN, NAN, NAN, NAN], [4, 3, 2, 1], [NAN, 7, NAN, NAN]], np.float32)


def run(name, *operands, **attributes):
    b = Builder(Graph())
    values = [
        b.graph.add_input(f"x{n}", TensorType(str(o.dtype), ("N", *o.shape[1:]) if o.ndim > 1 else o.shape))
        for n, o in enumerate(operands)
    ]
    count = len(COMPOSITES[name].signature.outputs)
    for number, value in enumerate(b.ops(f"regraft.{name}", *values, outputs=count, **attributes)):
        b.graph.outputs.append((f"y{number}", value))
    session = onnxruntime.InferenceSession(to_model(b.graph).SerializeToString())
    return session.run(None, {f"x{n}": o for n, o in enumerate(operands)})


def assert_equal(found, wanted):
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want.numpy())
        assert got.dtype == want.numpy().dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("length", [1, 4, 7])
def test_ranks(length, dtype):
    x = np.stack([RANDOM.permutation(length) for _ in range(6)]).reshape(2, 3, length).astype(dtype)
    given = torch.from_numpy(x)
    for keep in (False, True):
        assert_equal(run("Median", x, axis=-1, keepdims=keep), given.median(-1, keep))
        assert_equal(run("Median", x, axis=2, keepdims=keep, ignore_nan=1), given.nanmedian(2, keep))
        for k in range(1, length + 1):
            assert_equal(run("KthValue", x, k=k, axis=2, keepdims=keep), given.kthvalue(k, 2, keep))


def test_an_axis_before_the_last():
    x = RANDOM.standard_normal((2, 5, 3)).astype(np.float32)
    for ignore in (0, 1):
        assert_equal(run("Median", x, axis=1, ignore_nan=ignore), torch.from_numpy(x).median(1))


def test_nan_is_the_median_or_left_out():
    given = torch.from_numpy(HOLES)
    assert_equal(run("Median", HOLES, axis=1), given.median(1))
    values, places = run("Median", HOLES, axis=1, ignore_nan=1)
    want = given.nanmedian(1)
    np.testing.assert_array_equal(values, want[0].numpy())
    np.testing.assert_array_equal(places[[0, 2, 3]], want[1].numpy()[[0, 2, 3]])  # of nothing it is any


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_places_in_sorted_sequences(dtype, right):
    edges = np.sort(RANDOM.integers(-5, 6, (3, 6)), -1).astype(dtype)
    values = RANDOM.integers(-6, 7, (3, 8)).astype(dtype)
    want = torch.searchsorted(torch.from_numpy(edges), torch.from_numpy(values), right=right)
    assert_equal(run("SearchSorted", edges, values, right=int(right)), [want])
    want = torch.searchsorted(torch.from_numpy(edges[0]), torch.from_numpy(values), right=right)
    assert_equal(run("SearchSorted", edges[0], values, right=int(right)), [want])


@pytest.mark.parametrize("ignore", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
def test_the_median_of_a_symbolic_number(keep, ignore):
    for count in (3, 4):
        x = RANDOM.standard_normal((count, 2)).astype(np.float32)
        found = run("Median", x, axis=0, keepdims=keep, ignore_nan=ignore)
        assert_equal(found, torch.from_numpy(x).median(0, bool(keep)))


def test_what_does_not_fit_is_refused():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", ("N", 3)))
    with pytest.raises(InvalidGraphError, match=r"expected an axis of f32\[N,3\], got 2"):
        b.op("regraft.Median", x, axis=2)
    deep = b.graph.add_input("deep", TensorType("float32", (2, 4, 3)))
    with pytest.raises(InvalidGraphError, match="values of the leading axes"):
        b.op("regraft.SearchSorted", x, deep)
    some = b.graph.add_input("some", TensorType("float32", None))
    y = b.ops("regraft.Median", some, outputs=2, axis=0)[0]
    with pytest.raises(BackendError, match=r"known rank, got f32\[\*\]"):
        expand(b, y.node)


@pytest.mark.parametrize("share", [0, 0.02, 0.2, 1])
def test_candidates_that_no_better_one_hides(share):
    alive, hides = RANDOM.random((3, 40)) < 0.8, np.triu(RANDOM.random((3, 40, 40)) < share, 1)
    kept = alive.copy()
    for row, left in enumerate(kept):
        for first in range(40):
            left[:] &= ~(hides[row, first] & left[first])
    (found,) = run("Suppressed", alive, hides)
    np.testing.assert_array_equal(found, kept)


@pytest.mark.parametrize("shape", [(3, 40, 39), (3, 40), (2, 3, 40, 40)])
def test_as_many_candidates_everywhere(shape):
    with pytest.raises(InvalidGraphError, match="candidates"):
        run("Suppressed", np.ones((3, 40), bool), np.ones(shape, bool))
