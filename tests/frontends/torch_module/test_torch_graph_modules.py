"""Modules that torch.fx has traced: their calls of modules are calls of the graph."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import regraft


class Block(nn.Module):
    """A sum of two layers, one of them in a container."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x) + x)


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def test_calls_of_a_traced_module_are_calls_of_the_graph(tmp_path: Path) -> None:
    net = torch.fx.symbolic_trace(Block().eval())
    kind = type(net)
    graph = regraft.load(net, (X,))
    assert type(net) is kind
    assert list(graph.modules.call_names().values()) == ["#1", "a.0#1", "a.1#1", "b#1"]
    regraft.save(regraft.rewrite(graph), tmp_path / "net", to="torch")
    source = (tmp_path / "net" / "model.py").read_text()
    assert "self.a = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])" in source
    assert "self.b = nn.Linear(4, 4)" in source
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed
    assert {"a.0#1", "a.1#1", "b#1"} == {row.call for row in report.modules if row.isolated_passed}


def test_a_traced_module_inside_another_is_a_module() -> None:
    net = nn.Sequential(torch.fx.symbolic_trace(Block()), nn.Linear(4, 2)).eval()
    names = regraft.load(net, (X,)).modules.call_names().values()
    assert list(names) == ["#1", "0#1", "0.a.0#1", "0.a.1#1", "0.b#1", "1#1"]


def test_an_exported_module_keeps_the_calls_that_its_operators_name() -> None:
    program = torch.export.export(Block().eval(), (X,)).module()
    modules = regraft.load(program, (X,)).modules
    assert {"a#1", "a.0#1", "b#1"} <= set(modules.call_names().values())
    assert not any(module.container for module in modules)
