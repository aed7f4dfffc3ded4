"""What rounding selects is no fault, and what anything else selects is one."""

from pathlib import Path

import pytest
import torch
from torch import nn

import regraft


class Best(nn.Module):
    """The rows of the best scores, most of which are close to 1, and of those above a threshold."""

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-2, 2, 6).cos())
        self.off = off

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = (x @ self.weight * 4 + 8).sigmoid() + self.off * x[:, 1]
        best, at = scores.topk(40)
        rows = x[at] * 2
        return best, rows, rows[best[best < 1.0 - 3e-7].argsort()]


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(300, 6, generator=torch.Generator().manual_seed(4))


def written(net: nn.Module, x: torch.Tensor, file: Path) -> Path:
    graph = regraft.rewrite(regraft.load(net, (x,), dynamic_batch=False)).graph
    regraft.save(graph, file, to="onnx")
    return file


def test_scores_a_few_units_apart_may_exchange_rows(x: torch.Tensor, tmp_path: Path) -> None:
    graph = regraft.load(Best(), (x,), dynamic_batch=False)
    report = regraft.verify(graph, written(Best(), x, tmp_path / "net.onnx"))
    assert report.passed, report.render()
    assert "rounding decides what is selected" in report.render()


@pytest.mark.parametrize("off", [1e-4, -1e-5])
def test_another_order_is_a_difference(off: float, x: torch.Tensor, tmp_path: Path) -> None:
    graph = regraft.load(Best(), (x,), dynamic_batch=False)
    report = regraft.verify(graph, written(Best(off), x, tmp_path / "net.onnx"))
    assert not report.passed
