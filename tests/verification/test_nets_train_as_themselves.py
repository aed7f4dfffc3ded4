"""A net of any framework trains as itself: `verify X X` with a training step is equal, whatever X holds."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
import torch
from torch import nn

import regraft

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((2, 6)).astype(np.float32)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.a.bias.requires_grad_(False)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class TiedCell(ms.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a = ms.nn.Dense(6, 6)
        self.b = ms.nn.Dense(6, 6)
        self.b.weight = self.a.weight
        self.a.bias.requires_grad = False

    def construct(self, x):
        return self.b(ms.ops.tanh(self.a(x)))


def torch_images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten())


def cell_images() -> ms.nn.Cell:
    return ms.nn.SequentialCell(
        ms.nn.Conv2d(3, 4, 3), ms.nn.BatchNorm2d(4), ms.nn.ReLU(), ms.nn.Dropout(p=0.3), ms.nn.Flatten()
    )


@pytest.mark.parametrize(
    ("make", "inputs"),
    [(torch_images, IMAGES), (Tied, ROWS), (cell_images, IMAGES), (TiedCell, ROWS)],
)
def test_a_net_trains_as_itself(make: Any, inputs: np.ndarray) -> None:
    net = make()
    found = regraft.verify(net, net, inputs=(inputs,), train=True)
    assert found.passed, str(found)
    assert found.training
