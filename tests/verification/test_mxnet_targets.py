"""A symbol written from a torch net, compared in the net's own module calls and in what acts in training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import regraft
from regraft.ir import Graph, ModelError
from regraft.verification import Report, verify

nn = torch.nn
Node = dict[str, object]


class Net(nn.Module):
    """A normalisation, a clamp at six that the usual draws do not reach, and a Dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6())
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.stem(x).mean((2, 3))))


@pytest.fixture(scope="module")
def graph() -> Graph:
    torch.manual_seed(0)
    net = Net().eval()
    with torch.no_grad():
        net.stem[1].weight.mul_(0.05)  # what leaves is far below six
    return regraft.load(net, [torch.randn(2, 3, 8, 8)])


@pytest.fixture(scope="module")
def written(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("symbol")
    regraft.save(regraft.rewrite(graph).graph, folder, to="mxnet")
    return folder


def compared(graph: Graph, folder: Path, change: Callable[[list[Node]], None] | None = None) -> Report:
    """The report on a symbol, with its nodes changed."""
    (path,) = folder.glob("*-symbol.json")
    text = path.read_text()
    document = json.loads(text)
    if change is not None:
        change(document["nodes"])
    path.write_text(json.dumps(document))
    try:
        target = regraft.load(path, dict(graph.origin.inputs))
        return verify(graph, target, renames=folder / "renames.json")
    finally:
        path.write_text(text)


def change_attribute(op: str, name: str, value: str) -> Callable[[list[Node]], None]:
    """Give every operator of a kind another attribute."""

    def changed(nodes: list[Node]) -> None:
        found = [node for node in nodes if node["op"] == op]
        assert found
        for node in found:
            node["attrs"] = {**dict(node["attrs"]), name: value}  # type: ignore[call-overload]

    return changed


def leave_out(op: str) -> Callable[[list[Node]], None]:
    """Make a copy of its input of every operator of a kind."""

    def changed(nodes: list[Node]) -> None:
        for node in nodes:
            if node["op"] == op:
                node.update(op="_copy", attrs={}, inputs=node["inputs"][:1])  # type: ignore[index]

    return changed


def test_a_right_symbol_is_compared_in_every_module_call_of_the_source(graph: Graph, written: Path) -> None:
    report = compared(graph, written)
    assert report.passed
    assert {row.call for row in report.modules} >= {"stem#1", "stem.0#1", "stem.1#1", "stem.2#1", "head#1"}
    assert all(row.passed for row in report.modules if row.call != "drop#1")


@pytest.mark.parametrize(
    ("change", "call"),
    [
        (change_attribute("BatchNorm", "eps", "0.0001"), "stem.1#1"),
        (change_attribute("clip", "a_max", "6.006"), "stem.2#1"),
    ],
    ids=["epsilon", "clamp"],
)
def test_a_fault_inside_a_module_is_told_where_it_is(
    graph: Graph, written: Path, change: Callable[[list[Node]], None], call: str
) -> None:
    report = compared(graph, written, change)
    assert not report.passed
    assert report.first_divergence == call


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (leave_out("Dropout"), "Dropout"),
        (change_attribute("Dropout", "p", "0.5"), "Dropout"),
        (change_attribute("BatchNorm", "momentum", "0.5"), "momentum"),
        (change_attribute("BatchNorm", "use_global_stats", "True"), "momentum"),
    ],
    ids=["Dropout left out", "ratio", "momentum", "statistics frozen"],
)
def test_what_acts_in_training_only_is_compared_although_the_symbol_is_not_trained(
    graph: Graph, written: Path, change: Callable[[list[Node]], None], setting: str
) -> None:
    report = compared(graph, written, change)
    assert not report.passed
    assert report.structure is not None
    assert [row.setting for row in report.structure.settings] == [setting]
    assert all(row.passed for row in report.outputs)


def test_a_scale_that_the_symbol_fixes_is_not_trained(tmp_path: Path) -> None:
    graph = regraft.load(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), torch.randn(2, 3, 8, 8))
    regraft.save(graph, tmp_path, to="mxnet")
    assert compared(graph, tmp_path).passed
    report = compared(graph, tmp_path, change_attribute("BatchNorm", "fix_gamma", "True"))
    assert report.structure is not None
    assert [row.setting for row in report.structure.settings] == ["trained scale"]
    assert all(row.passed for row in report.outputs)


@pytest.mark.parametrize("calls", [{}, [], [{"call": "#1"}], [{"call": 1, "class": "", "nodes": []}]])
def test_module_calls_that_are_none_are_refused(graph: Graph, written: Path, calls: object) -> None:
    path = written / "renames.json"
    text = path.read_text()
    path.write_text(json.dumps({**json.loads(text), "calls": calls}))
    try:
        with pytest.raises(ModelError, match=r"expected .*calls"):
            compared(graph, written)
    finally:
        path.write_text(text)
