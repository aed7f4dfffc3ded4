"""`fix --like` writes in methods what `verify` names there, and constructs layers of other classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import regraft
from regraft.cli import main
from regraft.verification.causes.hosts import TorchHost
from regraft.verification.causes.rewriting import rewritten
from regraft.verification.causes.tape import Record, Site

REFERENCE = """
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.SiLU()

    def forward(self, x):
        y = F.softmax(self.fc(x), 1)
        z = torch.std(y, 2, keepdim=True)
        return self.act(F.gelu(y - z) + x)
"""
PORT = """
from mindspore import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.act = nn.GELU()

    def construct(self, x):
        y = ops.softmax(self.fc(x))  # the classes
        z = ops.std(y, 2, keepdims=True)
        return self.act(ops.relu((y - z)) + x)
"""
FIXED = PORT.replace("nn.GELU()", "nn.SiLU()").replace("self.fc(x))", "self.fc(x), axis=1)")
FIXED = FIXED.replace("keepdims=True)", "keepdims=True, ddof=1)").replace("ops.relu", "ops.gelu")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "port.py").write_text(PORT)
    return tmp_path / "reference.py", tmp_path / "port.py"


def test_calls_in_construct_get_the_references_arguments(files: tuple[Path, Path]) -> None:
    reference, port = files
    args = ["fix", f"{port}:Net", "--like", f"{reference}:Net", "--input", "2x3x4"]
    result = CliRunner().invoke(main, args)
    assert port.read_text() == FIXED, result.output
    assert result.exit_code == 0, result.output
    assert regraft.verify(f"{reference}:Net", f"{port}:Net", ["2x3x4"]).passed


WORDS = [
    ("x - y", "-", "`+` in place of `-`", "x + y"),
    ("x - y", "-", "the operands exchanged", "y - x"),
    ("x < y", "<", "`<=` in place of `<`", "x <= y"),
    ("x * 2.0", "*", "0.5 in place of 2.0", "x * 0.5"),
    ("x * 2.0", "*", "`x` in place of `x * 2.0`", "x"),
    ("x[:, 0]", "[]", "[:, -1]", "x[:, -1]"),
    ("ops.relu(x)", "ops.relu", "no `ops.relu`", "x"),
    ("ops.relu(x + 1)", "ops.relu", "`ops.gelu` in place of `ops.relu`", "ops.gelu(x + 1)"),
    ("ops.relu(x)", "ops.relu", "`ops.relu` * 0.5", "ops.relu(x) * 0.5"),
    ("x @ y", "@", "y.permute(1, 0) in place of y", "x @ y.permute(1, 0)"),
    ("x @ y", "@", "`y.mT` in place of `y`", "x @ y.mT"),
    ("ops.relu(x)", "ops.relu", "what the source computes at the end", ""),
]


@pytest.mark.parametrize(("now", "called", "write", "wanted"), WORDS)
def test_remedies_in_words_are_written_as_expressions(
    now: str, called: str, write: str, wanted: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.py"
    path.write_text(f"def forward(x, y):\n    return {now}\n")
    operands = tuple(part for part in ("x", "y", "2.0") if part in now)[:2]
    if called == "ops.relu":
        operands = (now[len("ops.relu(") : -1],)
    site = Site(str(path), 2, called, "", operands, (2, 11, 2, 11 + len(now)))
    kind = "call" if called == "ops.relu" else "operator"
    found = rewritten(Record(site, kind, None, called, (), {}, []), write, TorchHost())
    assert ("" if found is None else found.text) == wanted
