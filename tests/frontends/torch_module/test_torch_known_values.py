"""What a program computes from nothing is what torch computes, to the bit."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import Constant, Graph


class Frequencies(nn.Module):
    def forward(self, t):
        exponent = -math.log(10000) * torch.arange(0, 64, dtype=torch.float32) / 64
        angle = t[:, None].float() * torch.exp(exponent)[None]
        return torch.cat([angle.sin(), angle.cos()], -1)


class Buckets(nn.Module):
    """Relative positions in logarithmic steps: a unit more or less is another bucket."""

    def forward(self, x):
        distance = torch.arange(1, 41).float()
        return x + (torch.log(distance / 8) / math.log(16) * 8).long()


class Rotary(nn.Module):
    """Complex on the way, real in the end."""

    def forward(self, x):
        angle = torch.outer(torch.arange(6.0), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        turn = torch.polar(torch.ones_like(angle), angle)
        return x * turn.real + turn.imag


def constants(graph: Graph) -> list[np.ndarray]:
    return [node.data.numpy() for key in graph.order() if isinstance(node := graph.node(key), Constant)]


def test_a_table_is_torchs_to_the_bit() -> None:
    graph = regraft.load(Frequencies(), (torch.tensor([999, 500]),))
    wanted = torch.exp(-math.log(10000) * torch.arange(0, 64, dtype=torch.float32) / 64)[None].numpy()
    assert any(c.shape == wanted.shape and (c == wanted).all() for c in constants(graph))
    assert "Exp" not in {node.op_type for node in graph.operators()}


def test_integers_made_of_rounded_numbers_are_torchs() -> None:
    graph = regraft.load(Buckets(), (torch.zeros(2, 40, dtype=torch.int64),))
    wanted = (torch.log(torch.arange(1, 41).float() / 8) / math.log(16) * 8).long().numpy()
    assert any(c.shape == wanted.shape and (c == wanted).all() for c in constants(graph))


def test_real_parts_of_complex_tables_are_torchs() -> None:
    graph = regraft.load(Rotary(), (torch.zeros(2, 6, 4),))
    angle = torch.outer(torch.arange(6.0), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
    wanted = torch.polar(torch.ones_like(angle), angle).imag.numpy()
    assert any(c.shape == wanted.shape and (c == wanted).all() for c in constants(graph))


class Overwritten(nn.Module):
    """A table that is changed in place depends on the input."""

    def forward(self, x):
        table = torch.exp(torch.arange(4.0))
        seen = table[1:3]
        table.mul_(x)
        return seen + torch.exp(torch.arange(2.0))


class InTheFirstRow(nn.Module):
    def forward(self, x):
        table = torch.sin(torch.arange(12.0)).reshape(3, 4)
        table[0] = x[0]
        return table + x


@pytest.mark.parametrize("model", [Overwritten(), InTheFirstRow()])
def test_tables_that_are_written_into_are_no_constants(model: nn.Module) -> None:
    x = torch.randn(4) if isinstance(model, Overwritten) else torch.randn(3, 4)
    graph = regraft.load(model, (x,), dynamic_batch=False)
    report = regraft.verify(graph, graph)
    assert report.passed, report.render()


def test_long_tables_stay_operators() -> None:
    class Long(nn.Module):
        def forward(self, x):
            return x + torch.exp(-torch.arange(5000.0))

    graph = regraft.load(Long(), (torch.randn(2, 5000),))
    assert "Exp" in {node.op_type for node in graph.operators()}


def test_tables_of_the_batchs_size_stay_operators() -> None:
    class Batched(nn.Module):
        def forward(self, x):
            return x + torch.exp(-torch.arange(x.shape[0]).float())[:, None]

    graph = regraft.load(Batched(), (torch.randn(2, 5),))
    assert "Exp" in {node.op_type for node in graph.operators()}
    assert regraft.verify(graph, graph).passed


class Padded(nn.Module):
    """Pads by numbers of buffers, as layers do that keep their settings in the checkpoint."""

    def __init__(self, is_written: bool = False) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor(5))
        self.register_buffer("stride", torch.tensor(2))
        self.is_written = is_written

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_written:
            self.stride.add_(1)
        return nn.functional.pad(x, (self.kernel - self.stride, 2))


class PaddedByInput(nn.Module):
    def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(x, (by.item(), 2))


def test_a_setting_made_of_buffers_has_their_numbers() -> None:
    graph = regraft.load(Padded(), (torch.zeros(2, 4, 8),))
    assert [c.tolist() for c in constants(graph) if c.shape == (2,)] == [[3, 2]]
    assert graph.known_type(graph.outputs[0][1]).shape[1:] == (4, 13)
    assert graph.known_type(graph.outputs[0][1]).shape[0] == "N"
    assert not any("static shapes" in note for note in graph.origin.notes)


@pytest.mark.parametrize("kind", ["written", "given"])
def test_a_setting_that_each_run_computes_is_an_error_with_a_way_out(kind: str) -> None:
    x = torch.zeros(2, 4, 8)
    model, inputs = (
        (Padded(is_written=True), (x,)) if kind == "written" else (PaddedByInput(), (x, torch.tensor(2)))
    )
    with pytest.raises(regraft.UnsupportedError, match="`pad` to be static integers") as refused:
        regraft.load(model, inputs)
    assert "computes in `__init__`" in refused.value.hint
