"""Lists, tuples and dicts of tensors, spelled on the command line by their parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from regraft.cli import main
from regraft.frontends.inputs import with_nests
from regraft.ir import UsageError

ARGUMENTS = {
    "x": "",
    "feats": "typing.List[torch.Tensor]",
    "pair": "tuple[int, int]",
    "batch": "dict",
    "past": "",
}

SPELLINGS = {
    "nothing nested": (["x", ""], [("x", 0), ("", 1)]),
    "a list": (["feats.0", "feats.1"], [("feats", [0, 1])]),
    "a list, the other way round": (["feats.1", "x", "feats.0"], [("feats", [2, 0]), ("x", 1)]),
    "a list by the graph's names": (["feats_0", "feats_1"], [("feats", [0, 1])]),
    "a tuple": (["pair.0", "pair.1"], [("pair", (0, 1))]),
    "a dict": (["batch.mask", "batch.image"], [("batch", {"mask": 0, "image": 1})]),
    "two deep": (["past.0.0", "past.0.1", "past.1.0"], [("past", ((0, 1), (2,)))]),
    "two deep by the graph's names": (["past_0_0", "past_0_1"], [("past", ((0, 1),))]),
    "lists in a dict": (["batch.boxes.0", "batch.boxes.1"], [("batch", {"boxes": (0, 1)})]),
    "what is no argument": (["input.1", "y_0"], [("input.1", 0), ("y_0", 1)]),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_parts_make_a_nest(name: str) -> None:
    names, expected = SPELLINGS[name]
    assert with_nests([(n, i) for i, n in enumerate(names)], ARGUMENTS, tuple) == expected


@pytest.mark.parametrize(
    "names", [["feats.0", "feats.2"], ["feats.0", "feats.first"], ["past.0", "past.0.1"], ["x.0", "x.0"]]
)
def test_parts_with_a_gap_or_twice_are_refused(names: list[str]) -> None:
    with pytest.raises(UsageError, match="E001 expected the parts of an input"):
        with_nests([(n, i) for i, n in enumerate(names)], ARGUMENTS, list)


TORCH = """
import typing, torch
from torch import nn

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(n, 4) for n in (3, 5))

    def forward(self, feats: typing.List[torch.Tensor], batch=None):
        assert isinstance(feats, list)
        a, b = [layer(x) for layer, x in zip(self.layers, feats)]
        return a + b * batch["scale"]
"""

MINDSPORE = """
from mindspore import nn

class Pair(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer = nn.Dense(3, 4)

    def construct(self, x, past):
        return self.layer(x) + past[0] * past[1][0]
"""

COMMANDS = {
    "torch": (TORCH, "Head", ["feats.0=2x3", "feats.1=2x5", "batch.scale=1:float32[1,5)"]),
    "torch by the graph's names": (TORCH, "Head", ["feats_0=2x3", "feats_1=2x5", "batch.scale=1"]),
    "mindspore": (MINDSPORE, "Pair", ["x=2x3", "past.0=2x4", "past.1.0=2x4"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_nest_is_given_on_the_command_line(name: str, tmp_path: Path) -> None:
    text, model, inputs = COMMANDS[name]
    (tmp_path / "net.py").write_text(text)
    given = [word for spec in inputs for word in ("--input", spec)]
    out = str(tmp_path / "net.onnx")
    found = CliRunner().invoke(
        main, ["rewrite", f"{tmp_path}/net.py:{model}", *given, "--to", "onnx", "-o", out]
    )
    assert found.exit_code == 0, found.output
    assert found.output.startswith("equal")


def test_too_many_inputs_name_the_spelling(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(TORCH)
    given = ["--input", "2x3", "--input", "2x5", "--input", "1"]
    found = CliRunner().invoke(main, ["check", f"{tmp_path}/net.py:Head", *given])
    assert found.exit_code == 2
    assert "--input feats.0=SHAPE --input feats.1=SHAPE" in found.output
