"""Modules whose edges a pass has moved are no alarm; faults in the same places are still found."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import Graph
from regraft.verification import Report, verify
from regraft.verification.modules import match

pytestmark = pytest.mark.xdist_group("mindspore")

TARGETS = ["onnx", "mindspore"]


def written(model: nn.Module, inputs: tuple[torch.Tensor, ...], path: Path, to: str) -> tuple[Graph, Path]:
    graph = regraft.load(model.eval(), inputs)
    out = path / ("net.onnx" if to == "onnx" else "net")
    regraft.save(regraft.rewrite(graph).graph, out, to=to)
    return graph, out


def scaled(file: Path, weight: str, factor: float) -> None:
    """Plant a fault: multiply one weight of an ONNX file."""
    model = onnx.load(file)
    tensor = next(t for t in model.graph.initializer if t.name == weight)
    array = onnx.numpy_helper.to_array(tensor) * np.float32(factor)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, weight))
    onnx.save(model, file)


def verdicts(report: Report) -> dict[str, bool | None]:
    return {row.call: row.passed for row in report.modules}


# -- normalisations that are folded across an edge --------------------------------------------------


class Normed(nn.Module):
    """A normalisation and an activation, in a module of their own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.act = nn.PReLU()

    def forward(self, x):
        return self.act(self.bn(x))


class Behind(nn.Module):
    """A block that begins with the normalisation of what the block before it gives."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x):
        return self.conv(torch.relu(self.bn(x)))


class Folded(nn.Module):
    """Fresh normalisations scale by 0.999995: little more than rounding, and no rounding."""

    def __init__(self, gate: float = 1.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.adn = Normed(8)
        self.blocks = nn.Sequential(*(Behind(8) for _ in range(4)))
        self.gate = nn.Parameter(torch.full((8, 1, 1), gate))

    def forward(self, x):
        y = self.adn(self.conv(x))
        return y + self.gate * self.blocks(y)


@pytest.mark.parametrize("gate", [1.0, 0.0])
@pytest.mark.parametrize("target", TARGETS)
def test_a_normalisation_folded_across_an_edge_is_no_alarm(tmp_path: Path, target: str, gate: float) -> None:
    torch.manual_seed(0)
    graph, out = written(Folded(gate), (torch.randn(2, 3, 8, 8),), tmp_path, target)
    report = verify(graph, out)
    assert report.passed, report.render()
    if target == "onnx":
        rows = {row.call: row for row in report.modules}
        assert rows["blocks.1#1"].passed is None  # its convolution took in the next block's normalisation
        assert rows["blocks.3#1"].isolated_passed is None
        assert "before it what it begins with" in rows["blocks.3#1"].reason
        assert rows["blocks.3#1"].passed


@pytest.mark.parametrize("gate", [1.0, 0.0])
def test_a_wrong_weight_behind_a_folded_normalisation_is_found(tmp_path: Path, gate: float) -> None:
    """Also where a gate of zero hides it from every output."""
    torch.manual_seed(0)
    graph, out = written(Folded(gate), (torch.randn(2, 3, 8, 8),), tmp_path, "onnx")
    scaled(out, "blocks.3.conv.weight", 1.001)
    report = verify(graph, out)
    assert not report.passed
    assert report.first_divergence == "blocks.3.conv#1"
    assert all(row.passed for row in report.outputs) is (gate == 0)


# -- transposes that are merged with those of the next module -----------------------------------------


class SplitHeads(nn.Module):
    def forward(self, x):
        return x.unflatten(-1, (4, 4)).transpose(1, 2)


class Attend(nn.Module):
    def forward(self, q, k, v):
        return ((q @ k.transpose(-1, -2)) / 2).softmax(-1) @ v


class Heads(nn.Module):
    """As many steps as heads and channels in each: a transposed key has the shape of one that is not."""

    def __init__(self, gate: float = 1.0) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(16, 16) for _ in range(3))
        self.split = SplitHeads()
        self.attend = Attend()
        self.gate = nn.Parameter(torch.full((), gate))

    def forward(self, x):
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        return x + self.gate * self.attend(q, k, v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("gate", [1.0, 0.0])
@pytest.mark.parametrize("target", TARGETS)
def test_a_transpose_merged_with_the_next_modules_is_no_alarm(
    tmp_path: Path, target: str, gate: float
) -> None:
    torch.manual_seed(0)
    graph, out = written(Heads(gate), (torch.randn(2, 4, 16),), tmp_path, target)
    report = verify(graph, out)
    assert report.passed, report.render()
    assert verdicts(report)["split#2"] in (None, True)
    assert verdicts(report)["to_k#1"] is True


class Turned(nn.Module):
    """A transpose at the end of a module that is undone behind it; a layer of zeros may hide both."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.split = SplitHeads()
        self.fc = nn.Linear(16, 16)
        self.out = nn.Linear(16, 16, bias=False)
        nn.init.constant_(self.out.weight, factor)

    def forward(self, x):
        return x + self.out(self.split(torch.tanh(self.fc(x))).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("factor", [0.1, 0.0])
@pytest.mark.parametrize("target", TARGETS)
def test_transposes_that_undo_each_other_are_no_alarm(tmp_path: Path, target: str, factor: float) -> None:
    torch.manual_seed(0)
    graph, out = written(Turned(factor), (torch.randn(2, 4, 16),), tmp_path, target)
    report = verify(graph, out)
    assert report.passed, report.render()


@pytest.mark.parametrize("factor", [0.1, 0.0])
def test_a_fault_behind_such_transposes_is_named(tmp_path: Path, factor: float) -> None:
    torch.manual_seed(0)
    graph, out = written(Turned(factor), (torch.randn(2, 4, 16),), tmp_path, "onnx")
    scaled(out, "fc.weight", 1.001)
    report = verify(graph, out)
    assert not report.passed
    assert report.first_divergence == "fc#1"


def test_the_faulty_module_is_named_and_not_one_whose_edge_moved(tmp_path: Path) -> None:
    torch.manual_seed(0)
    graph, out = written(nn.Sequential(Heads(), nn.Linear(16, 3)), (torch.randn(2, 4, 16),), tmp_path, "onnx")
    scaled(out, "1.weight", 1.01)
    report = verify(graph, out)
    assert not report.passed
    assert report.first_divergence == "1#1"


@pytest.mark.parametrize("gate", [1.0, 0.0])
@pytest.mark.parametrize("weight", ["to_q.weight", "to_k.weight", "to_v.bias"])
def test_a_wrong_weight_in_front_of_a_merged_transpose_is_found(
    tmp_path: Path, gate: float, weight: str
) -> None:
    torch.manual_seed(0)
    graph, out = written(Heads(gate), (torch.randn(2, 4, 16),), tmp_path, "onnx")
    scaled(out, weight, 1.001)
    report = verify(graph, out)
    assert not report.passed
    assert report.first_divergence == f"{weight.partition('.')[0]}#1"


# -- modules that write into what they are given --------------------------------------------------------


class WritesASlice(nn.Module):
    """Convolves the first channels in place and gives back all of them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 5, padding=2)
        self.channels = channels

    def forward(self, x):
        x[:, : self.channels] = self.conv(x[:, : self.channels])
        return x


class Partial(nn.Module):
    def __init__(self, gate: float = 1.0) -> None:
        super().__init__()
        self.before = nn.Conv2d(3, 8, 3, padding=1)
        self.large = nn.ModuleList(WritesASlice(4) for _ in range(2))
        self.after = nn.Conv2d(8, 3, 1)
        self.gate = nn.Parameter(torch.full((), gate))

    def forward(self, x):
        y = self.before(x)
        for layer in self.large:
            y = layer(torch.relu(y))
        return x + self.gate * self.after(y)


@pytest.mark.parametrize("target", TARGETS)
def test_a_module_that_writes_a_slice_of_its_input_is_no_alarm(tmp_path: Path, target: str) -> None:
    torch.manual_seed(0)
    graph, out = written(Partial(), (torch.randn(2, 3, 8, 8),), tmp_path, target)
    report = verify(graph, out)
    assert report.passed, report.render()


@pytest.mark.parametrize("gate", [1.0, 0.0])
def test_a_wrong_weight_in_such_a_module_is_found(tmp_path: Path, gate: float) -> None:
    torch.manual_seed(0)
    graph, out = written(Partial(gate), (torch.randn(2, 3, 8, 8),), tmp_path, "onnx")
    scaled(out, "large.1.conv.weight", 1.001)
    report = verify(graph, out)
    assert not report.passed
    assert report.first_divergence == "large.1.conv#1"


# -- pairs ------------------------------------------------------------------------------------------------


def test_values_pair_up_by_what_is_a_number_in_them() -> None:
    nan = np.full(3, np.nan, np.float32)
    a, b = nan.copy(), nan.copy()
    a[0], b[0] = 1, 2
    assert match([b, a], [a, b]) == [1, 0]
    assert match([nan, a], [a, nan]) == [1, 0]


# -- modules that are not functions of their inputs ---------------------------------------------------------


class Told(nn.Module):
    """A module that another one tells something before it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.told = torch.zeros(())

    def forward(self, x):
        return x * self.told


class Telling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Told()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        self.layer.told = x.abs().sum()
        y = self.layer(x)
        self.layer.told = torch.zeros(())
        return self.fc(y)


@pytest.mark.parametrize("target", TARGETS)
def test_a_module_that_does_not_replay_is_no_alarm(tmp_path: Path, target: str) -> None:
    graph, out = written(Telling(), (torch.randn(2, 4),), tmp_path, target)
    report = verify(graph, out)
    assert report.passed, report.render()
