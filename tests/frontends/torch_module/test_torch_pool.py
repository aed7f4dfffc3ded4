"""Pools over products of their parameters."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch.nn.functional as F
from torch import nn


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


SPATIAL = {1: (11,), 2: (10, 7), 3: (6, 5, 7)}


@pytest.mark.parametrize("size", [(10, 7), (9, 12)])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pool2d(check, size, ceil_mode):
    parameters = [(k, s, p, d) for k, s, p, d in product((2, 3), (1, 2, 3), (0, 1), (1, 2))]

    def pools(x):
        return [F.max_pool2d(x, k, s, p, d, ceil_mode=ceil_mode) for k, s, p, d in parameters]

    check(pools, floats(2, 3, *size))


@pytest.mark.parametrize("size", [(10, 7), (9, 12)])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_avg_pool2d(check, size, ceil_mode):
    parameters = [(k, s, p, c) for k, s, p, c in product((2, 3), (1, 2, 3), (0, 1), (False, True))]

    def pools(x):
        return [
            F.avg_pool2d(x, k, s, p, ceil_mode=ceil_mode, count_include_pad=c) for k, s, p, c in parameters
        ]

    check(pools, floats(2, 3, *size))


@pytest.mark.parametrize("rank", [1, 3])
def test_pools_of_other_ranks(check, rank):
    average = {1: nn.AvgPool1d, 3: nn.AvgPool3d}[rank](2, 2, ceil_mode=True, padding=1)
    largest = {1: nn.MaxPool1d, 3: nn.MaxPool3d}[rank](3, 2, padding=1)
    check(lambda x: (average(x), largest(x)), floats(2, 3, *SPATIAL[rank]))


@pytest.mark.parametrize("output", [1, 2, 3, (5, 7), (None, 1), (10, 3)])
def test_adaptive_avg_pool2d(check, output):
    check(nn.AdaptiveAvgPool2d(output), floats(2, 3, 10, 7))


@pytest.mark.parametrize("rank", [1, 3])
def test_adaptive_avg_pool_of_other_ranks(check, rank):
    check({1: nn.AdaptiveAvgPool1d, 3: nn.AdaptiveAvgPool3d}[rank](2), floats(2, 3, *SPATIAL[rank]))


@pytest.mark.parametrize("output", [1, 5])
def test_adaptive_max_pool2d(check, output):
    check(nn.AdaptiveMaxPool2d(output), floats(2, 3, 10, 5))


def test_lp_and_default_stride(check):
    check(nn.Sequential(nn.MaxPool2d(3), nn.AvgPool2d(2)), floats(2, 3, 14, 13))
