"""Modules of which an option ties all parameters are one module in every target, under both names."""

from pathlib import Path

import pytest
import torch
from torch import nn

import regraft
from regraft.frontends.python_file import load_object


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.drop, self.fc2 = nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.drop(torch.relu(self.fc1(x))))


class Pair(nn.Module):
    """The second is called first."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = Mlp(), Mlp(), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        right = self.right(y)
        return self.last(torch.tanh(self.left(x)) - right)


class ActedTwice(nn.Module):
    """An activation in them is called twice, so that no turn tells whose a call is."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.act = nn.Linear(8, 8), nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.fc(self.act(x)))

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = self.Layer(), self.Layer()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.left(x) - self.right(y)


def tied(make: type[nn.Module], to: str) -> tuple[nn.Module, regraft.Graph, regraft.Rewritten]:
    """A net whose branches have equal values, its graph, and the graph in which they are one."""
    torch.manual_seed(0)
    net = make().eval()
    net.get_submodule("right").load_state_dict(net.get_submodule("left").state_dict())
    graph = regraft.load(net, ["3x8", "3x8"])
    return net, graph, regraft.rewrite(graph, ["tie-weights:tie=left.*+right.*"], to=to)


@pytest.mark.parametrize(
    ("to", "out", "text"),
    [
        ("torch", "out", "        self.right = self.left\n"),
        ("mindspore", "out", "self.left(y)"),
        ("onnx", "net.onnx", ""),
    ],
)
def test_a_module_called_for_both(to: str, out: str, text: str, tmp_path: Path) -> None:
    net, graph, done = tied(Pair, to)
    assert [change.code for change in done.changes if change.code == "TW110"] == ["TW110"]
    regraft.save(done.graph, tmp_path / out, to)
    source = "" if to == "onnx" else (tmp_path / out / "model.py").read_text()
    assert text in source
    assert "tied" not in source
    report = regraft.verify(graph, tmp_path / out, train=to != "onnx")
    assert report.passed, report.render()
    compared = {row.call for row in report.modules if row.passed}
    assert {"left#1", "left.fc2#1", "right#1", "right.fc1#1"} <= compared  # by the source's names
    if to == "torch":
        built: nn.Module = load_object(f"{tmp_path / out}/model.py:build")  # type: ignore[assignment]
        assert list(built.state_dict()) == list(net.state_dict())


def test_a_fault_in_a_module_called_for_both_is_named(tmp_path: Path) -> None:
    _, graph, done = tied(Pair, "torch")
    regraft.save(done.graph, tmp_path / "out", "torch")
    source = (tmp_path / "out" / "model.py").read_text()
    (tmp_path / "out" / "model.py").write_text(source.replace("F.relu(", "F.gelu("))
    report = regraft.verify(graph, tmp_path / "out")
    assert report.verdict == "different"
    assert {row.call for row in report.modules if row.passed is False} >= {"left#1", "right#1"}


def test_modules_whose_calls_have_no_turns_stay_two(tmp_path: Path) -> None:
    _, graph, done = tied(ActedTwice, "torch")
    assert not [change for change in done.changes if change.code == "TW110"]
    regraft.save(done.graph, tmp_path / "out", "torch")
    assert "self.right.fc.weight = self.left.fc.weight  # tied" in (tmp_path / "out" / "model.py").read_text()
    assert regraft.verify(graph, tmp_path / "out").passed
