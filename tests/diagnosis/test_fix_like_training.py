"""`fix --like` edits ties, frozen parameters, stopped gradients, padded rows and names, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import regraft
from regraft.cli import main

TORCH = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        {body}
"""
MINDSPORE = """
import mindspore as ms
from mindspore import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__({call})
        {made}

    def construct(self, x):
        {body}
"""
LINEAR = "self.a = nn.Linear(4, 4)\nself.b = nn.Linear(4, 4)\n"
DENSE = "self.a = nn.Dense(4, 4)\nself.b = nn.Dense(4, 4)\n"
CHAIN = "return self.b(self.a(x))"
TABLE = "self.table = nn.Embedding(9, 4, padding_idx=2)\nself.fc = nn.Linear(4, 3)"
ROWS = "return self.fc(self.table((x * 4).abs().int()))"
MS_TABLE = "self.table = nn.Embedding(9, 4, embedding_table='normal')\nself.fc = nn.Dense(4, 3)"

EDITS = {
    "a tie": (
        (LINEAR + "self.b.weight = self.a.weight", CHAIN),
        (DENSE, CHAIN),
        ["+        self.b.weight = self.a.weight"],
    ),
    "a tie of a list": (
        (
            "self.a = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])\nself.a[1].weight = self.a[0].weight",
            "return self.a[1](self.a[0](x))",
        ),
        ("self.a = nn.CellList([nn.Dense(4, 4) for _ in range(2)])", "return self.a[1](self.a[0](x))"),
        ["+        self.a[1].weight = self.a[0].weight"],
    ),
    "a module called twice": (
        ("self.a = nn.Linear(4, 4)\nself.b = self.a", CHAIN),
        (DENSE, CHAIN),
        ["+        self.b.weight = self.a.weight", "+        self.b.bias = self.a.bias"],
    ),
    "no tie": (
        (LINEAR, CHAIN),
        (DENSE + "self.b.weight = self.a.weight", CHAIN),
        ["-        self.b.weight = self.a.weight"],
    ),
    "frozen": (
        (LINEAR + "self.a.requires_grad_(False)", CHAIN),
        (DENSE, CHAIN),
        [
            "+        for part in (self.a,):",
            "+            for parameter in part.get_parameters():",
            "+                parameter.requires_grad = False",
        ],
    ),
    "trained": (
        (LINEAR, CHAIN),
        (DENSE + "self.a.bias.requires_grad = False", CHAIN),
        ["-        self.a.bias.requires_grad = False"],
    ),
    "trained, where a loop freezes": (
        (LINEAR, CHAIN),
        (DENSE + "for p in self.a.get_parameters():\n    p.requires_grad = False", CHAIN),
        ["+        self.a.weight.requires_grad = True", "+        self.a.bias.requires_grad = True"],
    ),
    "a stopped gradient before a layer": (
        (LINEAR, "return self.b(self.a(x).relu().detach()) + x"),
        (DENSE, "return self.b(ops.relu(self.a(x))) + x"),
        [
            "-        return self.b(ops.relu(self.a(x))) + x",
            "+        return self.b(ops.stop_gradient(ops.relu(self.a(x)))) + x",
        ],
    ),
    "a stopped gradient behind a layer": (
        (LINEAR, "return self.b(x) * self.a(x).detach()"),
        (DENSE, "return self.b(x) * self.a(x)"),
        ["-        return self.b(x) * self.a(x)", "+        return self.b(x) * ops.stop_gradient(self.a(x))"],
    ),
    "no stopped gradient": (
        (LINEAR, CHAIN),
        (DENSE, "return self.b(ops.stop_gradient(self.a(x)))"),
        ["-        return self.b(ops.stop_gradient(self.a(x)))", "+        return self.b(self.a(x))"],
    ),
    "a padded row": (
        (TABLE, ROWS),
        (MS_TABLE, "ids = ops.cast(ops.abs(x * 4), ms.int32)\nx = self.table(ids)\nreturn self.fc(x)"),
        [
            "-        x = self.table(ids)",
            "+        rows = self.table(ids)",
            "+        x = ops.where((ids == 2).expand_dims(-1), ops.stop_gradient(rows), rows)",
        ],
    ),
    "a padded row inside an expression": (
        (TABLE, ROWS),
        (MS_TABLE, "return self.fc(self.table(ops.cast(ops.abs(x * 4), ms.int32)))"),
        [
            "-        return self.fc(self.table(ops.cast(ops.abs(x * 4), ms.int32)))",
            "+        ids = ops.cast(ops.abs(x * 4), ms.int32)",
            "+        rows = self.table(ids)",
            "+        return self.fc(ops.where((ids == 2).expand_dims(-1), ops.stop_gradient(rows), rows))",
        ],
    ),
    "short names": (
        ("self.a = nn.Linear(4, 4)", "return self.a(x)"),
        ("self.a = nn.Dense(4, 4)", "return self.a(x)", "auto_prefix=False"),
        ["-        super().__init__(auto_prefix=False)", "+        super().__init__(auto_prefix=True)"],
    ),
}


def write_pair(tmp_path: Path, reference: tuple[str, ...], port: tuple[str, ...]) -> tuple[Path, Path]:
    files = tmp_path / "reference.py", tmp_path / "port.py"
    for file, text, (made, body, *call) in zip(files, (TORCH, MINDSPORE), (reference, port), strict=True):
        parts = {"made": made.strip(), "body": body, "call": "".join(call)}
        file.write_text(text.format(**{n: p.replace("\n", "\n        ") for n, p in parts.items()}))
    return files


@pytest.mark.parametrize("kind", EDITS)
def test_the_edit_is_made_and_proved(kind: str, tmp_path: Path) -> None:
    reference, port, edit = EDITS[kind]
    files = write_pair(tmp_path, reference, port)
    fixed = regraft.fix(f"{files[1]}:Net", "2x4", like=f"{files[0]}:Net", write=True)
    assert fixed.proof[-1].startswith("outputs: those of ")
    assert not fixed.left
    changed = [
        line for line in fixed.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    laws = ("initializer", "nn.Embedding")  # of an Embedding, whose initial distribution is another one
    assert [line for line in changed if not any(word in line for word in laws)] == edit
    again = regraft.fix(f"{files[1]}:Net", "2x4", like=f"{files[0]}:Net", write=True)
    assert (again.diff, again.left) == ("", [])


LEFT = {
    "two stopped gradients": (
        (LINEAR, "return self.b(self.a(x).detach()) + self.a(x).detach()"),
        (DENSE, "return self.b(self.a(x)) + self.a(x)"),
        "stop_gradient",
    ),
    "a tie of two classes' making": (
        (LINEAR, CHAIN),
        (DENSE + "for layer in (self.b,):\n    layer.weight = self.a.weight", CHAIN),
        "a parameter of its own for `b.weight`",
    ),
    "a missing layer": (
        (f"{LINEAR}self.c = nn.Linear(4, 4)", "return self.c(self.b(self.a(x)))"),
        (DENSE, CHAIN),
        "call `self.c`",
    ),
    "another architecture": (
        ("self.a = nn.Linear(4, 8)\nself.b = nn.Linear(8, 4)", "return self.b(torch.tanh(self.a(x)))"),
        (DENSE, "return ops.relu(self.b(self.a(x)) + x)"),
        "out_channels 8 against 4",
    ),
    "a branch that the values decide": (
        (LINEAR, "y = self.a(x)\nreturn torch.cond(y.sum() > 0, lambda t: self.b(t), lambda t: t * 2, (y,))"),
        (DENSE, CHAIN),
        "differs from the reference",
    ),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_no_edit_mends_is_left_with_exit_1(kind: str, tmp_path: Path) -> None:
    reference, port, text = LEFT[kind]
    files = [f"{file}:Net" for file in write_pair(tmp_path, reference, port)]
    before = (tmp_path / "port.py").read_text()
    run = CliRunner().invoke(main, ["fix", files[1], "--like", files[0], "--input", "2x4"])
    assert run.exit_code == 1, run.output
    assert "nothing to fix" not in run.output
    assert text in run.output
    assert (tmp_path / "port.py").read_text() == before
    compared = CliRunner().invoke(main, ["verify", files[0], files[1], "--input", "2x4", "--train"])
    assert compared.exit_code == 1
    assert compared.output.startswith("DIFFERENT")


@pytest.mark.parametrize("kind", ["a tie", "frozen"])
def test_a_statement_uses_the_name_that_the_constructor_gives_its_object(kind: str, tmp_path: Path) -> None:
    reference, port, edit = EDITS[kind]
    files = write_pair(tmp_path, reference, port)
    made, method = files[1].read_text().split("    def construct")
    files[1].write_text(f"{made.replace('self', 'this')}    def construct{method}")
    fixed = regraft.fix(f"{files[1]}:Net", "2x4", like=f"{files[0]}:Net", write=True)
    assert not fixed.left
    added = [line for line in fixed.diff.splitlines() if line[:1] == "+" and line[:3] != "+++"]
    assert added == [line.replace("self", "this") for line in edit]
