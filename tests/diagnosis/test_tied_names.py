"""Which name a shared Parameter has in a checkpoint: found for every way to share it, and named by `fix`."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import pytest

import regraft
from regraft.frontends.python_file import run_file

TWO = "self.a, self.b = nn.Dense(4, 4), nn.Dense(4, 4)\n"
INNER = """
class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Dense(4, 4), nn.Dense(4, 4)
        self.b.weight = self.a.weight
    def construct(self, x):
        return self.b(self.a(x))
"""
HOLDER = """
class Holder(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w
    def construct(self, x):
        return ops.matmul(x, self.w)
"""
CHAIN = "return self.b(self.a(x))"

FORMS = {
    "the first layer keeps its name": (TWO + "self.b.weight = self.a.weight", CHAIN, "", "PN103"),
    "the first layer is called by the second": (TWO + "self.a.weight = self.b.weight", CHAIN, "", "PN102"),
    "by setattr": (TWO + 'setattr(self.a, "weight", self.b.weight)', CHAIN, "", "PN102"),
    "in a loop": (
        "self.a = nn.CellList([nn.Dense(4, 4) for _ in range(3)])\n"
        "for layer in list(self.a)[:2]:\n    layer.weight = self.a[2].weight",
        "return self.a[0](self.a[1](self.a[2](x)))",
        "",
        "PN102",
    ),
    "before the name is given": (
        "self.a, last = nn.Dense(4, 4), nn.Dense(4, 4)\nlast.weight = self.a.weight\n"
        "self.b = nn.SequentialCell([last])",
        CHAIN,
        "",
        "PN102",
    ),
    "in a part, which is named when it is inserted": (
        "self.body = Inner()",
        "return self.body(x)",
        INNER,
        "PN103",
    ),
    "into a part that had a tie": (
        "self.body, self.head = Inner(), nn.Dense(4, 4)\nself.body.a.weight = self.head.weight",
        "return self.head(self.body(x))",
        INNER,
        "PN102 PN102",
    ),
    "one Parameter given to two Cells": (
        'w = ms.Parameter(ms.ops.ones((4, 4)), name="w")\nself.a, self.b = Holder(w), Holder(w)',
        CHAIN,
        HOLDER,
        "PN102",
    ),
    "a name that the user gives": (
        'self.w = ms.Parameter(ms.ops.ones((4, 4)), name="kernel")',
        "return ops.matmul(x, self.w)",
        "",
        "",
    ),
    "one Cell twice": ("self.a = nn.Dense(4, 4)\nself.b = self.a", CHAIN, "", ""),
    "no tie": (TWO, CHAIN, "", ""),
    "values that were copied": (TWO + "self.b.weight.set_data(self.a.weight)", CHAIN, "", ""),
    "short names by auto_prefix": (
        "self.a, self.b = nn.Dense(4, 4), nn.Dense(4, 3, has_bias=False)\nself.b.weight.name = 'other'",
        CHAIN,
        "",
        "",
    ),
}


def written(tmp_path: Path, made: str, body: str, before: str, call: str = "") -> Path:
    lines = "\n        ".join(made.split("\n"))
    file = tmp_path / "net.py"
    file.write_text(
        f"import mindspore as ms\nfrom mindspore import nn, ops\n{before}\n\nclass Net(nn.Cell):\n"
        f"    def __init__(self):\n        super().__init__({call})\n        {lines}\n\n"
        f"    def construct(self, x):\n        {body}\n"
    )
    return file


@pytest.mark.parametrize("form", FORMS)
def test_the_key_of_a_shared_parameter(form: str, tmp_path: Path) -> None:
    made, body, before, codes = FORMS[form]
    call = "auto_prefix=False" if form == "short names by auto_prefix" else ""
    file = written(tmp_path, made, body, before, call)
    found = [f for f in regraft.check(f"{file}:Net") if f.code.startswith("PN")]
    assert " ".join(f.code for f in found) == codes
    net = vars(run_file(str(file)))["Net"]()
    ms.save_checkpoint(net, str(tmp_path / "net.ckpt"))
    keys = ms.load_checkpoint(str(tmp_path / "net.ckpt")).keys()
    for finding in found:
        path = finding.modules[0]
        key = {p: each.name for p, each in net.parameters_and_names()}[path]
        assert key in keys
        assert f"`{key}`" in finding.message
        assert (key == path) is (finding.code == "PN103")
        assert finding.place.startswith("net.py:")


@pytest.mark.parametrize("form", [form for form, row in FORMS.items() if row[3].startswith("PN102")])
def test_fix_names_it_by_its_first_path(form: str, tmp_path: Path) -> None:
    made, body, before, _ = FORMS[form]
    file = written(tmp_path, made, body, before)
    fixed = regraft.fix(f"{file}:Net", "2x4", write=True)
    if form == "one Parameter given to two Cells":  # a note: the names are as MindSpore gives them
        assert not fixed.diff
        return
    assert not fixed.left
    assert fixed.proof[1].startswith("outputs: unchanged, equal")
    net = vars(run_file(str(file)))["Net"]()
    assert [name for name, p in net.parameters_and_names() if p.name != name] == []


def test_the_line_that_leaves_names_short_is_in_the_advice(tmp_path: Path) -> None:
    file = written(tmp_path, "self.a = nn.Dense(4, 4)", "return self.a(x)", "", "auto_prefix=False")
    [note] = [f for f in regraft.check(f"{file}:Net") if f.code == "RP103"]
    assert note.advice == "auto_prefix=True at net.py:7, if a checkpoint names them by their paths"
