"""What rounding selects is no fault, and what anything else selects is one."""

from pathlib import Path

import pytest
import torch
from torch import nn

import regraft
from regraft.verification.runners.onnx_runner import OnnxRunner


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
    assert "rounding alone decides what is selected" in report.render()
    assert "; rounding alone decides elements of `output_" in report.summary()


class Wide(nn.Module):
    """The best of what convolutions give, which ONNX Runtime computes in blocks of channels.

    An optimised file has another convolution for the BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        layers = [nn.Conv2d(a, b, 3, bias=False) for a, b in ((3, 64), (64, 64), (64, 3))]
        norm = nn.BatchNorm2d(64)
        norm.register_buffer("running_var", torch.linspace(0.5, 2.0, 64))
        self.body = nn.Sequential(layers[0], nn.ReLU(), layers[1], norm, nn.ReLU(), layers[2])
        for layer in layers:
            nn.init.normal_(layer.weight, std=layer.weight[0].numel() ** -0.5, generator=generator)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = self.body(x).flatten()
        return scores, scores.topk(100)[1]


class Saturated(Wide):
    """The same by scores of which many are close to 1."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores, rows = self.body(x).flatten(1)[0], torch.arange(2028.0)
        at = (scores * 2 + 12).sigmoid().topk(100)[1]
        return scores, rows[at]


def test_rows_may_be_exchanged_with_and_without_fusions(tmp_path: Path) -> None:
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(4))
    graph = regraft.load(Saturated().eval(), (image,), dynamic_batch=False)
    report = regraft.verify(graph, written(Saturated().eval(), image, tmp_path / "net.onnx"))
    assert report.passed, report.render()


@pytest.mark.parametrize("fuses", [True, False])
def test_values_that_select_are_those_of_the_run(fuses: bool, tmp_path: Path) -> None:
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(4))
    runner = OnnxRunner(written(Wide().eval(), image, tmp_path / "net.onnx"), optimised=fuses)
    inputs = {runner.inputs[0]: image.numpy()}
    (_, scores), _ = runner.run(inputs, calls=False).outputs
    (selected,) = runner.selected_values(inputs)
    runner.close()
    assert (selected == scores).all()


class Twice(nn.Module):
    """The best of numbers that are computed twice, by sums in another order."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.wide = nn.Parameter(torch.randn(6, 600, generator=generator))
        self.back = nn.Parameter(torch.randn(600, generator=generator))
        self.parts = parts

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        waves = (x @ self.wide).sin()
        pieces = zip(waves.chunk(self.parts, 1), self.back.chunk(self.parts), strict=True)
        best, at = torch.cat([waves @ self.back, torch.stack([a @ b for a, b in pieces]).sum(0)]).topk(40)
        return best, at


class Rows(Twice):
    """The rows of the best alone, which one unit in each input and weight exchanges too."""

    def __init__(self, parts: int, off: float = 0.0) -> None:
        super().__init__(parts)
        self.off = off

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        _, at = super().forward(x)
        return (torch.cat([x[:, 0], x[:, 0] + 9])[at] + self.off,)


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_a_tolerance_by_exchanged_rows_proves_nothing(off: float, x: torch.Tensor, tmp_path: Path) -> None:
    graph = regraft.load(Rows(2), (x,), dynamic_batch=False)
    report = regraft.verify(graph, written(Rows(100, off), x, tmp_path / "net.onnx"))
    assert report.passed is not bool(off), report.render()


def test_rows_may_be_exchanged_in_a_net_of_the_same_framework(x: torch.Tensor, tmp_path: Path) -> None:
    graph = regraft.load(Twice(2), (x,), dynamic_batch=False)
    other = regraft.rewrite(regraft.load(Twice(100), (x,), dynamic_batch=False), to="torch").graph
    regraft.save(other, tmp_path / "net", to="torch")
    assert not torch.equal(Twice(2)(x)[1], Twice(100)(x)[1])
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report.render()


def test_topk_gives_tensors_that_a_view_takes(tmp_path: Path) -> None:
    class Viewed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.topk(2, dim=1)[0].view(-1)

    x = torch.randn(3, 5)
    graph = regraft.load(Viewed(), (x,))
    assert regraft.verify(graph, written(Viewed(), x, tmp_path / "net.onnx")).passed


@pytest.mark.parametrize("off", [1e-4, -1e-5])
def test_another_order_is_a_difference(off: float, x: torch.Tensor, tmp_path: Path) -> None:
    graph = regraft.load(Best(), (x,), dynamic_batch=False)
    report = regraft.verify(graph, written(Best(off), x, tmp_path / "net.onnx"))
    assert not report.passed
