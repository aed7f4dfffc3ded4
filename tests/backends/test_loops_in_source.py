"""Loops over lists of layers stay loops in MindSpore source, whatever is computed between the layers."""

from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.frontends.python_file import load_object

X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)


def linear() -> nn.Module:
    return nn.Linear(8, 8)


class Lists(nn.Module):
    """Lists of layers and what `run` computes with them."""

    def __init__(self, run: Callable[..., object], counts: tuple[int, ...] = (3, 3)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.run, self.head = run, linear()
        self.blocks = nn.ModuleList([linear() for _ in range(counts[0])])
        self.norms = nn.ModuleList([nn.LayerNorm(8) for _ in range(counts[1])])
        self.stages = nn.ModuleList([nn.ModuleList([linear() for _ in range(n)]) for n in (2, 1, 3)])

    def forward(self, x: torch.Tensor) -> object:
        return self.run(self, x)


def residual(net: Lists, x: torch.Tensor) -> torch.Tensor:
    for block in net.blocks:
        x = x + torch.tanh(block(x)) * 0.5
    return x


def two_lists(net: Lists, x: torch.Tensor) -> torch.Tensor:
    for block, norm in zip(net.blocks, net.norms, strict=True):
        x = x + block(norm(x))
    return x


def carried(net: Lists, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first turn reads what is returned too."""
    h = x
    for block in net.blocks:
        h = torch.relu(block(h)) * 0.5
    return h, x


def folded(net: Lists, x: torch.Tensor) -> torch.Tensor:
    """The last turn's value is read once, by what follows."""
    h = torch.tanh(x)
    for block in net.blocks:
        h = torch.tanh(block(h)) + x
    return net.head(h)


def staged(net: Lists, x: torch.Tensor) -> torch.Tensor:
    for stage in net.stages:
        for layer in stage:
            x = layer(x)
        x = x * 2
    return x


def other_constants(net: Lists, x: torch.Tensor) -> torch.Tensor:
    for number, block in enumerate(net.blocks):
        x = x + block(x) * (number + 2)
    return x


def not_all(net: Lists, x: torch.Tensor) -> torch.Tensor:
    """The last member is called otherwise, so that the loop is not over the list."""
    *others, last = net.blocks
    for block in others:
        x = x + torch.tanh(block(x)) * 0.5
    return last(x) - x


def reversed_list(net: Lists, x: torch.Tensor) -> torch.Tensor:
    for block in reversed(net.blocks):
        x = x + torch.tanh(block(x)) * 0.5
    return x


def read_again(net: Lists, x: torch.Tensor) -> torch.Tensor:
    """What a turn computes on the way is read after the last one."""
    h = x
    for block in net.blocks:
        h = block(x)
        x = x + torch.tanh(h) * 0.5
    return x * h


CASES = {
    residual: ["for block in self.blocks:\n            ", " = block(x)\n            x = x + "],
    two_lists: ["for i in range(len(self.blocks)):\n", "self.blocks[i](", "self.norms[i]("],
    carried: ["out = x\n        for block in self.blocks:\n            out = block(out)\n"],
    folded: ["for block in self.blocks:\n", "return self.head(out)\n"],
    staged: [
        "for stage in self.stages:\n            for layer in stage:\n                x = layer(x)\n"
        "            x = x * 2.0\n        return x\n"
    ],
    other_constants: ["self.blocks[0](x)", "self.blocks[2](x)"],
    not_all: ["self.blocks[0](x)", "self.blocks[2](x)"],
    reversed_list: ["self.blocks[0](x)", "self.blocks[2](x)"],
    read_again: ["self.blocks[0](x)", "self.blocks[2](x)"],  # in graph mode, `h` would end with the loop
}


@pytest.mark.parametrize("run", CASES, ids=lambda f: f.__name__)
def test_loops_stay_loops(run: Callable[..., object], tmp_path: Path) -> None:
    net = Lists(run).eval()
    regraft.save(regraft.rewrite(regraft.load(net, [X])).graph, tmp_path / "net", to="mindspore")
    source = (tmp_path / "net" / "model.py").read_text()
    assert [text for text in CASES[run] if text not in source] == [], source
    assert ("        for " in source.partition("CHECKPOINT")[0]) == any("for " in text for text in CASES[run])
    emitted = load_object(f"{tmp_path}/net/model.py:build")
    with torch.no_grad():
        expected = net(torch.tensor(X))
    mode = ms.get_context("mode")
    for each in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=each)
        try:
            found = emitted(ms.Tensor(X))  # pyright: ignore
        finally:
            ms.set_context(mode=mode)
        for wanted, got in zip(_all(expected), _all(found), strict=True):
            np.testing.assert_allclose(got.asnumpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_a_member_takes_no_name_that_means_something(tmp_path: Path) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fors = nn.ModuleList([linear() for _ in range(2)])
            self.maths = nn.ModuleList([linear() for _ in range(2)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in (*self.fors, *self.maths):
                x = layer(x)
            return x

    regraft.save(regraft.rewrite(regraft.load(Named().eval(), [X])).graph, tmp_path / "net", to="mindspore")
    source = (tmp_path / "net" / "model.py").read_text()
    assert "for layer in self.fors:" in source
    assert "for layer in self.maths:" in source


def _all(found: object) -> list:
    return list(found) if isinstance(found, tuple) else [found]
