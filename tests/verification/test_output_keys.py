"""Outputs that both nets name are paired by their names: another order is equal, exchanged keys are not."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import mindspore as ms
import pytest
import torch
from mindspore import nn, ops
from torch import nn as tnn

import regraft
from regraft.verification import Report, verify

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
EXCHANGED = "outputs `a`, `b` against `b`, `a`"


class Pair(NamedTuple):
    """A result with fields."""

    a: object
    b: object


class Turned(NamedTuple):
    """The same fields in the other order."""

    b: object
    a: object


@dataclass
class Record:
    """A result with fields that torch exports once it knows the class."""

    b: torch.Tensor
    a: torch.Tensor


torch.export.register_dataclass(Record)

RESULTS = {
    "a, b": lambda a, b: {"a": a, "b": b},
    "b, a": lambda a, b: {"b": b, "a": a},
    "a, b exchanged": lambda a, b: {"a": b, "b": a},
    "b, a exchanged": lambda a, b: {"b": a, "a": b},
    "fields": lambda a, b: Pair(a, b),
    "fields turned": lambda a, b: Turned(b, a),
    "dataclass": lambda a, b: Record(b, a),
    "tuple": lambda a, b: (a, b),
    "tuple exchanged": lambda a, b: (b, a),
    "lists": lambda a, b: {"a": [a, a + 1], "b": b},
    "lists turned": lambda a, b: {"b": b, "a": [a, a + 1]},
}


class Source(tnn.Module):
    """A layer whose two results are returned in some form."""

    def __init__(self, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.form = tnn.Linear(4, 4), form

    def forward(self, x):
        a = self.layer(x)
        return RESULTS[self.form](a, a.relu() + 1)


class Port(nn.Cell):
    """The same in MindSpore."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.layer, self.form = nn.Dense(4, 4), form

    def construct(self, x):
        a = self.layer(x)
        b = ops.relu(a) + 1
        if self.form == "b, a":
            return {"b": b, "a": a}
        if self.form == "a, b exchanged":
            return {"a": b, "b": a}
        return {"b": a, "a": b}


def compared(source: str, target: str | tnn.Module | nn.Cell, *, train: bool = False) -> Report:
    """The report on a form of the source against a target."""
    other = Source(target) if isinstance(target, str) else target
    example = ms.Tensor(X.numpy()) if isinstance(other, nn.Cell) else X
    graphs = [regraft.load(Source(source), (X,)), regraft.load(other, (example,))]
    return verify(graphs[0], graphs[1], own=True, train=train)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("a, b", "b, a"),
        ("a, b", "fields turned"),
        ("fields", "b, a"),
        ("a, b", "dataclass"),
        ("lists", "lists turned"),
        ("tuple", "tuple"),
    ],
)
def test_the_same_keys_in_another_order_are_equal(source: str, target: str) -> None:
    report = compared(source, target)
    assert report.passed, report
    assert any("their order differs" in note for note in report.notes) == (source != "tuple")


@pytest.mark.parametrize(
    ("source", "target", "cause"),
    [
        ("a, b", "a, b exchanged", EXCHANGED),
        ("a, b", "b, a exchanged", EXCHANGED),
        ("fields", "b, a exchanged", EXCHANGED),
        ("tuple", "tuple exchanged", "outputs `output_0`, `output_1` against `output_1`, `output_0`"),
    ],
)
def test_exchanged_keys_are_named(source: str, target: str, cause: str) -> None:
    report = compared(source, target)
    assert not report.passed
    assert report.nets is not None
    assert [str(row) for row in report.nets.settings] == [cause]


def test_a_wrong_output_among_keys_in_another_order_is_the_one_that_is_named() -> None:
    class Wrong(Source):
        def forward(self, x):
            a = self.layer(x)
            return {"b": (a + 1).relu(), "a": a}

    report = compared("a, b", Wrong(""))
    assert {row.name for row in report.outputs if not row.passed} == {"b"}
    assert report.nets is not None
    assert report.nets.settings
    assert all("`a`" not in str(row) for row in report.nets.settings)


def test_keys_of_a_cell() -> None:
    assert compared("a, b", Port("b, a")).passed
    for form in ("a, b exchanged", "b, a exchanged"):
        report = compared("a, b", Port(form))
        assert not report.passed
        assert report.nets is not None
        assert [str(row) for row in report.nets.settings] == [EXCHANGED]


@pytest.mark.parametrize("port", [Source, Port])
def test_the_loss_of_a_training_step_weighs_outputs_by_key(port: type) -> None:
    assert compared("a, b", port("b, a"), train=True).passed


def test_names_in_an_onnx_file(tmp_path: Path) -> None:
    graphs = {form: regraft.load(Source(form), (X,)) for form in ("a, b", "b, a", "a, b exchanged")}
    files = {}
    for form, graph in graphs.items():
        files[form] = tmp_path / f"{len(files)}.onnx"
        regraft.save(graph, files[form])
    assert verify(graphs["a, b"], files["a, b"]).passed
    assert verify(graphs["a, b"], regraft.load(files["b, a"]), own=True).passed
    assert verify(regraft.load(files["a, b"]), regraft.load(files["b, a"]), own=True).passed
    assert not verify(graphs["a, b"], regraft.load(files["a, b exchanged"]), own=True).passed
