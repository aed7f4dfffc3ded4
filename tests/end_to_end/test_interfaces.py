"""What models take and give: nested, by keyword, missing, repeated, of every element type, both targets."""

from __future__ import annotations

import uuid
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import regraft

from .catalogue import imported

pytestmark = pytest.mark.xdist_group("mindspore")

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
Y = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))


class State(NamedTuple):
    hidden: torch.Tensor
    cell: torch.Tensor


@dataclass
class Result:
    logits: torch.Tensor
    states: tuple[torch.Tensor, ...] = ()
    loss: torch.Tensor | None = None


@dataclass
class Unknown:
    """Registered with nobody."""

    logits: torch.Tensor
    extra: dict[str, torch.Tensor]


class Named(dict[str, torch.Tensor]):
    """A dict whose values are attributes too."""

    def __getattr__(self, name):
        return self[name]


class Past:
    """Keys and values of a layer, as a decoder's cache holds them."""

    def __init__(self, keys, values=None):
        self.keys, self.values, self.filled = keys, values, True


class Cache:
    """An object that holds tensors in lists of objects, and more than tensors."""

    def __init__(self, *layers):
        self.layers, self.kind, self.seen = [Past(*layer) for layer in layers], Past, {"steps": len(layers)}


class Counted(list[torch.Tensor]):
    """A list of a class of its own."""


pytree.register_dataclass(Result)
Pair = namedtuple("Pair", "first second")


class Model(nn.Module):
    """A layer, and a function of it and the inputs."""

    def __init__(self, run: Callable[..., object]) -> None:
        super().__init__()
        self.layer, self.run = nn.Linear(4, 4), run
        self.register_buffer("table", torch.arange(4.0))
        self.register_buffer("scratch", torch.tensor([0.5]), persistent=False)


class Positional(Model):
    def forward(self, x, y=None, z=None):
        return self.run(self, x, y, z)


class Keywords(Model):
    def forward(self, x, *, mask=None, scale=None):
        return self.run(self, x, mask, scale)


class Nested(Model):
    def forward(self, x, state):
        return self.run(self, x, state)


class Further(Model):
    def forward(self, x, *more, factor=None, **others):
        return self.run(self, x, more, factor, others)


class Empty(nn.Module):
    """A parameter of no elements, and a buffer of none."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.none = nn.Parameter(torch.zeros(4, 0))
        self.register_buffer("nothing", torch.zeros(0))

    def forward(self, x):
        return self.layer(x) + (x @ self.none).sum(1, keepdim=True), torch.cat([self.nothing, x[0]])


class Uses(nn.Module):
    """Modules called several times, registered several times, and never; Python decides how often."""

    def __init__(self, depth: int = 3, *, skip: bool = True) -> None:
        super().__init__()
        self.depth, self.skip = depth, skip
        self.layer, self.idle = nn.Linear(4, 4), nn.Linear(4, 4)
        self.again, self.steps = self.layer, nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        self.names = {"relu": nn.ReLU()}

    def forward(self, x, mode="sum"):
        out = []
        for at, step in enumerate(self.steps):
            x = self.again(step(x)) if at % 2 else self.layer(x)
            if self.skip and at == self.depth - 1:
                break
            out.append(x)
        return sum(out) if mode == "sum" and len(out) > 1 else x


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], nn.Module]
    inputs: object
    outputs: int = 1
    tolerance: float = 1e-5


def positional(run: Callable[..., object]) -> Callable[[], nn.Module]:
    return lambda: Positional(run)


def nested(run: Callable[..., object]) -> Callable[[], nn.Module]:
    return lambda: Nested(run)


def keywords(run: Callable[..., object]) -> Callable[[], nn.Module]:
    return lambda: Keywords(run)


def further(run: Callable[..., object]) -> Callable[[], nn.Module]:
    return lambda: Further(run)


ONE, TWO = torch.tensor([[5, -5]]), torch.tensor([[1, 2]])
YES, MIXED = torch.tensor([[True], [True]]), torch.tensor([[True], [False]])
BYTES = torch.tensor([[3, 250]], dtype=torch.uint8)
KEYWORD = {"state": State(Y, X), "x": X}
DEEP = {"a": (Y, X), "b": [None, X]}
CONSTANTS = [torch.tensor([1.0, 2.0]), torch.tensor(3)]

OUTPUTS = [
    Case("tuple", positional(lambda m, x, *_: (m.layer(x), x + 1)), (X,), 2),
    Case("list in tuple", positional(lambda m, x, *_: (m.layer(x), [x + 1, (x - 1,)])), (X,), 3),
    Case("dict", positional(lambda m, x, *_: {"out": m.layer(x), "aux": {"a": x * 2}}), (X,), 2),
    Case("ordered dict", positional(lambda m, x, *_: OrderedDict(b=m.layer(x), a=x * 2)), (X,), 2),
    Case("named tuple", positional(lambda m, x, *_: Pair(m.layer(x), State(x * 2, x * 3))), (X,), 3),
    Case("dataclass", positional(lambda m, x, *_: Result(m.layer(x), (x * 2,))), (X,), 2),
    Case("none", positional(lambda m, x, *_: (None, m.layer(x), None, x + 1)), (X,), 2),
    Case("input", positional(lambda m, x, *_: (x, m.layer(x))), (X,), 2),
    Case("only input", positional(lambda m, x, *_: x), (X,)),
    Case("parameter", positional(lambda m, x, *_: (m.layer.weight, m.layer(x))), (X,), 2),
    Case("buffer", positional(lambda m, x, *_: (m.table, m.layer(x) + m.scratch)), (X,), 2),
    Case("constant", positional(lambda m, x, *_: (*[c.clone() for c in CONSTANTS], m.layer(x))), (X,), 3),
    Case("number", positional(lambda m, x, *_: (m.layer(x), 3, 2.5, True)), (X,), 4),
    Case("size", positional(lambda m, x, *_: (m.layer(x), x.shape[0], x.size(1))), (X,), 3),
    Case("same twice", positional(lambda m, x, *_: (h := m.layer(x), h, x, x)), (X,), 4),
    Case("same nested", positional(lambda m, x, *_: ((h := m.layer(x)) + 1, {"h": h, "l": [h]})), (X,), 3),
    Case("own dataclass", positional(lambda m, x, *_: Unknown(m.layer(x), {"a": x * 2})), (X,), 2),
    Case("own dict", positional(lambda m, x, *_: Named(b=m.layer(x), a=[x * 2])), (X,), 2),
    Case("own list", positional(lambda m, x, *_: (Counted([m.layer(x), x * 2]),)), (X,), 2),
    Case("own object", positional(lambda m, x, *_: Cache((m.layer(x), x * 2), (x, x * 3))), (X,), 4),
    Case("view", positional(lambda m, x, *_: (h := m.layer(x), h.view(-1), h[0])), (X,), 3),
]

INPUTS = [
    Case("default missing", positional(lambda m, x, y, z: m.layer(x) if y is None else x + y), (X,)),
    Case("default given", positional(lambda m, x, y, z: m.layer(x) + y), (X, Y)),
    Case("none between", positional(lambda m, x, y, z: m.layer(x) + z if y is None else y), (X, None, Y)),
    Case("unused", positional(lambda m, x, y, z: m.layer(x)), (X, Y)),
    Case("keywords", keywords(lambda m, x, a, b: m.layer(x) * a), {"x": X, "mask": Y}),
    Case("order", keywords(lambda m, x, a, b: m.layer(x) * a - b), {"scale": Y, "x": X, "mask": X}),
    Case("tuple in", nested(lambda m, x, s: m.layer(x) * s[0] + s[1]), (X, (Y, X))),
    Case("list in", nested(lambda m, x, s: m.layer(x) * s[0] + s[1]), (X, [Y, X])),
    Case("dict in", nested(lambda m, x, s: m.layer(x) * s["a"] + s["b"]), (X, {"a": Y, "b": X})),
    Case(
        "deep", nested(lambda m, x, s: m.layer(x) * s["a"][0] + s["b"][1]), (X, {"a": (Y, X), "b": [None, X]})
    ),
    Case("named tuple in", nested(lambda m, x, s: m.layer(x) * s.hidden + s.cell), (X, State(Y, X))),
    Case("dataclass in", nested(lambda m, x, s: m.layer(x) * s.logits), (X, Result(Y, (X,)))),
    Case(
        "own object in",
        nested(lambda m, x, s: m.layer(x) * s.layers[1].keys * s.seen["steps"]),
        (X, Cache((X, X), (Y, X))),
    ),
    Case("own dict in", nested(lambda m, x, s: m.layer(x) * s.a + s["b"]), (X, Named(b=X, a=Y))),
    Case("own dataclass in", nested(lambda m, x, s: m.layer(x) * s.extra["b"]), (X, Unknown(Y, {"b": X}))),
    Case("flag", nested(lambda m, x, s: m.layer(x) if s else x), (X, False)),
    Case("number in", nested(lambda m, x, s: m.layer(x).repeat(1, s[0]) * s[1]), (X, (2, X.repeat(1, 2)))),
    Case("further", further(lambda m, x, _, f, o: m.layer(x) * o["a"] + o["b"]), {"x": X, "a": Y, "b": X}),
    Case("starred", further(lambda m, x, s, f, o: m.layer(x) * s[0] + s[1]), (X, Y, X)),
    Case("text", further(lambda m, x, s, f, o: getattr(torch, o["act"])(m.layer(x))), {"x": X, "act": "abs"}),
    Case(
        "keyword in", nested(lambda m, x, s: m.layer(x) * s.hidden + s.cell), {"state": State(Y, X), "x": X}
    ),
]

TYPES = [
    Case("half", lambda: Positional(lambda m, x, *_: m.layer(x)).half(), (X.half(),), tolerance=2e-3),
    Case("double", lambda: Positional(lambda m, x, *_: m.layer(x)).double(), (X.double(),)),
    Case("integers", positional(lambda m, x, y, z: (x + 1, x // 2, x % 3, x > y)), (ONE, TWO), 4),
    Case(
        "bool",
        positional(lambda m, x, y, z: (~x, x & y, x ^ y, m.layer(y.float().expand(2, 4)))),
        (MIXED, YES),
        4,
    ),
    Case("bytes", positional(lambda m, x, *_: (x.float() / 255, x + 1)), (BYTES,), 2),
    Case("scalar", positional(lambda m, x, y, z: m.layer(x) * y), (X, torch.tensor(2.5))),
    Case("empty parameter", Empty, (X,), 2),
]

MODULES = [
    Case("uses", Uses, (X,)),
    Case("uses without break", lambda: Uses(4, skip=False), (X,)),
]

CASES = [*OUTPUTS, *INPUTS, *TYPES, *MODULES]


def arrays(found: object) -> list[np.ndarray]:
    """The leaves of what torch takes or gives that are tensors or numbers."""
    leaves = [leaf for leaf in pytree.tree_leaves(found) if leaf is not None]
    return [t.detach().numpy() if isinstance(t, torch.Tensor) else np.asarray(t) for t in leaves]


def close(got: list[np.ndarray], want: list[np.ndarray], case: Case) -> None:
    assert [g.shape for g in got] == [w.shape for w in want]
    assert [g.dtype.kind for g in got] == [w.dtype.kind for w in want]
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_both_targets_take_and_give_the_leaves(case: Case, tmp_path: Path) -> None:
    import mindspore as ms

    torch.manual_seed(0)
    module = case.make().eval()
    named = case.inputs if isinstance(case.inputs, dict) else {}
    graph = regraft.load(module, case.inputs)
    with torch.no_grad():
        want = arrays(module(**named) if named else module(*case.inputs))
    assert len({name for name, _ in graph.outputs}) == case.outputs == len(want)
    rewritten = regraft.rewrite(graph, verify_each=True).graph
    given = [graph.origin.inputs[node.name] for node in rewritten.input_nodes()]
    regraft.save(rewritten, tmp_path / "net.onnx")
    regraft.save(rewritten, tmp_path / "net", to="mindspore")
    for target in ("net.onnx", "net"):
        report = regraft.verify(graph, tmp_path / target, modules=False)
        assert report.passed, report.render()
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    assert [o.name for o in session.get_outputs()] == [name for name, _ in graph.outputs]
    close(
        session.run(None, {i.name: a for i, a in zip(session.get_inputs(), given, strict=True)}), want, case
    )
    net = imported(f"emitted_{uuid.uuid4().hex}", tmp_path / "net" / "model.py").build()
    try:
        for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
            ms.set_context(mode=mode)
            found = net(*(ms.Tensor(a) for a in given))
            found = found if isinstance(found, (tuple, list)) else (found,)
            got = [t.asnumpy() if isinstance(t, ms.Tensor) else np.asarray(t) for t in found]
            close(got, want, case)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_a_cache_that_is_given_and_written_into(tmp_path: Path) -> None:
    def step(m: Model, x: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
        past = cache.layers[0]
        past.keys = torch.cat([past.keys, x.unsqueeze(1)], 1)
        past.values = torch.cat([past.values, m.layer(x).unsqueeze(1)], 1)
        return (past.keys @ past.values.transpose(1, 2)).sum(-1), cache

    given = Cache((X.unsqueeze(1), Y.unsqueeze(1)))
    graph = regraft.load(Nested(step), (X, given))
    assert graph.origin.notes == ["captured in evaluation mode"]
    assert [n.name for n in graph.input_nodes()] == ["x", "state_layers_0_keys", "state_layers_0_values"]
    assert [name for name, _ in graph.outputs][1:] == ["output_1_layers_0_keys", "output_1_layers_0_values"]
    assert given.layers[0].keys.shape == (2, 1, 4)
    for path in (tmp_path / "net.onnx", tmp_path / "net"):
        regraft.save(regraft.rewrite(graph).graph, path, to="onnx" if path.suffix else "mindspore")
        report = regraft.verify(graph, path)
        assert report.passed, report.render()
        assert {1, 2} <= {row.shape[0] for row in report.outputs}


def test_arguments_that_are_no_tensors_are_said_to_be_constants() -> None:
    module = Nested(lambda m, x, s: m.layer(x) * s)
    graph = regraft.load(module, (X, 0.5))
    assert "the argument `state` is `0.5` in the graph" in graph.origin.notes
    assert [node.name for node in graph.input_nodes()] == ["x"]


def test_outputs_that_no_runtime_gives_are_named() -> None:
    graph = regraft.load(Positional(lambda m, x, *_: {"y": m.layer(x), "kind": "plain"}), (X,))
    assert [name for name, _ in graph.outputs] == ["y"]
    assert "the output `kind` is the text `plain`: left out" in graph.origin.notes
    with pytest.raises(regraft.RegraftError, match="dicts or dataclasses of them, got `Model`"):
        regraft.load(Positional(lambda m, x, *_: Model(m.layer(x))), (X,))


def test_a_hook_sees_the_arguments_that_go_by_position(tmp_path: Path) -> None:
    module = Positional(lambda m, x, *_: m.layer(x))
    module.register_forward_pre_hook(lambda _, given: (given[0] * 3,))
    graph = regraft.load(module, {"x": X})
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").passed


def test_modules_in_a_transformed_function_are_not_looked_into(tmp_path: Path) -> None:
    module = Positional(lambda m, x, *_: torch.vmap(lambda row: m.layer(row) * row.sum())(x))
    graph = regraft.load(module, (X,))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()


def test_state_that_every_run_overwrites_is_frozen_as_it_is_now(tmp_path: Path) -> None:
    class Watching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mean", torch.ones(4))
            self.register_buffer("last", torch.ones(4))

        def forward(self, x):
            self.count += 1
            self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
            self.last = self.last * 0.5 + x.sum(0)
            return x * self.mean + self.last + self.count

    module = Watching().eval()
    graph = regraft.load(module, (X,))
    rewritten = regraft.rewrite(graph, verify_each=True)
    assert [c.place for c in rewritten.changes if c.code == "FS101"] == ["count", "last", "mean"]
    regraft.save(rewritten.graph, tmp_path / "net.onnx")
    regraft.save(rewritten.graph, tmp_path / "net", to="mindspore")
    for target in ("net.onnx", "net"):
        report = regraft.verify(graph, tmp_path / target)
        assert report.passed, report.render()
    assert int(module.count) == 0
    assert torch.equal(module.mean, torch.ones(4))
    assert torch.equal(module.last, torch.ones(4))


def test_a_buffer_that_the_first_run_makes_anew_in_another_size(tmp_path: Path) -> None:
    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.ones(1, 1), persistent=False)

        def forward(self, x):
            if self.mask.shape[-1] != x.shape[-1]:
                self.mask = torch.ones(x.shape[-1], x.shape[-1]).tril() == 0
            return x.unsqueeze(1).expand(-1, x.shape[-1], -1).masked_fill(self.mask, -1.0)

    graph = regraft.load(Causal(), (X,))
    rewritten = regraft.rewrite(graph)
    assert [c.place for c in rewritten.changes if c.code == "FS101"] == ["mask"]
    regraft.save(rewritten.graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "whole"])
def test_compiled_modules_are_compared_module_by_module(inside: bool, tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.ReLU())
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.body(x)) if self.training else self.head(self.body(x) + 0)

    net = Net()
    if inside:
        net.body = torch.compile(net.body)
        net.head.compile()
    else:
        net = torch.compile(net)
    graph = regraft.load(net, (X,))
    assert any("computes something else in training" in note for note in graph.origin.notes)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()
    assert sum(row.max_abs is not None for row in report.modules) >= 4


def test_bfloat16_is_stored_as_it_is(tmp_path: Path) -> None:
    """ONNX Runtime's CPU has no bfloat16 product, nor has MindSpore's: the file is what can be looked at."""
    import onnx

    module = Model(lambda: None).bfloat16()
    layer = module.layer.eval()
    regraft.save(regraft.rewrite(regraft.load(layer, (X.bfloat16(),))).graph, tmp_path / "net.onnx")
    stored = {t.name: t for t in onnx.load(tmp_path / "net.onnx").graph.initializer}
    assert stored["weight"].data_type == onnx.TensorProto.BFLOAT16
    assert stored["weight"].raw_data == layer.weight.detach().view(torch.int16).numpy().tobytes()


@pytest.mark.parametrize("case", [INPUTS[2], INPUTS[5], INPUTS[9]], ids=lambda c: c.name)
def test_saved_programs_keep_the_form_of_their_arguments(case: Case, tmp_path: Path) -> None:
    module = case.make().eval()
    named = case.inputs if isinstance(case.inputs, dict) else {}
    program = torch.export.export(module, () if named else case.inputs, named or None, strict=False)
    torch.export.save(program, tmp_path / "net.pt2")
    graph = regraft.load(tmp_path / "net.pt2")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return torch.relu(self.norm(self.layer(x)))


@pytest.mark.parametrize("training", [False, True])
def test_saved_programs_that_pytorch_has_decomposed_or_that_train(training: bool, tmp_path: Path) -> None:
    program = torch.export.export(Normed().train(training), (X,))
    torch.export.save(program if training else program.run_decompositions(), tmp_path / "net.pt2")
    graph = regraft.load(tmp_path / "net.pt2")
    assert any("normalised by their own statistics" in note for note in graph.origin.notes) == training
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()


def test_a_program_without_values_is_refused(tmp_path: Path) -> None:
    with torch.device("meta"):
        program = torch.export.export(Normed().eval(), (torch.randn(2, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(regraft.RegraftError, match=r"E101 expected values, got a tensor.* `meta`"):
        regraft.save(regraft.rewrite(regraft.load(tmp_path / "net.pt2")).graph, tmp_path / "net.onnx")
    assert not (tmp_path / "net.onnx").exists()


def test_nested_inputs_of_a_symbol_are_refused() -> None:
    symbol = Path(__file__).parents[2] / "examples" / "shared_weight-symbol.json"
    with pytest.raises(regraft.RegraftError, match="expected arrays as inputs of a model of mxnet"):
        regraft.load(symbol, ((X.numpy(), X.numpy()),))
