"""What regraft runs and imports: nothing of the working directory, no exit of a model's is its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regraft

_NAMES = (
    "ruff torch onnxruntime numpy sitecustomize usercustomize json typing decorator onnx networkx click rich "
    "mindspore safetensors sympy triton scipy optree PIL pandas torchvision google yaml psutil"
)
DECOYS = _NAMES.split()
MODEL = """
import json

import torch

import mylayers


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from late import WIDTH

        self.layer = mylayers.Layer(WIDTH)

    def forward(self, x):
        return self.layer(x)
"""
SIBLINGS = {
    "mylayers": "import torch\nfrom parts.inner import SCALE\n\n\nclass Layer(torch.nn.Linear):\n"
    "    def __init__(self, width):\n        super().__init__(width, width)\n",
    "late": "WIDTH = 4\n",
    "parts/inner": "import late\n\nSCALE = late.WIDTH\n",
}


@pytest.fixture(scope="module")
def decoyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory and a folder of models, both with files that are named as what gets imported."""
    here = tmp_path_factory.mktemp("decoys")
    folder = here / "models"
    (folder / "parts").mkdir(parents=True)
    for name in DECOYS:
        for where in (here, folder):
            marking = f"open({str(here / 'mark')!r}, 'a').write(__file__)\nraise ImportError('a decoy')\n"
            (where / f"{name}.py").write_text(marking)
    (folder / "net.py").write_text(MODEL)
    for name, text in SIBLINGS.items():
        (folder / f"{name}.py").write_text(text)
    linear = torch.nn.Linear(4, 4)
    program = torch.export.export(linear, (torch.ones(2, 4),), strict=False)
    torch.export.save(program, folder / "net.pt2")
    regraft.save(regraft.rewrite(regraft.load(folder / "net.pt2")).graph, folder / "net.onnx")
    symbol = Path(__file__).parent.parent / "examples" / "shared_weight-symbol.json"
    for path in symbol.parent.glob("shared_weight*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return here


def ran(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python -m regraft` in a folder, which must not be on the path by another way."""
    return subprocess.run(
        [sys.executable, "-m", "regraft", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=dict(os.environ),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["rewrite", "models/net.pt2", "--to", "mindspore", "-o", "out"],
        ["rewrite", "models/shared_weight-symbol.json", "--input", "data=1x1x3x3", "-o", "symbol.onnx"],
        ["rewrite", "models/net.py:Net", "--input", "2x4", "--to", "mindspore", "-o", "net"],
        ["verify", "models/net.pt2", "models/net.onnx"],
        ["show", "models.net:Net", "--input", "2x4"],
    ],
    ids=["pt2", "symbol", "file", "onnx", "module"],
)
def test_decoys_in_the_working_directory_and_beside_a_model_are_not_imported(
    arguments: list[str], decoyed: Path
) -> None:
    if arguments[1].startswith("models."):  # siblings of a module are found from the folder it is run in
        arguments = ["show", "net:Net", "--input", "2x4"]
    done = ran(arguments, decoyed / "models" if arguments[1] == "net:Net" else decoyed)
    assert done.returncode == 0, done.stderr
    assert not (decoyed / "mark").exists(), (decoyed / "mark").read_text()


EXITS = """
import atexit
import itertools
import os
import sys

import torch


class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


class InInit(Base):
    def __init__(self):
        sys.exit(0)


class InForward(Base):
    def forward(self, x):
        sys.exit(0)


class Hard(Base):
    def forward(self, x):
        os._exit(0)


class Raised(Base):
    def forward(self, x):
        raise SystemExit


CALLS = itertools.count()


class Second(Base):
    def forward(self, x):
        if not torch.compiler.is_exporting() and next(CALLS) > 1:
            exit(0)
        return self.layer(x)


class AtEnd(Base):
    def __init__(self):
        super().__init__()
        atexit.register(os._exit, 0)

    def forward(self, x):
        raise ValueError("before the end")
"""


@pytest.fixture(scope="module")
def exits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exits")
    (folder / "net.py").write_text(EXITS)
    (folder / "module.py").write_text("import sys\nsys.exit(0)\n")
    return folder


@pytest.mark.parametrize("name", ["InInit", "InForward", "Raised"])
def test_no_exit_of_a_model_ends_a_caller(name: str, exits: Path) -> None:
    with pytest.raises(regraft.RegraftError, match=r"E102 .*net.py:"):
        regraft.load(f"{exits / 'net.py'}:{name}", ["2x4"])


def test_an_exit_while_a_module_is_imported_is_an_error(exits: Path) -> None:
    with pytest.raises(
        regraft.RegraftError, match=r"E102 the model's code raised SystemExit: 0 - at .*module.py:2"
    ):
        regraft.load(f"{exits / 'module.py'}:Net", ["2x4"])


@pytest.mark.parametrize("name", ["InForward", "Hard", "Second", "AtEnd"])
def test_no_exit_of_a_model_is_the_exit_code_of_verify(name: str, exits: Path) -> None:
    done = ran(["verify", "net.py:Base", f"net.py:{name}", "--input", "2x4"], exits)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr.count("error E") == 1
    assert "Traceback" not in done.stderr or name == "AtEnd"


CELL = """
import sys

import mindspore.nn as nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer = nn.Dense(4, 4)

    def construct(self, x):
        sys.exit(0)
        return self.layer(x)
"""


@pytest.mark.slow
def test_no_exit_of_a_cell_or_of_emitted_source_is_the_exit_code(exits: Path) -> None:
    (exits / "cell.py").write_text(CELL)
    done = ran(["show", "cell.py:Net", "--input", "2x4"], exits)
    assert done.returncode == 2, (done.stdout, done.stderr)
    regraft.save(regraft.load(f"{exits / 'net.py'}:Base", ["2x4"]), exits / "out", to="mindspore")
    emitted = exits / "out" / "model.py"
    text = emitted.read_text()
    for edited in (
        "import sys\nsys.exit(0)\n" + text,
        text.replace("        return ", "        exit(0)\n        return ", 1),
    ):
        emitted.write_text(edited)
        done = ran(["verify", "net.py:Base", "out", "--input", "2x4"], exits)
        assert done.returncode == 2, (done.stdout, done.stderr)
        assert done.stderr.count("error E") == 1


class NotInstalled:
    """A finder by which MindSpore is not installed."""

    def find_spec(self, name: str, *_others: object) -> None:
        if name == "mindspore":
            raise ModuleNotFoundError("No module named 'mindspore'", name=name)


@pytest.mark.parametrize(
    "text", ["import mindspore.nn as nn\nNet = nn.Cell\n", "def Net():\n    import mindspore\n"]
)
def test_a_framework_that_is_not_installed_is_told_with_what_to_install(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "mindspore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NotInstalled(), *sys.meta_path])
    (tmp_path / "net.py").write_text(text)
    with pytest.raises(regraft.RegraftError) as caught:
        regraft.load(f"{tmp_path / 'net.py'}:Net", ["2x4"])
    assert "E105 expected `mindspore` to be installed, got no such module - at " in str(caught.value)
    assert f"net.py:{len(text.splitlines()) if 'def' in text else 1}" in str(caught.value)
    assert 'pip install "regraft[mindspore]"' in str(caught.value)


def test_a_model_may_have_a_chinese_name(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("import torch\nclass 网络(torch.nn.ReLU):\n    pass\n", encoding="utf-8")
    graph = regraft.load(f"{path}:网络", ("2x3",))
    assert graph.modules.root.class_name == "网络"


OLD_CODE = """
from google.protobuf import descriptor
descriptor.FieldDescriptor(
    name="a", full_name="a", index=0, number=1, type=9, cpp_type=9, label=1, has_default_value=False,
    default_value=b"", message_type=None, enum_type=None, containing_type=None, is_extension=False,
    extension_scope=None,
)
"""
"""As an old protoc writes it, and MindSpore before 2.10 imports it."""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (OLD_CODE, "`mindspore` 2.7.0 cannot be imported beside protobuf "),
        ("import mindspore.newer\n", "`mindspore` is installed, but cannot be imported: No module named"),
        (
            "raise ImportError('libgomp.so.1: no such file')",
            "`mindspore` is installed, but cannot be imported: lib",
        ),
    ],
    ids=["code of an old protoc", "no such module", "a library of the system"],
)
@pytest.mark.parametrize("model", ["net", "port"])
def test_a_framework_that_cannot_be_imported_is_told_with_its_version(
    code: str, said: str, model: str, tmp_path: Path
) -> None:
    (tmp_path / "mindspore").mkdir()
    (tmp_path / "mindspore" / "__init__.py").write_text(code)
    (tmp_path / "mindspore-2.7.0.dist-info").mkdir()
    (tmp_path / "mindspore-2.7.0.dist-info" / "METADATA").write_text("Name: mindspore\nVersion: 2.7.0\n")
    (tmp_path / "port.py").write_text("from mindspore import nn\nNet = nn.ReLU\n")
    (tmp_path / "net.py").write_text("import torch\nNet = torch.nn.ReLU\n")
    # MindSpore sets it, where another test has imported it
    kept = {n: v for n, v in os.environ.items() if n != "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"}
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "regraft",
            "rewrite",
            f"{model}.py:Net",
            "--input",
            "2x4",
            "--to",
            "mindspore",
            "-o",
            "out",
        ],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"error E105 {said}" in done.stderr
    assert "Traceback" not in done.stderr
