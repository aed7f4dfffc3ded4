"""Padding and output_padding of a transposed convolution are one setting of two nets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from mindspore import nn
from torch import nn as tnn

import regraft

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 4, 4, 5)).astype(np.float32)

WRITE = 'pad_mode="pad", padding=(1, 0, 1, 0)'


class Up(tnn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.up = tnn.ConvTranspose2d(4, 6, 3, stride=2, **settings)

    def forward(self, x):
        return self.up(x)


class Port(nn.Cell):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.up = nn.Conv2dTranspose(4, 6, 3, stride=2, has_bias=True, **settings)

    def construct(self, x):
        return self.up(x)


class Volume(tnn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.up = tnn.ConvTranspose3d(2, 3, 3, stride=2, **settings)

    def forward(self, x):
        return self.up(x)


class VolumePort(nn.Cell):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.up = nn.Conv3dTranspose(2, 3, 3, stride=2, has_bias=True, **settings)

    def construct(self, x):
        return self.up(x)


def compared(source: Any, target: Any, array: np.ndarray = IMAGES) -> Any:
    torch.manual_seed(0)
    return regraft.verify(source, target, (torch.from_numpy(array),))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Up(padding=1, output_padding=1), Port(pad_mode="pad", padding=(1, 0, 1, 0))),
        (Up(padding=1, output_padding=(1, 0)), Port(pad_mode="pad", padding=(1, 0, 1, 1))),
        (Up(padding=1), Port(pad_mode="pad", padding=1)),
        (Port(pad_mode="pad", padding=(1, 0, 1, 0)), Up(padding=1, output_padding=1)),
    ],
)
def test_a_right_port_is_equal(source: Any, target: Any) -> None:
    report = compared(source, target)
    assert report.verdict == "equal", report.render(brief=True)
    assert not report.nets.settings


@pytest.mark.parametrize(
    ("target", "write"),
    [
        (Port(), WRITE),
        (Port(pad_mode="pad", padding=1), WRITE),
        (Port(pad_mode="pad", padding=1, output_padding=1), f"{WRITE}, output_padding=0"),
    ],
)
def test_a_wrong_port_is_given_what_crops_each_end(target: Any, write: str) -> None:
    report = compared(Up(padding=1, output_padding=1), target)
    assert report.verdict == "different"
    [row] = report.nets.settings
    assert row.attribute == "padding"
    assert row.write == write


def test_a_wrong_port_to_torch_is_given_both_arguments() -> None:
    report = compared(Port(pad_mode="pad", padding=(1, 0, 1, 0)), Up(padding=1))
    assert [row.write for row in report.nets.settings] == ["padding=1, output_padding=1"]


def test_in_three_dimensions_output_padding_is_torchs() -> None:
    array = RNG.standard_normal((1, 2, 3, 4, 3)).astype(np.float32)
    source = Volume(padding=1, output_padding=1)
    wrong = compared(source, VolumePort(pad_mode="pad", padding=1), array)
    assert [row.write for row in wrong.nets.settings] == ['pad_mode="pad", padding=1, output_padding=1']
    right = compared(source, VolumePort(pad_mode="pad", padding=1, output_padding=1), array)
    assert right.verdict == "equal", right.render(brief=True)
