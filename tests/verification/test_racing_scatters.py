"""Scatters that write an element several times: MindSpore source and `verify` lose no write on CPU."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import nn, ops

import regraft
from regraft.verification.runners.mindspore_scatters import scattering_in_one_thread

from ..backends.test_mindspore_constructs import load_emitted

pytestmark = pytest.mark.xdist_group("mindspore")

NODES, EDGES, WIDTH = 10, 400, 8
AT = np.random.default_rng(0).integers(0, NODES, (2, EDGES))


class Messages(torch.nn.Module):
    """A sum of messages by their targets."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x, edges):
        messages = (x * self.scale)[edges[0]]
        return torch.zeros_like(x).scatter_add(0, edges[1][:, None].expand(-1, WIDTH), messages)


class Elements(torch.nn.Module):
    """Each element has a place of its own along the last axis."""

    def forward(self, x, places):
        return torch.zeros_like(x).scatter_add(1, places, x)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_sums_of_messages_are_whole_in_forward_and_gradient(mode: str, tmp_path: Path) -> None:
    """Whole numbers, so that a sum is the same in every order."""
    x = np.random.default_rng(1).integers(-8, 9, (NODES, WIDTH)).astype(np.float32)
    graph = regraft.rewrite(regraft.load(Messages().eval(), (x, AT))).graph
    regraft.save(graph, tmp_path, to="mindspore")
    assert "tensor_scatter_elements" not in (tmp_path / "model.py").read_text()
    net = load_emitted(tmp_path).build()
    ms.set_context(mode=ms.PYNATIVE_MODE if mode == "pynative" else ms.GRAPH_MODE)
    try:

        def weigh(x, at):
            return (net(x, at) * x).sum()

        step = ms.value_and_grad(weigh, 0)
        results = {tuple(each.asnumpy().tobytes() for each in _run(net, step, x)) for _ in range(60)}
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    given = torch.tensor(x, requires_grad=True)
    (Messages()(given, torch.tensor(AT)) * given).sum().backward()
    want = Messages()(torch.tensor(x), torch.tensor(AT)).detach().numpy()
    assert results == {(want.tobytes(), given.grad.numpy().tobytes())}


def _run(net: nn.Cell, step: object, x: np.ndarray) -> tuple[ms.Tensor, ms.Tensor]:
    inputs = ms.Tensor(x), ms.Tensor(AT)
    return net(*inputs), step(*inputs)[1]


def test_places_of_single_elements_at_every_batch(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, WIDTH)).astype(np.float32)
    graph = regraft.load(Elements().eval(), (x, AT[:, :WIDTH] % WIDTH))
    regraft.save(regraft.rewrite(graph).graph, tmp_path, to="mindspore")
    assert "tensor_scatter_elements" not in (tmp_path / "model.py").read_text()
    report = regraft.verify(graph, tmp_path)
    assert report.passed, report.summary()


class OwnScatter(nn.Cell):
    def construct(self, x, at):
        zeros = ops.zeros_like(x[:NODES])
        wide = ops.broadcast_to(at.expand_dims(-1), (EDGES, WIDTH))
        added = ops.tensor_scatter_elements(zeros, wide, x, 0, "add")
        return added, ops.scatter(zeros, 0, wide, x), zeros.scatter(0, wide, x)


class OneEach(nn.Cell):
    def construct(self, x, at):
        return ops.tensor_scatter_elements(x, at, ops.ones_like(at).astype(ms.float32), 1)


def test_a_net_that_scatters_by_such_a_kernel_is_compared_without_the_race() -> None:
    x = np.random.default_rng(1).integers(-8, 9, (EDGES, WIDTH)).astype(np.float32)
    graph = regraft.load(OwnScatter(), (x, AT[1]))
    notes = [note for note in regraft.verify(graph, graph).notes if "loses a write" in note]
    assert len(notes) == 1, notes
    assert Path(__file__).name in notes[0]
    added, last = np.zeros((NODES, WIDTH), np.float32), np.zeros((NODES, WIDTH), np.float32)
    np.add.at(added, AT[1], x)
    last[AT[1]] = x
    with scattering_in_one_thread():
        for _ in range(60):
            found = OwnScatter()(ms.Tensor(x), ms.Tensor(AT[1]))
            for got, want in zip(found, (added, last, last), strict=True):
                assert (got.asnumpy() == want).all()
    found = regraft.check(graph)
    assert any("loses a write" in note for note in found.notes)


def test_a_scatter_of_one_place_each_races_with_nothing() -> None:
    x = np.ones((4, WIDTH), np.float32)
    graph = regraft.load(OneEach(), (x, AT[0, :4, None] % WIDTH))
    assert graph.origin.unreliable == []
