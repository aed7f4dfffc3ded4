"""Saved programs are data: what would execute is refused with one error, what torch writes opens."""

from __future__ import annotations

import collections
import dataclasses
import io
import json
import logging
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.torch_version import TorchVersion

import regraft
from regraft.cli import main
from regraft.formats.pickled import Unknown, read_pickle
from regraft.frontends.torch_module.saved.expressions import Expressions
from regraft.frontends.torch_module.saved.program import read_program

from .hostile_archives import Members, Net, hostile, ordinary, quiet, write

AUTO = torch.export.Dim.AUTO


@pytest.fixture(scope="module")
def members() -> Members:
    return ordinary()


@pytest.fixture(scope="module")
def onnx_file(members: Members, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    path = folder / "net.onnx"
    graph = regraft.load(write(folder / "net.pt2", members))
    regraft.save(regraft.rewrite(graph).graph, path)
    return path


def commands(path: Path, target: Path) -> list[list[str]]:
    written = str(path.with_suffix(".onnx"))
    return [
        ["check", str(path)],
        ["show", str(path)],
        ["rewrite", str(path), "-o", written, "--force"],
        ["verify", str(path), str(target)],
        ["verify", str(target.with_suffix(".pt2")), str(path)],
    ]


NAMES = [
    "example inputs that call",
    "example inputs of a bare pickle",
    "a weight that says it is pickled",
    "an opaque constant",
    "an opaque constant that says it is raw",
    "a custom object",
    "weights in a pickle",
    "weights in a bare pickle",
    "constants in a pickle",
    "a shared object",
    "TorchScript",
    "a size that is evaluated",
    "a size with a call inside",
    "a size by way of classes",
    "a size that takes for ever",
    "a range of a name that is evaluated",
    "a symbol that is counted up to",
    "a node's name that is source",
    "an input's name that is source",
    "a weight's name that is source",
    "an argument's name that is source",
    "a keyword that is source",
    "a keyword of a class",
    "an output of a class",
    "an output with a factory",
    "a function of the system",
    "a function of a library's module",
    "a loader of libraries",
    "a loader of pickles",
    "an operator that makes a file",
    "an operator of TorchScript that writes",
    "a method by its name",
    "a function as an argument",
    "an object's method",
    "an object in the graph",
    "an empty weight of 4 TB",
    "a weight that repeats itself",
    "JSON that nests",
    "JSON of too many values",
    "a record outside",
]


def test_every_vector_is_tried(members: Members, tmp_path: Path) -> None:
    assert list(hostile(members, tmp_path / "mark")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_command_executes_what_a_file_holds(
    name: str, members: Members, onnx_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # so that what the file would import is there
    mark = tmp_path / "mark"
    path = write(tmp_path / "evil.pt2", hostile(members, mark)[name])
    for command in commands(path, onnx_file):
        done = CliRunner().invoke(main, command)
        assert not mark.exists(), command
        assert done.exit_code == 2, (command, done.output, done.exception)
        assert done.stderr.startswith(("error E101 ", "error E107 "))
        assert "evil.pt2" in done.stderr
        assert ("--trust" in done.stderr) == ("E107" in done.stderr)
    assert not path.with_suffix(".onnx").exists()


@pytest.mark.parametrize("name", ["guards", "functions in the metadata", "source lines", "verifiers"])
def test_what_is_not_needed_of_a_file_is_not_read(
    name: str, members: Members, onnx_file: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    path = write(tmp_path / "evil.pt2", quiet(members, mark)[name])
    for command in commands(path, onnx_file):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, (command, done.output, done.exception)
    assert not mark.exists()


def test_trust_opens_what_is_pickled(members: Members, onnx_file: Path, tmp_path: Path) -> None:
    """As torch writes a weight of a class of its own, a quantised one say."""
    name = "data/weights/model_weights_config.json"
    config = json.loads(members[name])
    config["config"]["linear.weight"].update(path_name="weight_9", use_pickle=True)
    weight = io.BytesIO()
    torch.save(nn.Parameter(torch.ones(4, 4)), weight)
    pickled = {name: json.dumps(config).encode(), "data/weights/weight_9": weight.getvalue()}
    path = write(tmp_path / "net.pt2", {**members, **pickled})
    with pytest.raises(regraft.RegraftError, match=r"E107 `linear.weight` is pickled"):
        regraft.load(path)
    assert len(regraft.load(path, trust=True).parameters()) == 3
    for command in commands(path, onnx_file):
        assert CliRunner().invoke(main, command).exit_code == 2
        done = CliRunner().invoke(main, [*command, "--trust"])
        assert done.exit_code == (1 if command[0] == "verify" else 0), done.output  # other weights


@pytest.mark.parametrize("command", ["check", "show", "rewrite", "verify"])
def test_help_says_what_trust_runs(command: str) -> None:
    shown = " ".join(CliRunner().invoke(main, [command, "--help"]).output.split())
    assert "--trust Let a file RUN CODE: torch.export.load" in shown


# -- the archive -----------------------------------------------------------------------------------------


def _archive(members: Members) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"net/{name}", content)
    return out.getvalue()


def _doubled(members: Members) -> bytes:
    """Two records of one name: readers differ in which they take."""
    out = io.BytesIO(_archive(members))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(out, "a") as archive:
        archive.writestr("net/models/model.json", b"{}")
    return out.getvalue()


def _overlapping(members: Members) -> bytes:
    """The second entry of the directory points at the first's bytes."""
    data = bytearray(_archive(members))
    at = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    struct.pack_into("<L", data, at + 42, 0)
    return bytes(data)


def _compressed(members: Members) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/extra/zeros", bytes(100 << 20))
        for name, content in members.items():
            archive.writestr(f"net/{name}", content)
    return out.getvalue()


ARCHIVES: dict[str, Callable[[Members], bytes]] = {
    "two records of one name": _doubled,
    "records that overlap": _overlapping,
    "compressed": _compressed,
    "cut off": lambda members: _archive(members)[:-100],
    "something after the end": lambda members: _archive(members) + b"x",
    "something before the beginning": lambda members: b"x" * 50 + _archive(members),
    "a byte that changed": lambda members: _archive(members).replace(b"torch.ops.aten", b"torch.ops.atem", 1),
    "nothing": lambda _: b"",
    "no archive": lambda _: b"\x80\x04garbage" * 100,
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_that_torch_does_not_write_are_refused(name: str, members: Members, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(ARCHIVES[name](members))
    with pytest.raises(regraft.RegraftError, match=r"E10[17] "):
        regraft.load(path)


def test_more_records_than_any_program_has_are_refused_before_they_are_listed(
    members: Members, tmp_path: Path
) -> None:
    data = bytearray(_archive(members))
    at = data.rindex(b"PK\5\6")
    struct.pack_into("<2H", data, at + 8, 0xFFFF, 0xFFFF)
    (tmp_path / "net.pt2").write_bytes(data)
    with pytest.raises(regraft.RegraftError, match="E101"):
        regraft.load(tmp_path / "net.pt2")


# -- what torch writes -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor | None = None
    third: torch.Tensor | None = None


Point = collections.namedtuple("Point", "x y")


class Of(nn.Module):
    """A module whose forward is a function of it and its inputs."""

    def __init__(self, function: Callable, **held: object) -> None:
        super().__init__()
        self.function = function
        for name, value in held.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value, persistent=not name.startswith("_"))
            else:
                setattr(self, name, value)

    def forward(self, x):
        return self.function(self, x)


def _registered() -> None:
    from torch.utils import _pytree as pytree

    if Pair not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(Pair, serialized_type_name="regraft.tests.Pair")
        pytree._register_namedtuple(Point, serialized_type_name="regraft.tests.Point")


X = torch.linspace(-2, 2, 24).reshape(6, 4)
HALVES = {
    "brain": torch.ones(4, dtype=torch.bfloat16),
    "short": torch.ones(4, dtype=torch.float16),
    "long": torch.ones(4, dtype=torch.float64),
    "whole": torch.arange(4),
    "truth": torch.ones(4, dtype=torch.bool),
    "_fleeting": torch.ones(4),
}
FUNCTIONS: dict[str, tuple[Callable, dict[str, object], object]] = {
    "sums and products of sizes": (
        lambda _, x: (torch.cat([x, x, x[:1]]), x.reshape(-1), x.new_ones(x.shape[0] * 2 + 1)),
        {},
        X,
    ),
    "halved sizes": (lambda _, x: (x.new_ones(x.shape[0] // 2), x.shape[0] // 2), {}, X),
    "remainders": (
        lambda _, x: nn.functional.pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4)),
        {},
        X,
    ),
    "the larger and the smaller of two": (
        lambda _, x: x.new_ones(torch.sym_max(x.shape[0], 3) + torch.sym_min(x.shape[0], 5)),
        {},
        X,
    ),
    "element types": (
        lambda self, x: (
            x + self.brain.float() + self.short + self.long.float() + self.whole + self.truth + self._fleeting
        ),
        HALVES,
        X,
    ),
    "constants": (lambda _, x: x + torch.tensor([1.0, 2, 3, 4]) + torch.tensor(3), {}, X),
    "views of one storage": (
        lambda self, x: x + self.wide[:4, 0] + self.shown,
        {"wide": torch.arange(24.0).reshape(4, 6), "shown": torch.ones(1).expand(4)},
        X,
    ),
    "tuples, lists and dicts": (
        lambda _, x: {"a": [x["k"][0] + 1, (x["m"],)], "b": x["k"][1]},
        {},
        {"k": (X, X), "m": X},
    ),
    "ordered dicts and defaultdicts": (
        lambda _, x: collections.OrderedDict(a=x["k"] * 2),
        {},
        collections.defaultdict(list, k=X),
    ),
    "dataclasses": (lambda _, x: Pair(x.first + 1, None, x.third), {}, Pair(X, None, X)),
    "named tuples": (lambda _, x: Point(x.x + 1, x.y), {}, Point(X, X)),
    "conditions": (
        lambda _, x: torch.cond(x.sum() > 0, lambda t: (t + 1, t.sum()), lambda t: (t * 2, t.mean()), (x,)),
        {},
        X,
    ),
    "sizes that depend on data": (lambda _, x: x.nonzero(), {}, X),
    "no gradient": (
        lambda self, x: _without_gradient(self.linear, x),
        {"linear": nn.Linear(4, 4)},
        X,
    ),
    "mapped": (lambda _, x: torch.vmap(lambda row: row.sum() * 2)(x), {}, X),
    "writes in place": (lambda _, x: _written(x), {}, X),
    "odd names": (
        lambda self, x: self.layers["a-b"](self.layers["c d"](x)),
        {"layers": nn.ModuleDict({"a-b": nn.Linear(4, 4), "c d": nn.Linear(4, 4)})},
        X,
    ),
    "infinities": (lambda _, x: x.masked_fill(x > 0, float("-inf")).clamp(max=float("inf")), {}, X),
    "texts": (lambda _, x: torch.einsum("ij,kj->ik", x, x).div(2, rounding_mode="floor"), {}, X),
}


def _without_gradient(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
    return layer(y)


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 3
    y[:, 1:3] += 1
    return y.relu_()


def _same(left: object, right: object) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left.nan_to_num(), right.nan_to_num())
    return left == right


FORMS = ["as exported", "decomposed", "static", "training"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ordinary_programs_open_as_torch_opens_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils import _pytree as pytree

    if name == "mapped" and TorchVersion(torch.__version__) < "2.13":
        pytest.skip("torch before 2.13 cannot write a mapped function")
    _registered()
    function, held, example = FUNCTIONS[name]
    dynamic = pytree.tree_map(lambda _: {0: AUTO}, example)
    if name == "dataclasses":
        dynamic = [{0: AUTO}, {0: AUTO}]  # torch takes the fields of a dataclass as a list
    for form in FORMS:
        if form == "decomposed" and name in ("mapped", "no gradient"):
            continue
        net = Of(function, **held).train(form == "training")
        axes = None if form == "static" or name == "sizes that depend on data" else (dynamic,)
        program = torch.export.export(net, (example,), dynamic_shapes=axes, strict=False)
        program = program.run_decompositions() if form == "decomposed" else program
        path = tmp_path / "net.pt2"
        torch.export.save(program, path)
        with monkeypatch.context() as patched:  # torch's own warning does not fit its own format
            patched.setattr(logging.getLogger("torch._export.serde.serialize"), "disabled", True)
            theirs = torch.export.load(path)
        ours = read_program(path)
        lines = [
            [line for line in str(p).splitlines() if not line.strip().startswith("#") and line.strip()]
            for p in (ours.program, theirs)
        ]
        assert lines[0] == lines[1], form
        for kept, expected in (
            (ours.program.state_dict, theirs.state_dict),
            (ours.program.constants, theirs.constants),
        ):
            assert list(kept) == list(expected)
            for key, value in expected.items():
                assert type(kept[key]) is type(value)
                assert kept[key].dtype == value.dtype
                assert kept[key].requires_grad == value.requires_grad
                assert kept[key].stride() == value.stride()
                assert torch.equal(kept[key], value)
        leaves = [leaf for leaf in pytree.tree_leaves(example) if isinstance(leaf, torch.Tensor)]
        assert ours.examples is not None
        assert all(map(torch.equal, ours.examples, leaves))
        results = [pytree.tree_leaves(p.module()(example)) for p in (ours.program, theirs)]
        assert all(map(_same, *results)), form


def test_classes_that_nobody_registered_open_as_tuples(tmp_path: Path, monkeypatch) -> None:
    """torch itself cannot open such a file in another process."""
    from torch.utils import _pytree as pytree

    _registered()
    net = Of(lambda _, x: Pair(x.first + 1, None, x.third))
    torch.export.save(torch.export.export(net, (Pair(X, None, X),), strict=False), tmp_path / "net.pt2")
    known = {k: v for k, v in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.items() if not k.endswith("Pair")}
    monkeypatch.setattr(pytree, "SERIALIZED_TYPE_TO_PYTHON_TYPE", known)
    graph = regraft.load(tmp_path / "net.pt2")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()


@pytest.mark.parametrize("momentum", [None, 0.0, 0.1])
def test_a_note_tells_that_files_state_no_average_of_all_batches(
    tmp_path: Path, momentum: float | None
) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3, momentum=momentum)).eval()
    torch.export.save(torch.export.export(net, (torch.ones(6, 4),)), tmp_path / "net.pt2")
    torch.jit.save(torch.jit.trace(net, torch.ones(6, 4)), tmp_path / "net.pt")
    for graph in (regraft.load(tmp_path / "net.pt2"), regraft.load(tmp_path / "net.pt", ["6x4"])):
        told = ["`1` has momentum 0" in note for note in graph.origin.notes]
        assert sum(told) == (momentum != 0.1), graph.origin.notes
    assert not any("has momentum 0" in note for note in regraft.load(net, ["6x4"]).origin.notes)


def test_a_saved_program_is_rewritten_and_verified_with_its_own_examples(tmp_path: Path) -> None:
    program = torch.export.export(Net(), (torch.ones(6, 4),), dynamic_shapes=({0: AUTO},), strict=False)
    torch.export.save(program, tmp_path / "net.pt2")
    graph = regraft.load(tmp_path / "net.pt2")
    assert [value.shape for value in graph.origin.inputs.values()] == [(6, 4)]
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").passed


# -- the grammar and the pickles ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "2*s0 + 1",
        "s0//2",
        "Max(1, s0)",
        "Min(s0, s1, 4)",
        "Mod(s0, 3)",
        "s0**2",
        "(s0 > 3) & (s1 < 2)",
        "Eq(Mod(s0, 2), 0)",
        "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(-1))",
        "FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2))",
        "TruncToInt(FloatTrueDiv(Symbol('s0', integer=True), Float('2.0', precision=53)))",
        "Unequality(Symbol('u0', integer=True), Integer(1))",
    ],
)
def test_sizes_are_read_and_written_back(text: str) -> None:
    from sympy.printing.repr import srepr

    found = Expressions("here").read(text)
    assert Expressions("here").read(srepr(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "s0.__class__",
        "[s0 for s0 in (1,)]",
        "(lambda: 1)()",
        "s0 if s0 else 1",
        "2**s0",
        "((2**60)**60)**60",
        "Symbol('__import__')",
        "Symbol('s0', commutative=False)",
        "Function('f')(1)",
        "s0/0",
        "Float('1e999999999')",
        "(" * 5000 + "s0" + ")" * 5000,
        "-" * 9000 + "1",
        "Max(" + ", ".join(f"s{i}" for i in range(3000)) + ")",
    ],
)
def test_anything_but_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(regraft.RegraftError, match="E107 expected arithmetic"):
        Expressions("here").read(text)


def test_a_pickle_calls_nothing(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    body = b"\x80\x02cos\nmkdir\nX" + struct.pack("<I", len(mark)) + mark.encode() + b"\x85R."
    found = read_pickle(body, "here", 100)
    assert found == Unknown("os.mkdir", (mark,))
    assert not Path(mark).exists()


def test_mutated_archives_execute_nothing_and_are_refused_with_one_error(tmp_path: Path) -> None:
    from ...fuzz.fuzz_pt2 import run

    assert run(40, seed=7, folder=tmp_path / "fuzz") == []
