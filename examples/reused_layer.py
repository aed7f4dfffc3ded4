"""A model that registers a whole ResNet-18, and calls only its first three layers, under a second name."""

from __future__ import annotations

from resnet import resnet18
from torch import Tensor, nn


class ReusedLayer(nn.Module):
    """Every module of `layer0` is registered twice; everything else in `base` is never called."""

    def __init__(self) -> None:
        super().__init__()
        base = resnet18()
        self.base = base
        self.layer0 = nn.Sequential(*list(base.children())[:3])

    def forward(self, x: Tensor) -> Tensor:
        return self.layer0(x)
