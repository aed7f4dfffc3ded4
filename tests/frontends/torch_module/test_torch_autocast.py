"""What `torch.autocast` makes of operators in its region: casts, as torch's own lists of operators say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn


class Regions(nn.Module):
    """Autocast on, off inside of it, without gradients inside of it; operators of each of torch's lists."""

    def __init__(self, *, on: bool = True) -> None:
        super().__init__()
        self.layer, self.norm, self.on = nn.Linear(16, 16), nn.LayerNorm(16), on
        # rows that vary by about one: a small deviation would make the norm multiply the rounding of float16
        nn.init.orthogonal_(self.layer.weight, generator=torch.Generator().manual_seed(0))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.on):
            y = self.layer(x)
            weights = torch.softmax(y @ y.mT, -1)
            joined, added, normed = torch.cat([y, x], 1), y + x, self.norm(y)
            with torch.autocast("cpu", enabled=False):
                whole = self.layer(x)
            with torch.no_grad():
                stopped = self.layer(added)
        return y, weights, joined, added, normed, whole, stopped, self.layer(x)


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.groups, self.batch, self.layer = nn.GroupNorm(2, 4), nn.BatchNorm1d(4), nn.Linear(3, 2)

    @torch.autocast("cpu", dtype=torch.float16)
    def forward(self, x):
        y = torch.baddbmm(x, x, torch.ones(3, 3).expand(x.shape[0], 3, 3))
        return self.layer(self.batch(self.groups(y))).float()


def arrays(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("module", [Regions(), Decorated()], ids=["regions", "decorated"])
def test_operands_are_cast_as_torch_casts_them(check, module):
    given = arrays(2, 16) if isinstance(module, Regions) else arrays(2, 4, 3)
    graph = check(module.eval(), given, atol=5e-3, rtol=5e-3)
    linear = [node.key for node in graph.operators() if node.op_type == "Linear"]
    types = [graph.known_type(graph.operands(key)[0]).dtype for key in linear]
    assert types == (
        ["float16", "float32", "float16", "float32"] if isinstance(module, Regions) else ["float16"]
    )


def test_a_region_that_is_off_casts_nothing(check):
    graph = check(Regions(on=False), arrays(2, 16))
    assert not [node for node in graph.operators() if node.op_type == "Cast"]
