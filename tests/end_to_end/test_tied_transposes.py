"""Weights tied through a transpose: one parameter in every file, trained through both uses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regraft
from regraft.checkpoints import read_checkpoint
from regraft.checkpoints.convert import convert_checkpoint

pytestmark = pytest.mark.xdist_group("mindspore")

WORDS, WIDTH = 50, 8
IDS = np.random.default_rng(0).integers(0, WORDS, (2, 5))
ROWS = np.random.default_rng(1).standard_normal((2, WORDS)).astype(np.float32)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)

    def features(self, ids):
        return self.mix(self.embed(ids))


class ByMatrix(Words):
    def forward(self, ids):
        return self.features(ids) @ self.embed.weight.t()


class ByFunction(Words):
    def forward(self, ids):
        return F.linear(self.features(ids), self.embed.weight)


class ByEinsum(Words):
    def forward(self, ids):
        return torch.einsum("bte,ve->btv", self.features(ids), self.embed.weight) * WIDTH**-0.5


class ByLayer(Words):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.features(ids))


class ByView(Words):
    """The head is a Parameter of its own, on the table's memory, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Parameter(self.embed.weight.T)

    def forward(self, ids):
        return self.features(ids) @ self.head


class AutoEncoder(nn.Module):
    """The decoder's weight is the encoder's memory, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.decode.weight = nn.Parameter(self.encode.weight.t())

    def forward(self, x):
        return self.decode(self.encode(x).relu())


class InABranch(Words):
    """The transposed view is captured by the bodies of an if."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Parameter(self.embed.weight.T)

    def forward(self, ids):
        x = self.features(ids)
        return torch.cond(x.sum() > 0, lambda x: x @ self.head, lambda x: (x @ self.head).relu(), (x,))


@dataclass(frozen=True)
class Case:
    model: type[nn.Module]
    given: np.ndarray
    elements: int  # of all parameters, each counted once


_WORDS = WORDS * WIDTH + WIDTH * WIDTH + WIDTH
CASES = [
    Case(ByMatrix, IDS, _WORDS),
    Case(ByFunction, IDS, _WORDS),
    Case(ByEinsum, IDS, _WORDS),
    Case(ByLayer, IDS, _WORDS),
    Case(ByView, IDS, _WORDS),
    Case(AutoEncoder, ROWS, WORDS * WIDTH + WIDTH + WORDS),
    Case(InABranch, IDS, _WORDS),
]


def made(case: Case) -> tuple[nn.Module, regraft.Graph, regraft.Rewritten]:
    torch.manual_seed(0)
    module = case.model().eval()
    graph = regraft.load(module, (case.given,))
    return module, graph, regraft.rewrite(graph, verify_each=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model.__name__)
def test_the_weight_is_stored_once_and_trained_through_both_uses(case: Case, tmp_path: Path) -> None:
    _, graph, rewritten = made(case)
    regraft.save(rewritten.graph, tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    sizes = [int(np.prod(t.dims)) for t in model.graph.initializer if "constant" not in t.name]
    assert sum(sizes) == case.elements
    assert sizes.count(WORDS * WIDTH) == 1
    assert (tmp_path / "net.onnx").stat().st_size < 4 * case.elements + 6000
    assert regraft.verify(graph, tmp_path / "net.onnx").passed
    regraft.save(rewritten.graph, tmp_path / "net", to="mindspore")
    held = read_checkpoint(tmp_path / "net" / "model.ckpt")
    assert sum(int(np.prod(data.shape)) for data in held.values()) == case.elements
    report = regraft.verify(graph, tmp_path / "net", train=True)
    assert report.passed, report.render()
    (row,) = [r for r in report.training if "weight" in r.parameter and "mix" not in r.parameter]
    assert row.passed
    assert row.gradient_max_abs is not None


@pytest.mark.parametrize("case", [CASES[4], CASES[5]], ids=lambda case: case.model.__name__)
def test_a_transposed_views_checkpoint_converts_both_ways(case: Case, tmp_path: Path) -> None:
    module, _, rewritten = made(case)
    assert [change.code for change in rewritten.changes if change.code.startswith("TW")] == ["TW106"]
    regraft.save(rewritten.graph, tmp_path / "net", to="mindspore")
    with torch.no_grad():
        for parameter in (module.mix if case.model is ByView else module.encode).parameters():
            parameter.mul_(2)
    torch.save(module.state_dict(), tmp_path / "trained.pth")
    there, back = tmp_path / "there.ckpt", tmp_path / "back.pth"
    convert_checkpoint(tmp_path / "trained.pth", there, tmp_path / "net" / "renames.json")
    assert set(read_checkpoint(there)) == set(read_checkpoint(tmp_path / "net" / "model.ckpt"))
    convert_checkpoint(there, back, tmp_path / "net" / "renames.json")
    state = torch.load(back, weights_only=True)
    assert set(state) == set(module.state_dict())
    for name, tensor in module.state_dict().items():
        assert torch.equal(state[name], tensor), name


def test_a_transposed_view_that_differs_from_its_twin_is_refused(tmp_path: Path) -> None:
    module, _, rewritten = made(CASES[4])
    regraft.save(rewritten.graph, tmp_path / "net", to="mindspore")
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state["head"][0, 0] += 1
    torch.save(state, tmp_path / "trained.pth")
    with pytest.raises(regraft.RegraftError, match="tied in the target, and differ here"):
        convert_checkpoint(tmp_path / "trained.pth", tmp_path / "x.ckpt", tmp_path / "net" / "renames.json")
