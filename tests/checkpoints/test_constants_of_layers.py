"""Checkpoints of nets whose normalisations have no scale, where MindSpore's hold a frozen gamma and beta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
import torch

import regraft
from regraft import ModelError, convert_checkpoint

SOURCE = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.InstanceNorm2d(4)
        self.bn = nn.BatchNorm2d(4, affine=False)

    def forward(self, x):
        return self.bn(self.norm(self.conv(x)))
"""
PORT = """
from mindspore import nn


class Net(nn.Cell):
    def __init__(self, affine=False):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", has_bias=True)
        self.norm = nn.GroupNorm(4, 4, affine=affine)
        self.bn = nn.BatchNorm2d(4, affine=False)

    def construct(self, x):
        return self.bn(self.norm(self.conv(x)))
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "source.py").write_text(SOURCE)
    (tmp_path / "port.py").write_text(PORT)
    net: Any = regraft.load(f"{tmp_path}/source.py:Net", ["2x3x6x6"]).origin.model
    with torch.no_grad():
        net.bn.running_mean.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    torch.save(net.state_dict(), tmp_path / "net.pth")
    return tmp_path


def test_a_checkpoint_like_a_net_gets_what_its_layers_hold_without_scale(files: Path) -> None:
    convert_checkpoint(files / "net.pth", files / "net.ckpt", like=f"{files}/port.py:Net")
    net: Any = regraft.load(f"{files}/port.py:Net", ["2x3x6x6"]).origin.model
    held = ms.load_checkpoint(str(files / "net.ckpt"))
    assert ms.load_param_into_net(net, held, strict_load=True) == ([], [])
    assert np.array_equal(held["bn.moving_mean"].asnumpy(), [1, 2, 3, 4])
    for name, number in (("gamma", 1), ("beta", 0)):
        assert (held[f"norm.{name}"].asnumpy() == number).all()
    convert_checkpoint(files / "net.ckpt", files / "back.pth", like=f"{files}/source.py:Net")
    first, back = (torch.load(files / name) for name in ("net.pth", "back.pth"))
    assert first.keys() == back.keys()
    assert all(torch.equal(first[name], back[name]) for name in first)


def test_a_scale_that_trains_is_not_made_up(files: Path) -> None:
    (files / "port.py").write_text(PORT.replace("affine=affine", "affine=True"))
    with pytest.raises(ModelError, match=r"norm\.gamma"):
        convert_checkpoint(files / "net.pth", files / "net.ckpt", like=f"{files}/port.py:Net")
