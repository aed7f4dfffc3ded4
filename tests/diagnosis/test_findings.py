"""Each finding on code that has it, and silence on right code that looks alike."""

from pathlib import Path

import pytest

import regraft
from regraft import check_file

MINDSPORE = """
import numpy as np
import mindspore
from mindspore import nn, ops, Parameter, ParameterTuple, Tensor
"""
TORCH = "import torch\nfrom torch import nn\n"


def body(head: str, base: str, init: str, method: str, run: str, before: str = "") -> str:
    return (
        f"{head}\n{before}\nclass Net(nn.{base}):\n    def __init__(self):\n        super().__init__()\n"
        + "".join(f"        {line}\n" for line in init.splitlines())
        + f"\n    def {method}(self, x):\n"
        + "".join(f"        {line}\n" for line in run.splitlines())
    )


def ms(init: str, run: str, *, before: str = "", method: str = "construct") -> str:
    return body(MINDSPORE, "Cell", init, method, run, before)


def torch(init: str, run: str, *, before: str = "", method: str = "forward") -> str:
    return body(TORCH, "Module", init, method, run, before)


BLOCK = "class Block(nn.Cell):\n    def forward(self, x):\n        return x\n"
WEIGHT = "Parameter(Tensor(np.ones((3, 3), np.float32)){})"
LOOP = "for layer in self.layers:\n    x = layer(x)\nreturn x"
PRODUCT = "for w in self.ws:\n    x = x @ w\nreturn x"

FOUND = {
    "forward in a Cell": ("FC101", ms("self.a = nn.Dense(3, 3)", "return self.a(x)", method="forward")),
    "forward in a child": ("FC101", ms("self.a = Block()", "return self.a(x)", before=BLOCK)),
    "construct in a Module": (
        "FC102",
        torch("self.a = nn.Linear(3, 3)", "return self.a(x)", method="construct"),
    ),
    "cells in a list": ("PL101", ms("self.layers = [nn.Dense(3, 3), nn.Dense(3, 3)]", LOOP)),
    "modules in a list": ("PL101", torch("self.layers = [nn.Linear(3, 3), nn.Linear(3, 3)]", LOOP)),
    "modules in a dict": (
        "PL101",
        torch("self.layers = {'a': nn.Linear(3, 3)}", "return self.layers['a'](x)"),
    ),
    "parameters in a list": ("PL102", ms(f"self.ws = [{WEIGHT.format('')}, {WEIGHT.format('')}]", PRODUCT)),
    "torch parameters in a list": ("PL102", torch("self.ws = [nn.Parameter(torch.ones(3, 3))]", PRODUCT)),
    "nameless parameters": ("PN101", ms(f"self.ws = ParameterTuple([{WEIGHT.format('')}])", PRODUCT)),
    "a parameter of another layer": (
        "PN102",
        ms(
            "self.a, self.b = nn.Dense(3, 3), nn.Dense(3, 3)\nself.a.weight = self.b.weight",
            "return self.b(self.a(x))",
        ),
    ),
    "a new parameter of a layer": (
        "PN102",
        ms(f"self.a = nn.Dense(3, 3)\nself.a.weight = {WEIGHT.format('')}", "return self.a(x)"),
    ),
    "a stray layer": ("TL101", ms("nn.Dense(3, 3)\nself.a = nn.ReLU()", "return self.a(x)")),
    "a layer that nothing reads": (
        "TL101",
        torch("down = nn.Linear(3, 3)\nself.a = nn.ReLU()", "return self.a(x)"),
    ),
    "a layer made in each call": (
        "TL102",
        ms("self.a = nn.Dense(3, 3)", "return nn.Dense(3, 3)(self.a(x))"),
    ),
    "a module made in each call": (
        "TL102",
        torch("self.a = nn.Linear(3, 3)", "return nn.Linear(3, 3)(self.a(x))"),
    ),
    "registered twice": ("DM101", ms("self.a = nn.Dense(3, 3)\nself.b = self.a", "return self.b(self.a(x))")),
}

RIGHT = {
    "construct that is forward": ms("self.a = nn.Dense(3, 3)", "return self.forward(x)")
    + "\n    def forward(self, x):\n        return self.a(x)\n",
    "a base class with forward": ms(
        "self.a = nn.Dense(3, 3)",
        "return self.forward(self.a(x))",
        before="class Base(nn.Cell):\n    def forward(self, x):\n        return x\n",
    ).replace("Net(nn.Cell)", "Net(Base)"),
    "a CellList": ms("self.layers = nn.CellList([nn.Dense(3, 3), nn.Dense(3, 3)])", LOOP),
    "a list of registered Cells": ms(
        "self.a = nn.Dense(3, 3)\nself.b = nn.Dense(3, 3)\nself.layers = [self.a, self.b]", LOOP
    ),
    "a list of Cells without parameters": ms("self.layers = [nn.ReLU(), nn.Tanh()]", LOOP),
    "a ModuleList": torch("self.layers = nn.ModuleList([nn.Linear(3, 3)])", LOOP),
    "a list of registered modules": torch("self.a = nn.Linear(3, 3)\nself.layers = [self.a]", LOOP),
    "a frozen teacher in a list": torch(
        "self.a = nn.Linear(3, 3)\nself.teacher = [nn.Linear(3, 3).requires_grad_(False)]", "return self.a(x)"
    ),
    "a layer that lends its code": torch(
        "self.w = nn.Parameter(torch.ones(3, 3))\nself.base = [nn.Linear(3, 3, bias=False, device='meta')]",
        "return torch.func.functional_call(self.base[0], {'weight': self.w}, (x,))",
    ),
    "named parameters": ms(
        f"self.ws = ParameterTuple([{WEIGHT.format(', name=chr(97)')}, {WEIGHT.format(', name=chr(98)')}])",
        PRODUCT,
    ),
    "a parameter tied to the first of its layers": ms(
        "self.a, self.b = nn.Dense(3, 3), nn.Dense(3, 3)\nself.b.weight = self.a.weight",
        "return self.b(self.a(x))",
    ),
    "a parameter named by its attribute": ms(f"self.w = {WEIGHT.format('')}", "return x @ self.w"),
    "a layer made and called": torch("self.a = nn.Linear(3, 3)", "return nn.Softmax(-1)(self.a(x))"),
    "a layer made and returned": torch(
        "self.a = made()",
        "return self.a(x)",
        before="def made():\n    layer = nn.Linear(3, 3)\n    return layer\n",
    ),
    "a stray layer in a function that the net does not use": torch(
        "self.a = nn.Linear(3, 3)", "return self.a(x)", before="def other():\n    nn.Linear(3, 3)\n"
    ),
    "a constructor that is expected to raise": torch(
        "self.a = nn.Linear(3, 3)\ntry:\n    nn.Linear('a', 3)\nexcept TypeError:\n    pass",
        "return self.a(x)",
    ),
    "a SequentialCell that is appended to": ms(
        "self.a = nn.SequentialCell(nn.Dense(3, 3))\nself.a.append(nn.Dense(3, 3))", "return self.a(x)"
    ),
    "an inserted Cell that is called": ms(
        "self.a = nn.SequentialCell(nn.Dense(3, 3))\nself.a.insert_child_to_cell('b', nn.ReLU())",
        "return self.a.b(self.a(x))",
    ),
}


def check(text: str, tmp_path: Path, *, inputs: bool) -> regraft.Findings:
    (tmp_path / "net.py").write_text(text)
    return regraft.check(f"{tmp_path / 'net.py'}:Net", ["2x3"] if inputs else None)


@pytest.mark.parametrize("inputs", [False, True], ids=["static", "with inputs"])
@pytest.mark.parametrize("case", FOUND)
def test_it_is_found_with_place_and_edit(case: str, inputs: bool, tmp_path: Path) -> None:
    code, text = FOUND[case]
    findings = check(text, tmp_path, inputs=inputs)
    worst = [f for f in findings if f.severity != "note"]
    assert [f.code for f in worst] == [code]
    assert worst[0].place
    assert worst[0].advice


@pytest.mark.parametrize("inputs", [False, True], ids=["static", "with inputs"])
@pytest.mark.parametrize("case", RIGHT)
def test_right_code_is_clean(case: str, inputs: bool, tmp_path: Path) -> None:
    findings = check(RIGHT[case], tmp_path, inputs=inputs)
    assert [str(f) for f in findings if f.severity != "note"] == []


def test_what_trains_a_net_is_no_net(tmp_path: Path) -> None:
    text = ms("self.a = nn.Dense(3, 3)", "return self.a(x)") + (
        "\nnet = Net()\nloss = nn.MSELoss()\nopt = nn.Adam(net.trainable_params())"
        "\nstep = nn.TrainOneStepCell(nn.WithLossCell(net, loss), opt)\n"
    )
    path = tmp_path / "train.py"
    path.write_text(text)
    found = check_file(path, ["2x3"])
    assert list(found.models) == ["net"]
    assert found.clean
    told = {name: found.left_out[name] for name in ("loss", "opt", "step")}
    assert told == {"loss": "a loss", "opt": "an optimizer", "step": "a training step"}


KEPT = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.two = nn.Linear(3, 3)
        self.head = nn.Linear(3, 9)

    def forward(self, x):
        return self.head(self.two(self.one(x)))
"""


@pytest.mark.parametrize("inputs", [None, ["2x3"]])
def test_parts_of_a_kept_model_that_are_registered_again_are_one_finding(
    inputs: list[str] | None, tmp_path: Path
) -> None:
    init = "self.base = Base()\nparts = list(self.base.children())\n"
    init += "self.first = nn.Sequential(*parts[:1])\nself.second = parts[1]"
    path = tmp_path / "kept.py"
    path.write_text(torch(init, "return self.second(self.first(x))", before=KEPT))
    found = [c for c in regraft.check(f"{path}:Net", inputs) if c.severity != "note"]
    line = next(n for n, t in enumerate(path.read_text().splitlines(), 1) if "self.base =" in t)
    assert [c.code for c in found] == (["DM101", "DU101"] if inputs else ["DM101"])
    assert found[0].message.startswith("2 modules in `base` are registered again as ")
    assert found[0].place == f"kept.py:{line}"
    assert f"`base = …` in place of `self.base = …` at kept.py:{line}" in found[0].advice
    assert len(found[0].members) == 2


@pytest.mark.parametrize("order", [("first", "base"), ("base", "first")])
def test_of_two_parts_that_hold_the_same_the_one_that_nothing_calls_is_the_cause(
    order: tuple[str, str], tmp_path: Path
) -> None:
    made = {"first": "nn.Sequential(*base.children())", "base": "base"}
    init = "base = Base()\n" + "\n".join(f"self.{name} = {made[name]}" for name in order)
    path = tmp_path / "kept.py"
    path.write_text(torch(init, "return self.first(x)", before=KEPT))
    found = [c for c in regraft.check(f"{path}:Net", ["2x3"]) if c.code == "DM101"]
    assert [c.message for c in found if c.message.startswith("3 modules in `base` are registered again")]
    assert "`base = …` in place of `self.base = …`" in found[0].advice


def test_a_list_that_nothing_calls_says_how_to_call_it(tmp_path: Path) -> None:
    path = tmp_path / "idle.py"
    path.write_text(
        torch("self.a = nn.ModuleList([nn.Linear(3, 3)])\nself.b = nn.Linear(3, 3)", "return self.b(x)")
    )
    found = next(c for c in regraft.check(f"{path}:Net", ["2x3"]) if c.code == "DU101")
    assert "registered at idle.py:8" in found.message
    assert "`for part in self.a: x = part(x)` in `forward` of `Net`" in found.advice


def test_an_exception_of_what_is_found_is_its_symptom(tmp_path: Path) -> None:
    run = "return x * Tensor(float(self.a(x).asnumpy().sum()))"
    path = tmp_path / "drawn.py"
    path.write_text(ms("self.a = nn.Dense(3, 3)", run))
    found = list(regraft.check(f"{path}:Net", ["2x3"]))
    assert [c.code for c in found if c.severity != "note"] == ["NP101"]
    assert any(c.message.startswith("symptom of NP101: ") for c in found)
