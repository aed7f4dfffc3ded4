"""Modules that one call gives one tensor for several arguments: what another gives for each is read."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
import onnx
import pytest
import torch
from mindspore import ops
from torch import nn

import regraft
from regraft.ir import Graph, parse

from .test_mindspore_constructs import load_emitted

pytestmark = pytest.mark.xdist_group("mindspore")

X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, h, c):
        gate = torch.sigmoid(self.a(x) + self.b(h))
        c = gate * c + (1 - gate) * torch.relu(x)
        return torch.relu(c) * gate, c


class FromOneZero(nn.Module):
    """Both states are one tensor in the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, x):
        zero = torch.zeros_like(x)
        h, c = self.cell(x, zero, zero)
        h, c = self.cell(x + h, h, c)
        return self.cell(x - h, h, c)


class InPairs(nn.Module):
    """Each call has another pair of equal arguments: no call has three distinct ones."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, x):
        h, c = self.cell(x, x, 2 * x)
        h, c = self.cell(h, c, h)
        return self.cell(h, c, c)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = Cell(), nn.Linear(8, 8)

    def forward(self, x, h, c):
        h, c = self.inner(x, h, c)
        h, c = self.inner(h, h, c)
        return self.out(h), c


class Nested(nn.Module):
    """The module called so calls others with what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Outer()

    def forward(self, x):
        one = torch.ones_like(x)
        h, c = self.cell(x, one, one)
        return self.cell(c, h, c)


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(8, 8)

    def forward(self, x, h, c):
        x = self.l(x)
        return torch.cond(
            x.sum() > 0, lambda x, h, c: (x + h - 2 * c, c + 0), lambda x, h, c: (x - h, h * c), (x, h, c)
        )


class Branches(nn.Module):
    """The arguments are read in a branch, which becomes a method."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Branch()

    def forward(self, x):
        z = x * 2
        h, c = self.cell(x, z, z)
        return self.cell(-x, h, c)


class FromParameter(nn.Module):
    """The first states are one parameter of the caller, as are some later ones."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.start = Cell(), nn.Parameter(torch.ones(1, 8))

    def forward(self, x):
        h, c = self.cell(x, self.start, self.start)
        h, c = self.cell(x, h, c)
        return self.cell(h, self.start, c)


class Instances(nn.Module):
    """Three instances of one class, the first of which is called so."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.cells = Cell(), nn.ModuleList([Cell(), Cell()])

    def forward(self, x):
        h, c = self.cell(x, x, x)
        for cell in self.cells:
            h, c = cell(x, h, c)
        return self.cell(c, h, c)


class Layers(nn.Module):
    """Layers that MindSpore has too, of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.pair = nn.GRUCell(8, 8), nn.Bilinear(8, 8, 8)

    def forward(self, x):
        h = self.cell(x, x)
        h = self.cell(x, h)
        return self.pair(self.pair(h, h), x) + self.cell(h, x)


class LastAgain(nn.Module):
    """The second argument of the first call is what the last of every call is."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, x):
        h, c = self.cell(x, x, x)
        return self.cell(c, h, x)


@pytest.mark.parametrize(
    ("net", "calls"),
    [
        (FromOneZero, 3),
        (InPairs, 3),
        (Nested, 2),
        (Branches, 2),
        (FromParameter, 3),
        (Instances, 2),
        (Layers, 3),
        (LastAgain, 2),
    ],
)
def test_every_argument_of_a_torch_module_is_read(net: type[nn.Module], calls: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert_written_right(regraft.load(net().eval(), (X,)), tmp_path, calls)


def assert_written_right(graph: Graph, folder: Path, calls: int) -> None:
    """Write for MindSpore: equal, and the module is called as often as in the source."""
    regraft.save(regraft.rewrite(graph).graph, folder, to="mindspore")
    report = regraft.verify(graph, folder)
    assert report.passed, report.summary()
    assert (folder / "model.py").read_text().count("self.cell(") == calls


class MindSporeCell(ms.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = ms.nn.Dense(8, 8), ms.nn.Dense(8, 8)

    def construct(self, x, hidden, state=None):
        gate = ops.sigmoid(self.b(hidden) - self.a(x))
        state = gate * state
        return ops.tanh(state), state


class MindSporeNet(ms.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.cell = MindSporeCell()

    def construct(self, x):
        zero = ops.ones_like(x)
        h, c = self.cell(x, zero, zero)
        h, c = self.cell(x + h, h, c)
        return self.cell(h, h, c)


def test_every_argument_of_a_cell_is_read_under_its_name(tmp_path: Path) -> None:
    assert_written_right(regraft.load(MindSporeNet(), (X,)), tmp_path, 3)
    assert "def construct(self, x, hidden, state):" in (tmp_path / "model.py").read_text()


def test_every_argument_of_a_function_of_onnx_is_read(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 18, "own" : 1]>
        net (float[N, 8] x) => (float[N, 8] y) {
            h, c = own.cell (x, x, x)
            h2, c2 = own.cell (x, h, c)
            y, _ = own.cell (c2, h2, x)
        }
        <domain: "own", opset_import: ["" : 18]>
        cell (x, h, c) => (a, b) {
            gate = Sigmoid (h)
            kept = Mul (gate, c)
            b = Sub (kept, x)
            a = Tanh (b)
        }""")
    onnx.save(model, tmp_path / "net.onnx")
    graph = regraft.load(tmp_path / "net.onnx", None)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    report = regraft.verify(graph, tmp_path / "out")
    assert report.passed, report.summary()


SIZES = """
graph main {
  module "" Net
  module "inner" Inner
  %x = input "x" : f32[N,3]
  %n = Shape(%x) {end=1} : i64[1]
  %zero = const [0] : i64[1]
  %one = const [1] : i64[1]
  %w = const [3] : i64[1]
  %all = Concat(%n, %w) {axis=0} : i64[2] @ "inner#1"
  %less = Slice(%all, %zero, %one) : i64[1] @ "inner#1"
  %both = Concat(%w, %less) {axis=0} : i64[2] @ "inner#1"
  %y = Reshape(%x, %both) : f32[3,N] @ "inner#1"
  %s = Sigmoid(%y) : f32[3,N] @ "inner#1"
  return "y" = %s
}
"""


def test_sizes_that_one_module_gives_another_stay_numbers_there(tmp_path):
    graph = parse(SIZES)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    wanted = 1 / (1 + np.exp(-x.reshape(3, 5)))
    for target in ("torch", "mindspore"):
        folder = tmp_path / target
        regraft.save(regraft.rewrite(graph).graph, folder, to=target)
        text = (folder / "model.py").read_text()
        assert "self.inner(x.shape[:1], x)" in text
        assert "cat(" not in text
        net = load_emitted(folder).build()
        found = net(torch.from_numpy(x) if target == "torch" else ms.Tensor(x))
        np.testing.assert_allclose(found.numpy() if target == "torch" else found.asnumpy(), wanted, rtol=1e-5)
