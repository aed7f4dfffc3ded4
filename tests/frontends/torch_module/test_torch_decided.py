"""Branches on data that torch.export refuses, and views by strides in a memory of symbolic size."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import ModelError


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Global(nn.Module):
    """Attends globally only where a mask says 2, as Longformer does."""

    def forward(self, x, mask):
        if (mask > 1).flatten().any().item():
            x = x * 2
        return x.masked_fill(mask == 0, 0.0)


def test_a_branch_on_data_goes_the_example_s_way_and_is_said(check):
    graph = check(Global(), floats(2, 5), np.array([[1, 1, 1, 1, 0]] * 2))
    said = [
        n for n in graph.origin.notes if re.match(r"the branch on data at \S*test_torch_decided.py:\d+ is", n)
    ]
    assert len(said) == 1
    assert "is false" in said[0]


def test_a_number_is_not_decided():
    class Repeated(nn.Module):
        def forward(self, x, n):
            for _ in range(n.max().item()):
                x = x * 2
            return x

    with pytest.raises(ModelError, match="data-dependent"):
        regraft.load(Repeated(), (torch.ones(2, 3), torch.tensor([1, 2])))


def sliding(x):
    """Longformer's overlapping windows of a tensor whose memory has the batch on its second axis."""
    rows = (x.transpose(0, 1) * 1.0).contiguous().view(16, x.shape[0], 4, 2)
    rows = rows.transpose(0, 1).transpose(1, 2).reshape(-1, 16, 2)
    chunks = rows.view(rows.shape[0], 4, 4, 2)
    strides = list(chunks.stride())
    strides[1] //= 2
    return chunks.as_strided((chunks.shape[0], 7, 4, 2), strides)


VIEWS = {
    "windows": sliding,
    "windows of the last axis": lambda x: x.as_strided(
        (x.shape[0], 16, 3, 4), (x.stride(0), x.stride(1), 2, 1)
    ),
    "a window that goes on in the next row": lambda x: (x + 1).as_strided(
        (x.shape[0], 15, 12), (x.stride(0), 8, 1)
    ),
    "repeated": lambda x: (x + 1).as_strided((x.shape[0], 7, 16, 8), (x.stride(0), 0, 8, 1)),
    "fewer": lambda x: x.as_strided((x.shape[0], 9, 8), (x.stride(0), 8, 1)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_by_strides(check, name):
    check(VIEWS[name], floats(2, 16, 8))


def test_a_view_with_an_offset(check):
    check(lambda x: x.as_strided((2, 3, 4), (64, 9, 2), 3), floats(2, 16, 8), dynamic=False)
