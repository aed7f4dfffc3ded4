"""`torch.cond` and `while_loop` as If and Loop, and as MindSpore's `if` and `while`, every way taken."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import regraft
from regraft.ir import parse, render, validate, walk_operators
from regraft.ir.analysis.summary import summarise

from .catalogue import imported

pytestmark = pytest.mark.xdist_group("mindspore")

RISING = np.abs(np.random.default_rng(0).standard_normal((2, 4))).astype(np.float32)
FALLING = -np.random.default_rng(1).random((3, 4)).astype(np.float32)


class Closures(nn.Module):
    """Bodies that read parameters, a buffer and values around them; what one returns it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.w = nn.Parameter(torch.randn(4))
        self.register_buffer("k", torch.randn(4))

    def forward(self, x):
        h = self.a(x)
        y, z = torch.cond(
            x.sum() > 0,
            lambda h: (self.a(h) * self.w + self.k, h.clone()),
            lambda h: (self.b(self.a(h)) - self.w + x, h * 2),
            (h,),
        )
        return y + z.sum(1, keepdim=True), z


class Turns(nn.Module):
    """A loop whose number of turns is data, with a layer that is called after it too."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, x, n):
        i, y, _ = while_loop(
            lambda i, y, before: i < n,
            lambda i, y, before: (i + 1, torch.tanh(self.a(y)) + self.w * x, y.clone()),
            (torch.zeros((), dtype=torch.int64), x, x.clone()),
        )
        return self.a(y), i


class Numbers(nn.Module):
    """Loops that carry Python's numbers, one in the other, an if on one of them, and one given back."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        def turn(i, y):
            z = while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z + j), (0, y))[1]
            return i + 1, torch.cond(i % 2 == 0, lambda z: self.a(z), lambda z: z * i, (z,))

        i, y = while_loop(lambda i, y: i < x.shape[0] + 1, turn, (0, x))
        return y * i, i


class Nest(nn.Module):
    """An if in an if, and a size that only the inner one reads."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        def inner(x):
            return torch.cond(x.max() > 1, lambda x: self.a(x), lambda x: self.b(x) * x.shape[0], (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: self.b(x), (x,))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.back = nn.Linear(4, width), nn.Linear(width, 4)

    def forward(self, x):
        return torch.cond(x.mean() > 0.5, lambda x: self.back(self.inner(x).relu()), lambda x: x + 1, (x,))


class Blocks(nn.Module):
    """Blocks of one class, in two sizes, one of them called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(3), Block(5)

    def forward(self, x):
        return self.second(self.first(self.first(x)))


class Layers(nn.Module):
    """Layers with statistics and state in a branch and in a loop, a loop in a branch and an if in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.cell, self.table = nn.BatchNorm1d(4), nn.GRUCell(4, 4), nn.Embedding(5, 4)

    def forward(self, x):
        def looping(x):
            def turn(i, h):
                return i + 1, torch.cond(h.sum() > i, lambda h: self.cell(x, h), lambda h: h + x, (h,))

            return while_loop(lambda i, h: i < 3, turn, (torch.tensor(0), x))[1]

        rows = (x[:, 0] > 0).long() + 2
        return torch.cond(x.sum() > 0, looping, lambda x: self.norm(x) + self.table(rows), (x,))


class Sizes(nn.Module):
    """What decides is a size, which the batch is part of."""

    def forward(self, x):
        return torch.cond(x.shape[0] > 2, lambda x: x * 2, lambda x: x - x.shape[0], (x,))


class Flag(nn.Module):
    """The flag is an input; a branch returns a constant."""

    def forward(self, x, flag):
        return torch.cond(
            flag, lambda x: (x + 1, torch.tensor(3)), lambda x: (x.sin(), torch.tensor(4)), (x,)
        )


class Scans(nn.Module):
    """Rows from the last to the first, a layer, two carried values of a dict, and a map of the results."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        def step(carried, rows):
            h = torch.tanh(self.a(carried["h"]) + rows[0])
            return {"h": h, "n": carried["n"] + 1}, h * carried["n"] + rows[1]

        first = {"h": torch.zeros(4), "n": torch.zeros((), dtype=torch.int64)}
        last, rows = scan(step, first, (x, 2 * x), reverse=True)
        return last["h"], last["n"], map_rows(lambda row, h: (row * h).softmax(-1), rows, last["h"])


class Columns(nn.Module):
    """A scan over axis 1 in a map over axis 0, with literal tensors and a branch in its body."""

    def forward(self, x):
        def step(total, row):
            new = torch.cond(row.sum() > 0, lambda t, r: t + r, lambda t, r: t - r, (total, row))
            return new, new * torch.tensor([1.0, -2.0])

        pairs = x.reshape(-1, 2, 2)
        turned = scan(step, torch.tensor([0.0, 0.5]).repeat(x.shape[0], 1), pairs, dim=1)[1]
        return map_rows(lambda pair: scan(step, torch.tensor([0.5, 1.0]), pair)[1], pairs), turned


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    given: tuple[tuple[np.ndarray, ...], ...]
    ways: int  # nested graphs, all of them run on what is given

    @property
    def label(self) -> str:
        return self.make.__name__


CASES = [
    Case(Closures, ((RISING,), (FALLING,)), 2),
    Case(Turns, tuple((RISING, np.array(n)) for n in (3, 0, 1)), 1),
    Case(Nest, ((RISING,), (RISING / 9,), (FALLING,)), 4),
    Case(Blocks, ((RISING,), (FALLING,)), 6),
    Case(Layers, ((RISING,), (RISING / 9,), (FALLING,)), 5),
    Case(Sizes, ((RISING,), (FALLING,)), 2),
    Case(Numbers, ((RISING,), (FALLING,)), 4),
    Case(Scans, ((RISING,), (FALLING,)), 2),
    Case(Columns, ((RISING,), (FALLING,)), 7),
    Case(Flag, ((RISING, np.array(True)), (FALLING, np.array(False))), 2),
]


def loaded(case: Case) -> tuple[nn.Module, regraft.Graph]:
    torch.manual_seed(0)
    module = case.make().eval()
    return module, regraft.load(module, case.given[0])


def expected(module: nn.Module, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    with torch.no_grad():
        found = module(*(torch.from_numpy(a.copy()) if a.ndim else torch.tensor(a.item()) for a in arrays))
    found = found if isinstance(found, tuple) else (found,)
    return [t.numpy() if isinstance(t, torch.Tensor) else np.asarray(t) for t in found]


def assert_equal(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.label)
def test_both_targets_compute_what_torch_does_on_every_way(case: Case, tmp_path: Path) -> None:
    import mindspore as ms

    module, graph = loaded(case)
    validate(graph)
    assert render(parse(render(graph))) == render(graph)
    nested = sum(len(node.subgraphs()) for _, node in walk_operators(graph))
    assert nested == case.ways
    graph = regraft.rewrite(graph, verify_each=True).graph
    regraft.save(graph, tmp_path / "net.onnx")
    regraft.save(graph, tmp_path / "net", to="mindspore")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    net = imported(f"emitted_{uuid.uuid4().hex}", tmp_path / "net" / "model.py").build()
    try:
        for arrays in case.given:
            want = expected(module, arrays)
            assert_equal(session.run(None, dict(zip(names, arrays, strict=True))), want)
            for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
                ms.set_context(mode=mode)
                found = net(*(ms.Tensor(a) for a in arrays))
                assert_equal([t.asnumpy() for t in (found if isinstance(found, tuple) else (found,))], want)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_parameters_of_bodies_are_stored_once_and_counted(tmp_path: Path) -> None:
    import onnx

    _, graph = loaded(CASES[0])
    assert graph.modules.find("b") is not None
    names = ["a.weight", "a.bias", "b.weight", "b.bias", "w", "k"]
    rewritten = regraft.rewrite(graph)
    assert not [change for change in rewritten.changes if change.code.startswith("DU")]
    assert {p.name for p in rewritten.graph.parameters()} == set(names)
    regraft.save(rewritten.graph, tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    stored = [t.name for t in model.graph.initializer]
    assert sorted(name for name in stored if "constant" not in name) == sorted(names)
    inner = [a.g for node in model.graph.node for a in node.attribute if a.type == a.GRAPH]
    assert len(inner) == 2
    assert not any(t.dims for g in inner for t in g.initializer)
    summary = summarise(graph)
    assert summary.trainable == summary.used == 4 * 4 * 2 + 4 * 2 + 4


def test_verification_takes_every_branch_and_trains_through_bodies(tmp_path: Path) -> None:
    _, graph = loaded(CASES[2])
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    report = regraft.verify(graph, tmp_path / "net", train=True)
    assert report.passed, report.render()
    assert len({row.case for row in report.outputs if "draw" in row.case}) >= 2
    assert not any("not compared" in note for note in report.notes)
    assert [row.parameter for row in report.training] == ["a.weight", "a.bias", "b.weight", "b.bias"]


def test_modules_in_bodies_are_compared_where_the_target_has_them(tmp_path: Path) -> None:
    module, graph = loaded(CASES[0])
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    compared = [row.call for row in regraft.verify(graph, tmp_path / "net").modules if row.passed]
    assert compared in (["a#1", "a#2"], ["a#1", "a#2", "b#1"])
    rows = {row.call: row for row in regraft.verify(graph, tmp_path / "net.onnx").modules}
    assert rows["a#1"].passed is None
    with torch.no_grad():
        module.a.bias += 1
    report = regraft.verify(graph, tmp_path / "net")
    assert not report.passed
    assert report.first_divergence == "a#1"


def test_verification_finds_a_fault_in_a_branch_that_the_first_inputs_leave(tmp_path: Path) -> None:
    module, graph = loaded(CASES[2])
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    with torch.no_grad():
        module.b.bias += 1  # of the source now, and in the branches that large numbers do not lead into
    (tmp_path / "net.renames.json").unlink()  # by which the tensors themselves would be compared
    narrow = regraft.verify(graph, tmp_path / "net.onnx", {"x": RISING + 2})
    assert narrow.passed
    (note,) = narrow.notes
    assert "the inputs given do not lead into it: the else branch of `If`" in note
    assert not regraft.verify(graph, tmp_path / "net.onnx").passed


def test_a_branch_that_nothing_leads_into_is_named(tmp_path: Path) -> None:
    class Never(nn.Module):
        def forward(self, x):
            return torch.cond((x * x).sum() < 0, lambda x: x + 1, lambda x: x * 2, (x,))

    graph = regraft.load(Never(), (RISING,))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed
    (note,) = [note for note in report.notes if "not compared" in note]
    assert "the then branch of `If`" in note
    assert "else" not in note


def test_a_saved_program_keeps_its_control_flow(tmp_path: Path) -> None:
    module = Nest().eval()
    batch = {0: torch.export.Dim.AUTO}
    program = torch.export.export(module, (torch.from_numpy(RISING),), dynamic_shapes=(batch,), strict=False)
    torch.export.save(program, tmp_path / "net.pt2")
    graph = regraft.load(tmp_path / "net.pt2")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()
    assert any("draw" in row.case for row in report.outputs)


class Aliased(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x, lambda x: x * 2, (x,))


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        (Aliased, "E104", ("in `torch.cond`", "aliasing", "input.clone()")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_bodies_may_not_do_is_said(model: type[nn.Module], code: str, words: tuple[str, ...]) -> None:
    with pytest.raises(regraft.RegraftError) as caught:
        regraft.load(model(), (RISING,))
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)
    assert "Smallest" not in str(caught.value)
