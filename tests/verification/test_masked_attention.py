"""Attention that is masked from end to end is 0 in PyTorch, and named with what gives that."""

from pathlib import Path

import pytest

import regraft

MASK = "[[True, False, True], [False, False, False], [True, True, True]]"
SOURCE = f"""
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, torch.tensor({MASK}))
"""
PORT = f"""
import mindspore as ms
from mindspore import nn, ops


class Net(nn.Cell):
    def construct(self, x):
        m = ms.Tensor({MASK})
        return {{}}
"""
SHARES = "ops.softmax((x @ x.swapaxes(-2, -1) * 0.5).masked_fill(~m, -1e9), axis=-1)"


@pytest.mark.parametrize("right", [True, False])
def test_a_row_masked_from_end_to_end(right: bool, tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(SOURCE)
    kept = f"ops.where(m, {SHARES}, 0.0)" if right else SHARES
    (tmp_path / "port.py").write_text(PORT.format(f"{kept} @ x"))
    report = regraft.verify(f"{tmp_path}/source.py:Net", f"{tmp_path}/port.py:Net", {"x": "2x3x4"})
    assert report.passed == right, report.render()
    if not right:
        [row] = report.nets.settings
        assert row.place == "port.py:9"
        assert "ops.where(m, ops.softmax(" in row.write
