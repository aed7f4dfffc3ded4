"""One mistake in an attention written by hand, with a mask of -1e9 and a helper that splits heads."""

from __future__ import annotations

from pathlib import Path

import pytest

import regraft

SOURCE = """
import math
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width=12, heads=3):
        super().__init__()
        self.heads, self.depth = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, self.depth).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        s = q @ k.transpose(-2, -1) / math.sqrt(self.depth)
        s = s.masked_fill(mask[:, None, None, :] == 0, -1e9)
        y = s.softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(x.shape))
"""
TARGET = """
import math
from mindspore import nn, ops

class Attention(nn.Cell):
    def __init__(self, width=12, heads=3):
        super().__init__()
        self.heads, self.depth = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Dense(width, width) for _ in range(4))

    def split(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.heads, self.depth).swapaxes(1, 2)

    def construct(self, x, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        s = ops.matmul(q, k.swapaxes(-2, -1)) / math.sqrt(self.depth)
        s = s.masked_fill(mask[:, None, None, :] == 0, -1e9)
        y = ops.matmul(ops.softmax(s, -1), v)
        return self.o(y.swapaxes(1, 2).reshape(x.shape))
"""

# name: (right, wrong, what to write)
MISTAKES = {
    "the depth of all heads": ("/ math.sqrt(self.depth)", "/ math.sqrt(12)", "2.0 in place of 3.4641"),
    "heads by reshape alone": (
        "x.reshape(b, t, self.heads, self.depth).swapaxes(1, 2)",
        "x.reshape(b, self.heads, t, self.depth)",
        "`x.view(b, t, self.heads, self.depth).transpose(1, 2)` in place of",
    ),
    "heads joined unturned": (
        "y.swapaxes(1, 2).reshape(x.shape)",
        "y.reshape(x.shape)",
        "`y.transpose(1, 2).reshape(x.shape)` in place of `y.reshape(x.shape)`",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_the_only_setting_that_is_named(name: str, tmp_path: Path) -> None:
    right, wrong, write = MISTAKES[name]
    (tmp_path / "theirs.py").write_text(SOURCE)
    text = TARGET.replace(right, wrong)
    (tmp_path / "mine.py").write_text(text)
    report = regraft.verify(
        f"{tmp_path}/theirs.py:Attention",
        f"{tmp_path}/mine.py:Attention",
        {"x": "2x9x12", "mask": "2x9:int64[0,2)"},
    )
    assert report.verdict == "different"
    found = [row for row in report.nets.settings if not row.structure]
    assert [row.write.startswith(write) for row in found] == [True], found
    line = 1 + next(at for at, each in enumerate(text.split("\n")) if wrong in each)
    assert {row.place for row in found} == {f"mine.py:{line}"}


STACK = """

class Stack(nn.{0}):
    def __init__(self):
        super().__init__()
        self.blocks = nn.{1}([Attention() for _ in range(4)])

    def {2}(self, x, mask):
        for block in self.blocks:
            x = x + block(x, mask)
        return x[:, 0]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "write"),
    [
        ("mask[:, None, None, :]", "mask[:, None, :, None]", "[:, None, None, :]"),
        (" / math.sqrt(self.depth)", "", "s / 2.0 before `s.masked_fill`"),
    ],
    ids=["index", "missing"],
)
def test_a_mistake_of_a_block_is_named_at_each_of_its_calls(
    right: str, wrong: str, write: str, tmp_path: Path
) -> None:
    """None of four blocks is right alone, and to try each takes longer than a search may."""
    (tmp_path / "theirs.py").write_text(SOURCE + STACK.format("Module", "ModuleList", "forward"))
    text = TARGET.replace(right, wrong) + STACK.format("Cell", "CellList", "construct")
    (tmp_path / "mine.py").write_text(text)
    report = regraft.verify(
        f"{tmp_path}/theirs.py:Stack",
        f"{tmp_path}/mine.py:Stack",
        {"x": "2x9x12", "mask": "2x9:int64[0,2)"},
    )
    found = [row for row in report.nets.settings if not row.structure]
    assert [row.write for row in found] == [write] * 4, found
    assert [row.target for row in found] == [f"blocks.{at}" for at in range(4)]
