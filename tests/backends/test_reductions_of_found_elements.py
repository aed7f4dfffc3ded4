"""Reductions over as many elements as are found: over none, MindSpore gives what is in memory."""

from pathlib import Path

import pytest
import torch
from torch import nn

import regraft


class Found(nn.Module):
    def forward(self, x):
        found, rows = x[x > 0], x[x[:, 0] > 0]
        return (
            found.sum(),
            found.prod(),
            found.abs().sum(),
            (found * found).sum().sqrt(),
            (found < 0.5).any(),
            (found < 2.5).all(),
            rows.sum(),
            rows.sum(0),
            rows.sum(1),
            torch.nonzero(x > 0).sum(0),
        )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[regraft.Graph, Path]:
    folder = tmp_path_factory.mktemp("found")
    graph = regraft.load(Found(), (torch.randn(2, 6),))
    rewritten = regraft.rewrite(graph).graph
    regraft.save(rewritten, folder / "net", to="mindspore")
    regraft.save(rewritten, folder / "net.onnx")
    return graph, folder


@pytest.mark.parametrize("value", [-1.0, 1.0, 3.0])
@pytest.mark.parametrize("name", ["net", "net.onnx"])
def test_reductions_of_found_elements(written: tuple[regraft.Graph, Path], name: str, value: float) -> None:
    graph, folder = written
    report = regraft.verify(graph, folder / name, (torch.full((2, 6), value),))
    assert all(row.passed for row in report.outputs), report.render()


def test_what_is_never_empty_is_written_as_it_was(tmp_path: Path) -> None:
    class Whole(nn.Module):
        def forward(self, x):
            return x.sum(1), x.prod(1), (x > 0).any()

    graph = regraft.load(Whole(), (torch.randn(2, 6),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    assert "with_neutral" not in (tmp_path / "net" / "model.py").read_text()
