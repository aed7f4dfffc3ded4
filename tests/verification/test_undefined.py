"""NaN that nobody gave decides nothing where documents leave it open, and all where they do not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regraft
from regraft.ir import Graph, Operator
from regraft.verification import verify


class Guarded(nn.Module):
    """A max pool drops NaN in ONNX Runtime and in MindSpore; what follows makes numbers of both."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return torch.nan_to_num(F.max_pool2d(self.conv(x), 2)).amax((2, 3))


class Warped(nn.Module):
    """The first grid has operators that ask for a draw with NaN, and the other is compared on it too."""

    def forward(self, x, g):
        smooth = F.grid_sample(x, g, mode="bicubic", padding_mode="reflection", align_corners=False)
        return smooth, F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True)


class Masked(nn.Module):
    """A mean over a part of the steps: of none it is 0 / 0, and MindSpore's ReLU makes 0 of it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu = nn.Linear(6, 4), nn.ReLU()

    def forward(self, x, lengths):
        mask = (torch.arange(x.shape[1])[None] < lengths[:, None] * x.shape[1]).float()[..., None]
        return self.relu(self.fc((x * mask).sum(1) / mask.sum(1)))


class Spectrum(nn.Module):
    """Torch's length of a complex NaN is NaN in some places of a vector and a number in others."""

    def forward(self, x):
        window = torch.hann_window(64)
        return torch.stft(x, 64, 16, 64, window, normalized=True, return_complex=True).abs()


SOUNDS = (torch.randn(2, 320),)
IMAGES = (torch.randn(2, 3, 8, 8),)
GRIDS = (torch.randn(2, 3, 8, 10), torch.rand(2, 5, 6, 2) * 2 - 1)
STEPS = (torch.randn(2, 9, 6), torch.tensor([1.0, 0.7]))


def note_of(report: regraft.Report) -> list[str]:
    return [note for note in report.notes if "leaves its result for NaN open" in note]


@pytest.mark.parametrize("target", ["onnx", "mindspore"])
@pytest.mark.parametrize(
    ("net", "inputs", "given", "noted"),
    [
        (Guarded, IMAGES, False, {"onnx", "mindspore"}),
        (Warped, GRIDS, False, {"onnx", "mindspore"}),
        (Masked, STEPS, True, {"mindspore"}),
        (Masked, STEPS, False, {"mindspore"}),
        (Spectrum, SOUNDS, True, {"onnx", "mindspore"}),
    ],
)
def test_nan_that_was_drawn_is_a_note(
    net: type[nn.Module],
    inputs: tuple[torch.Tensor, ...],
    given: bool,
    noted: set[str],
    target: str,
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    example = inputs if given else tuple("x".join(map(str, t.shape)) for t in inputs)
    graph = regraft.load(net().eval(), example)
    out = tmp_path / ("net.onnx" if target == "onnx" else "net")
    regraft.save(regraft.rewrite(graph).graph, out, to=target)
    report = regraft.verify(graph, out)
    assert report.passed, report.render()
    assert bool(note_of(report)) is (target in noted)


def test_nan_that_was_given_decides(tmp_path: Path) -> None:
    graph = regraft.load(Guarded().eval(), IMAGES)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx", to="onnx")
    given = IMAGES[0].clone()
    given[..., ::4] = float("nan")
    report = regraft.verify(graph, tmp_path / "net.onnx", (given,))
    assert report.verdict == "different"


class Cleaned(nn.Module):
    """NaN is gone before an operator that leaves it open."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(torch.nan_to_num(x)).relu()


class Beside(nn.Module):
    """One output is defined, and the other is not."""

    def forward(self, x):
        return F.relu(x).sum(1), torch.where(torch.isnan(x), 1.0, 0.0).sum(1)


class Infinite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(torch.where(torch.isinf(x) | torch.isnan(x), 2.0, x)).relu()


def of(graph: Graph, op: str) -> Operator:
    return next(node for node in graph.operators() if node.op_type == op)


def lose_nan(graph: Graph) -> None:
    node = of(graph, "IsNaN")
    node.op_type, node.attributes = "IsInf", {}


def lose_negative_infinity(graph: Graph) -> None:
    of(graph, "IsInf").attributes["detect_negative"] = 0


@pytest.mark.parametrize(
    ("net", "fault"),
    [
        (Cleaned, None),
        (Cleaned, lose_nan),
        (Beside, None),
        (Beside, lose_nan),
        (Infinite, None),
        (Infinite, lose_nan),
        (Infinite, lose_negative_infinity),
    ],
)
def test_what_only_nan_shows_is_caught_where_it_is_defined(
    net: type[nn.Module], fault: Callable[[Graph], None] | None
) -> None:
    torch.manual_seed(0)
    graph = regraft.load(net().eval(), (torch.randn(2, 6),))
    target = regraft.rewrite(graph).graph
    if fault is not None:
        fault(target)
    report = verify(graph, target)
    assert report.passed is (fault is None), report.render()
    assert not note_of(report)


@pytest.mark.parametrize("right", [True, False])
def test_of_a_file_its_graph_says_what_nan_enters(right: bool, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,6] x) => (float[N,6] y)
    { a = IsNaN(x) b = Where(a, two, x) y = Relu(b) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(2), "two"))
    onnx.save(model, tmp_path / "net.onnx")
    if not right:
        model.graph.node[0].op_type = "IsInf"
    onnx.save(model, tmp_path / "other.onnx")
    report = regraft.verify(tmp_path / "net.onnx", tmp_path / "other.onnx")
    assert report.passed is right, report.render()
