"""Equality of computed values: rounding that decides it is no difference, all else is one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.verification.jumps.equalities import Equalities


class Peaks(nn.Module):
    """Scores that are the largest of their window; a small scale leaves rounding alone between them."""

    def __init__(self, scale: float, radius: int = 2, saturated: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.score = nn.Conv2d(1, 13, 3, padding=1, bias=False)
        with torch.no_grad():
            self.score.weight *= scale
        self.radius, self.saturated = radius, saturated

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.score(x)
        found = torch.sigmoid(found * 1e6) if self.saturated else torch.softmax(found, 1)
        largest = nn.functional.max_pool2d(found, 2 * self.radius + 1, 1, self.radius)
        return torch.where(found == largest, found, torch.zeros_like(found))


X = np.random.default_rng(0).standard_normal((1, 1, 16, 16)).astype(np.float32)


def deciding(model: Peaks, share: float) -> str:
    """What decides, where such a share of the elements is off by a score."""
    graph = regraft.load(model, X)
    apart = np.zeros((1, 13, 16, 16))
    apart.reshape(-1)[: int(apart.size * share)] = 1 / 13
    return Equalities(graph).deciding({graph.input_nodes()[0].name: X}, {graph.outputs[0][0]: apart})


def test_rounding_decides_among_values_that_it_alone_parts() -> None:
    assert "Equal" in deciding(Peaks(1e-7), 0.02)


@pytest.mark.parametrize(
    ("model", "share"),
    [
        (Peaks(1.0), 0.02),  # scores are apart
        (Peaks(1e-12), 0.02),  # scores are equal in every runtime
        (Peaks(1e-7), 0.9),  # more differs than rounding moves
    ],
)
def test_rounding_decides_nothing_else(model: Peaks, share: float) -> None:
    assert not deciding(model, share)


def test_a_port_with_another_window_is_caught() -> None:
    graph = regraft.load(Peaks(1e-4), X)
    assert regraft.verify(graph, regraft.load(Peaks(1e-4), X)).passed
    assert not regraft.verify(graph, regraft.load(Peaks(1e-4, radius=1), X)).passed
