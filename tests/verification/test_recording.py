"""Emitted tests: they run in plain pytest, hold for the emitted net, and fail when it is changed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import UsageError
from regraft.verification import recording

from ..corpora.mxnet import gluon

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x, y):
        return torch.tanh(self.fc(x) - y), self.fc(y) * 20


class Choose(nn.Module):
    """A block with two inputs and two outputs, called twice; an integer output."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = Mix()

    def forward(self, x, y):
        x, y = self.mix(y, x)
        x, y = self.mix(x, y)
        return x, y.argmax(1)


class Enlarge(nn.Module):
    def forward(self, x):
        return nn.functional.interpolate(x, scale_factor=16.0, mode="nearest") * 2


class Large(nn.Module):
    """A class whose every call is too large to record, and one whose first call is."""

    def __init__(self) -> None:
        super().__init__()
        self.enlarge = Enlarge()
        self.convs = nn.ModuleList([nn.Sequential(Mean(2)), nn.Sequential(Mean(16))])

    def forward(self, x):
        return self.convs[1](self.enlarge(self.convs[0](x)))


class Mean(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(size)

    def forward(self, x):
        return self.pool(x) - 1


def write(model: object, inputs: object, folder: Path, passes: list[str] | None = None) -> str:
    """Emit a model with tests; returns the text of the tests."""
    graph = regraft.load(model, inputs)
    chosen = None if passes is None else [*regraft.default_pipeline(), *map(regraft.parse_pass, passes)]
    files, _ = regraft.rewrite_file(
        graph, regraft.rewrite(graph, chosen), folder, "mindspore", emit_tests=True
    )
    assert {f.name for f in files} == {p.name for p in folder.iterdir()}
    return (folder / "test_model.py").read_text(encoding="utf-8")


def outcome(folder: Path, *options: str) -> dict[str, str]:
    """Test -> PASSED or FAILED, of plain pytest in the folder, where regraft is not to be found."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    found = dict(re.findall(r"^test_model\.py::(\S+) (PASSED|FAILED)", done.stdout, re.MULTILINE))
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.slow
def test_holds_in_both_modes_and_fails_on_a_changed_class(tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder = tmp_path / "net"
    text = write(Choose(), (torch.randn(2, 6), torch.randn(2, 6)), folder)
    for check in (["format", "--check"], ["check"]):
        subprocess.run([sys.executable, "-m", "ruff", *check, "--isolated", folder], check=True)
    assert "seed 0" in text
    assert f"PyTorch {torch.__version__}" in text
    tests = [f"{name}[{mode}]" for mode in ("pynative", "graph") for name in ("test_mix", "test_choose")]
    assert outcome(folder) == dict.fromkeys(tests, "PASSED")

    source = (folder / "model.py").read_text(encoding="utf-8")
    (folder / "model.py").write_text(source.replace("* 20.0", "* 20.01"), encoding="utf-8")
    changed = outcome(folder, "-k", "mix")
    assert changed == {"test_mix[pynative]": "FAILED", "test_mix[graph]": "FAILED"}


@pytest.mark.slow
def test_source_with_a_twin(tmp_path: Path) -> None:
    """The source of a twin is the rewritten graph, in ONNX Runtime."""
    folder = tmp_path / "twin"
    passes = ["tie-weights:twin=data+data2"]
    text = write(EXAMPLES / "shared_weight-symbol.json", {"data": "2x1x3x3"}, folder, passes)
    assert "ONNX Runtime" in " ".join(text.split())  # wherever the line of a long path is broken
    assert set(outcome(folder).values()) == {"PASSED"}


@pytest.mark.slow
def test_classes_that_a_pass_made_of_a_flat_source(tmp_path: Path) -> None:
    """A symbol has no modules: what enters and leaves the classes are values of its nodes."""
    symbol = gluon.resnet_v1([2, 2], bottleneck=False).write(tmp_path, "resnet")
    folder = tmp_path / "net"
    text = write(str(symbol), ("2x3x16x16",), folder)
    assert '"""BasicBlock: the part of the source that is `stage1.0` here."""' in text
    assert "no test of its own" not in text
    assert outcome(folder, "-k", "pynative") == {
        "test_basic_block[pynative]": "PASSED",
        "test_resnet[pynative]": "PASSED",
    }


@pytest.mark.slow
def test_large_calls_shrink_or_are_left_out(tmp_path: Path) -> None:
    text = write(Large(), ("2x3x160x160",), tmp_path / "net")
    assert "N=1;" in text
    assert "`Enlarge` has no test of its own: its calls hold" in " ".join(text.split())
    with np.load(tmp_path / "net" / "test_model.npz", allow_pickle=False) as values:
        assert {key.partition(".")[0] for key in values} == {"Mean", "Large"}
        assert sum(values[key].nbytes for key in values) < 2 * recording.LIMIT
        assert values["Mean.input0"].shape == (1, 3, 160, 160)


def test_refuses_what_nothing_was_recorded_for(tmp_path: Path) -> None:
    graph = regraft.load(Mix(), ("2x6", "2x6"))
    rewritten = regraft.rewrite(graph)
    with pytest.raises(UsageError, match="expected a verified output for one of"):
        regraft.rewrite_file(graph, rewritten, tmp_path / "net", "mindspore", verified=False, emit_tests=True)
    with pytest.raises(UsageError, match="got `onnx`"):
        regraft.rewrite_file(graph, rewritten, tmp_path / "net.onnx", emit_tests=True)
    assert not list(tmp_path.iterdir())


def test_replaces_no_file_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text("mine")
    graph = regraft.load(Mix(), ("2x6", "2x6"))
    with pytest.raises(UsageError, match="exists already"):
        regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path, "mindspore", emit_tests=True)
    assert [p.name for p in tmp_path.iterdir()] == ["test_model.py"]
    assert (tmp_path / "test_model.py").read_text() == "mine"
