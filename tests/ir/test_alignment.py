"""Losses of sequences whose places are unknown, against torch's in float64: lengths, padding, impossible."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import BackendError, Builder, Graph, InvalidGraphError, TensorType, expand

from .test_linear_algebra import run

BATCH, CLASSES, WIDTH = 5, 6, 3


def sequences(frames, blank, seed=0):
    """(scores, labels, numbers of frames, numbers of labels), among these none, all and too many."""
    random = np.random.default_rng(seed)
    scores = torch.from_numpy(3 * random.standard_normal((frames, BATCH, CLASSES))).log_softmax(2)
    labels = torch.from_numpy(random.integers(0, CLASSES - 1, (BATCH, WIDTH)) + (blank == 0))
    labels[1] = labels[1, :1]  # three of one kind, which need a blank between
    counts = torch.tensor([WIDTH, WIDTH, 0, 1, 0])
    sizes = torch.tensor([frames, frames, frames, min(frames, 2), 0])
    return scores, labels, sizes, counts


@pytest.mark.parametrize("padding", [None, -1, 10**6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("frames", "blank"), [(1, 0), (4, 0), (5, CLASSES - 1), (9, 0)])
def test_losses_are_torchs(frames, blank, dtype, padding):
    scores, labels, sizes, counts = sequences(frames, blank)
    padded = labels.clone()
    if padding is not None:
        padded[torch.arange(WIDTH) >= counts[:, None]] = padding
    for zero in (False, True):
        want = functional.ctc_loss(
            scores, labels, sizes, counts, blank, reduction="none", zero_infinity=zero
        ).to(dtype)
        operands = scores.to(dtype), padded, sizes, counts
        (got,) = run("CTCLoss", *operands, blank=blank, zero_infinity=int(zero))
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_scores_that_exclude_a_class():
    scores, labels, sizes, counts = sequences(9, 0)
    scores[:, :, 2] = -torch.inf
    want = functional.ctc_loss(scores, labels, sizes, counts, reduction="none")
    (got,) = run("CTCLoss", scores.float(), labels, sizes, counts)
    torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5)


def test_half_precision_is_computed_in_more():
    scores, labels, sizes, counts = sequences(9, 0)
    rounded = scores.half()
    want = functional.ctc_loss(rounded.double(), labels, sizes, counts, reduction="none")
    (got,) = run("CTCLoss", rounded, labels, sizes, counts)
    torch.testing.assert_close(got, want.half())


def added(scores, labels, dtype="int64"):
    b = Builder(Graph())
    types = [("float32", scores), (dtype, labels), ("int64", (2,)), ("int64", (2,))]
    values = [b.graph.add_input(f"x{n}", TensorType(*type_)) for n, type_ in enumerate(types)]
    return b, b.op("regraft.CTCLoss", *values)


def test_operands_of_other_kinds_are_refused():
    with pytest.raises(InvalidGraphError, match="labels and lengths in int64"):
        added((4, 2, 5), (2, 3), "int32")
    with pytest.raises(InvalidGraphError, match=r"scores of \(frames, batch, classes\)"):
        added((4, 5), (2, 3))


@pytest.mark.parametrize(
    ("scores", "labels", "what"), [(("T", 2, 5), (2, 3), "frames"), ((4, 2, 5), (2, "S"), "labels")]
)
def test_sizes_that_steps_are_written_out_of_are_static(scores, labels, what):
    b, y = added(scores, labels)
    with pytest.raises(BackendError, match=f"static number of {what}"):
        expand(b, y.node)
