"""TorchScript archives: regraft's interpreter computes what torch's does, and runs nothing but operators."""

from __future__ import annotations

import enum
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import regraft
from regraft.cli import main
from regraft.frontends.torch_module.scripted.modules import read_archive
from regraft.ir import ModelError, RegraftError

from .hostile_archives import Members, write

pytestmark = pytest.mark.filterwarnings("ignore")  # torch deprecates writing such archives; people have them


class Kind(enum.Enum):
    """What a net does to its input."""

    ADD = "add"
    TAKE = "take"


class Pair(NamedTuple):
    """Two outputs by name."""

    first: Tensor
    second: Tensor


class Block(nn.Module):
    """A convolution with a batch norm; a layer that is called twice; a chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.chain = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Dropout(0.3))

    def forward(self, x):
        return self.relu(self.chain(self.relu(self.bn(self.conv(x)))) + 1)


class Sizes(nn.Module):
    """Sizes that are computed, as tensors in a trace."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 3, 2, 2)
        self.fc = nn.Linear(4, 6)

    def forward(self, x):
        n, h, w = x.shape[0], x.shape[2], x.shape[3]
        print("sizes", h, w)
        flat = self.fc(x.flatten(2).transpose(1, 2)).reshape(n, h * w // 2, 2, 6)
        wide = F.interpolate(x, size=(h * 2, w * 2), mode="bilinear", align_corners=False)
        return flat, self.up(x) + wide[:, :3], F.interpolate(x, scale_factor=0.5)


class Steps(nn.Module):
    """Loops, lists, dictionaries, texts, optional values, an enumeration, tuples by name, a function."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.kind = Kind.TAKE
        self.scale = 0.5
        self.names = ["a", "b"]

    def scaled(self, x: Tensor, by: float = 2.0) -> Tensor:
        return x * by * self.scale

    def forward(self, x: Tensor, bias: Tensor | None = None, n: int = 2):
        found: list[Tensor] = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            found.append(x)
        at = 0
        while at < n:
            x = self.scaled(x)
            at += 1
        if bias is not None:
            x = x + bias
        x = x + 1 if self.kind == Kind.ADD else x - 1
        table: dict[str, Tensor] = {}
        for name, value in zip(self.names, found):  # noqa: B905 - TorchScript's zip
            table[name] = value[:, :2]
        assert x.dim() == 2, f"expected a matrix, got {x.dim()} axes"
        return Pair(torch.cat([x, found[-1]], 1), torch.stack(list(table.values()))), found[::2]


class Tied(nn.Module):
    """One module under two names, and a list that holds a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = self.left
        self.cell = nn.LSTM(4, 3, batch_first=True, bidirectional=True)

    def forward(self, x):
        out, (h, c) = self.cell(self.right(torch.relu(self.left(x))))
        return out, h, c


CASES = {
    "a block": (Block, (torch.randn(2, 3, 6, 6),), "st"),
    "sizes": (Sizes, (torch.randn(2, 4, 6, 8),), "st"),
    "steps": (Steps, (torch.randn(2, 4), torch.randn(4)), "s"),
    "a module under two names": (Tied, (torch.randn(2, 5, 4),), "st"),
    "attention": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (torch.randn(2, 5, 8),),
        "st",
    ),
}


def save(folder: Path, model: nn.Module, inputs: tuple, how: str) -> Path:
    """Write an archive of a model that is scripted (s) or traced (t)."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        made = torch.jit.script(model) if how == "s" else torch.jit.trace(model, inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
    path = folder / f"{how}.pt"
    torch.jit.save(made, path)
    return path


@pytest.mark.parametrize("name", CASES)
def test_an_archive_computes_what_torch_computes_of_it(name, tmp_path):
    make, inputs, ways = CASES[name]
    torch.manual_seed(0)
    model = make().eval()
    for how in ways:
        path = save(tmp_path, model, inputs, how)
        module, examples = read_archive(path)
        assert (examples is not None) is (how == "t")
        assert {n: p.shape for n, p in module.state_dict().items()} == {
            n: p.shape for n, p in model.state_dict().items()
        }
        with torch.no_grad():
            mine, theirs = module(*inputs), torch.jit.load(path)(*inputs)
        assert pytree.tree_structure(mine).num_leaves == pytree.tree_structure(theirs).num_leaves
        for a, b in zip(pytree.tree_leaves(mine), pytree.tree_leaves(theirs), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["a block", "sizes", "a module under two names"])
def test_an_archive_is_written_in_other_frameworks(name, tmp_path):
    make, inputs, ways = CASES[name]
    torch.manual_seed(0)
    model = make().eval()
    path = save(tmp_path, model, inputs, "t" if "t" in ways else "s")
    graph = regraft.load(path)  # a trace has the shapes of its inputs
    written = regraft.rewrite(graph, to="torch")
    regraft.save(written, tmp_path / "out", to="torch")
    report = regraft.verify(graph, tmp_path / "out")
    assert report.passed
    assert report.proved_against == "graph"  # TorchScript did not run it
    source = (tmp_path / "out" / "model.py").read_text()
    if name == "a block":
        assert "self.bn = nn.BatchNorm2d(4)" in source
        assert "nn.Sequential(" in source


def test_a_check_of_data_has_its_place_in_the_archive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Branch(nn.Module):
        def forward(self, x):
            if bool(x.isnan().any()):
                raise ValueError("expected numbers")
            return x * 2

    torch.jit.save(torch.jit.script(Branch()), tmp_path / "branch.pt")
    graph = regraft.load(tmp_path / "branch.pt", ["2x3"])
    assert any("branch.pt/code/__torch__" in note for note in graph.origin.notes)


def test_a_trusted_archive_is_run_by_torch_too(tmp_path, monkeypatch):
    path = save(tmp_path, Block().eval(), (torch.randn(2, 3, 6, 6),), "t")
    graph = regraft.load(path, trust=True)
    assert any(note.startswith("TorchScript ran the file") for note in graph.origin.notes)
    monkeypatch.setattr("regraft.frontends.torch_module.scripted.builtin_operators._PRIMITIVES", {})
    monkeypatch.setitem(
        regraft.frontends.torch_module.scripted.builtin_operators._ALWAYS, "relu", lambda x: x * 2
    )
    with pytest.raises(ModelError, match="E104 regraft reads another function"):
        regraft.load(path, trust=True)


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def source_of(members: Members) -> str:
    """The record of the source of the only class."""
    (file,) = (name for name in members if name.endswith(".py"))
    return file


BODIES = {
    "code of Python": ("    return __import__('os').getcwd()\n", "is not read"),
    "an attribute of a module's class": ("    return self.__class__\n", "expected an attribute"),
    "an attribute of a tensor": ("    return x.__class__\n", "expected an attribute"),
    "a comprehension": ("    return [y for y in [x]]\n", "is not read"),
    "a function of its own": ("    return (lambda: x)()\n", "is not read"),
    "a text that formats": ("    return f'{x}'\n", "is not read"),
    "an operator that makes files": (
        "    return torch.from_file('made', True, 4)\n",
        "no operator of torch on tensors",
    ),
    "a library": ("    return ops.profiler._record_function_enter('x')\n", "no operator of torch"),
    "a name of torch's": ("    return torch.__init__(x)\n", "no operator of torch"),
    "a loop without an end": ("    while True:\n      y = 1\n    return x\n", "a program that ends"),
    "a function within itself": ("    return (self).forward(x, )\n", "calls that end"),
    "a list of lists": ("    y = [1]\n    z = torch.mul(y, 100000000)\n    return x\n", "elements"),
    "a text that is made wide": ("    y = torch.ljust('a', 100000000000)\n    return x\n", "no operator"),
    "a number that grows": (
        "    y = 3\n    for i in range(60):\n      y = torch.mul(y, y)\n    return x\n",
        "beyond 64 bits",
    ),
    "a text of texts": (
        "    y = torch.mul('a', 1000000)\n    z = torch.replace(y, 'a', y)\n    return x\n",
        "a long text",
    ),
    "a list that doubles": (
        "    y = [1]\n    for i in range(100):\n      y = torch.add(y, y)\n    return x\n",
        "elements",
    ),
    "a list of a range": ("    y = torch.list(range(10000000000))\n    return x\n", "a long list"),
    "a text that grows": ("    y = torch.mul('a', 100000000)\n    return x\n", "elements"),
    "too few arguments": ("    return torch.relu()\n", ""),
    "a constant that is not there": ("    return CONSTANTS.c7\n", "expected a constant"),
    "text that is none": ("    return (((\n", "does not parse"),
    "brackets without an end": ("    return " + "[" * 5000 + "]" * 5000 + "\n", "does not parse"),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Members:
    class Net(nn.Module):
        def forward(self, x):
            return torch.relu(x)

    path = tmp_path_factory.mktemp("plain") / "net.pt"
    torch.jit.save(torch.jit.trace(Net(), torch.ones(2, 2)), path)
    return members_of(path)


@pytest.mark.parametrize("name", BODIES)
def test_code_that_is_no_operators_is_refused_and_not_run(name, plain, tmp_path, monkeypatch):
    body, message = BODIES[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regraft.frontends.torch_module.scripted.interpreter._MOST_STEPS", 2_000)
    file = source_of(plain)
    text = plain[file].decode()
    head = text[: text.rindex("Tensor:\n") + len("Tensor:\n")]
    path = write(tmp_path / "net.pt", {**plain, file: (head + body).encode()})
    began = time.process_time()
    with pytest.raises(RegraftError) as found:
        regraft.load(path)
    assert message in str(found.value)
    assert message != "is not read" or found.value.code == "E203"
    assert str(found.value.place or found.value).strip()
    assert time.process_time() - began < 20
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.pt"]


def test_damaged_archives_are_one_error(plain, tmp_path):
    path = tmp_path / "net.pt"
    for name, changed in {
        "no objects": {k: v for k, v in plain.items() if k != "data.pkl"},
        "no source": {k: v for k, v in plain.items() if not k.startswith("code/")},
        "objects that call": {**plain, "data.pkl": b"\x80\x02cos\nsystem\nX\x04\0\0\0trueR."},
        "a class of another name": {**plain, "data.pkl": plain["data.pkl"].replace(b"Net", b"Bet")},
        "text of another encoding": {**plain, source_of(plain): b"\xff\xfe"},
    }.items():
        write(path, changed)
        with pytest.raises(RegraftError) as found:
            regraft.load(path)
        assert found.value.code in ("E101", "E203"), name
        assert found.value.place, name
    large = {**plain, source_of(plain): b"#" * (64 << 20)}  # of 64 kB in the file
    write(path, large, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelError):
        regraft.load(path)


def test_the_command_line_takes_an_archive_by_any_name(plain, tmp_path):
    for name in ("net.pt", "net.ts", "net"):
        path = write(tmp_path / name, plain)
        result = CliRunner().invoke(main, ["show", str(path)])
        assert result.exit_code == 0, result.output
        assert "Net" in result.output
    assert CliRunner().invoke(main, ["check", str(tmp_path / "net.pt")]).exit_code == 0
