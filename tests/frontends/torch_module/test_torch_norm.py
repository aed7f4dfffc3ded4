"""Normalisations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def trained(module: nn.Module) -> nn.Module:
    """With every parameter and statistic away from its initial value."""
    torch.manual_seed(1)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape) + 0.5)
    return module


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 5, 4), (2, 6, 3, 4, 2)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("statistics", [True, False])
def test_batch_norm(check, shape, affine, statistics):
    cls = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    check(trained(cls(6, eps=1e-3, affine=affine, track_running_stats=statistics)), floats(*shape))


@pytest.mark.parametrize("sizes", [(4,), (5, 4)])
@pytest.mark.parametrize("arguments", [{}, {"bias": False}, {"elementwise_affine": False, "eps": 1e-3}])
def test_layer_norm(check, sizes, arguments):
    check(trained(nn.LayerNorm(sizes, **arguments)), floats(2, 3, 5, 4))


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(check, groups, affine):
    check(trained(nn.GroupNorm(groups, 6, affine=affine)), floats(2, 6, 5, 4))


@pytest.mark.parametrize("arguments", [{}, {"affine": True}, {"affine": True, "track_running_stats": True}])
def test_instance_norm(check, arguments):
    check(trained(nn.InstanceNorm2d(6, **arguments)), floats(2, 6, 5, 4))


@pytest.mark.parametrize("arguments", [{}, {"eps": 1e-3}, {"elementwise_affine": False}])
def test_rms_norm(check, arguments):
    check(trained(nn.RMSNorm(4, **arguments)), floats(2, 3, 4))
