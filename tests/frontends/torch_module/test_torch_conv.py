"""Convolutions over products of their parameters, with awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read
from regraft.ir import UnsupportedError


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


SPATIAL = {1: (11,), 2: (10, 7), 3: (6, 5, 7)}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 3},
        {"kernel_size": 2, "stride": 2, "padding": 1, "bias": False},
        {"kernel_size": 3, "dilation": 2, "padding": 1, "groups": 2},
        {"kernel_size": 4, "padding": "same"},
        {"kernel_size": 3, "padding": "same", "dilation": 2, "groups": 4},
        {"kernel_size": 3, "padding": "valid", "stride": 2},
        {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
    ],
)
def test_conv(check, rank, arguments):
    cls = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[rank]
    check(cls(4, 8, **arguments), floats(2, 4, *SPATIAL[rank]))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 3},
        {"kernel_size": 2, "stride": 2, "bias": False},
        {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
        {"kernel_size": 3, "dilation": 2, "padding": 2},
    ],
)
def test_conv_transpose(check, rank, arguments):
    cls = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}[rank]
    check(cls(4, 6, **arguments), floats(2, 4, *SPATIAL[rank]))


def test_per_axis_parameters(check):
    check(nn.Conv2d(3, 5, (3, 2), stride=(1, 2), padding=(2, 0), dilation=(1, 3)), floats(2, 3, 9, 8))


def test_conv_without_a_batch(check):
    check(nn.Conv2d(3, 5, 3), floats(3, 9, 8), dynamic=False)


def test_the_default_padding_is_none(check):
    graph = check(nn.Conv2d(120, 240, 4), floats(2, 120, 12, 12), atol=1e-4)
    assert graph.type_of(graph.outputs[0][1]).shape == ("N", 240, 9, 9)
    assert graph.operators()[0].ints("pads") == [0, 0, 0, 0]


def test_convolutions_of_integers_are_refused():
    class Whole(nn.Module):
        def forward(self, x):
            return nn.functional.conv2d(x, torch.ones(1, 3, 2, 2, dtype=torch.int64))

    with pytest.raises(UnsupportedError, match="floating-point numbers, got int64"):
        read(Whole(), [("", np.ones((2, 3, 4, 4), np.int64))], LoadOptions())


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2, "dilation": 3, "output_padding": 2},
        {"dilation": 2, "padding": 1, "output_padding": 1},
        {"stride": (1, 2), "dilation": 3, "padding": (1, 3), "output_padding": (2, 1), "bias": False},
    ],
)
def test_an_output_padding_of_at_least_the_stride(check, options):
    """Which torch takes below the dilation, and ONNX Runtime refuses."""
    check(nn.ConvTranspose2d(2, 3, 3, **options), floats(2, 2, 5, 6))
