"""`fix` edits the user's own file, and proves the edit before it writes."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import regraft
from regraft import fix
from regraft.cli import main
from regraft.diagnosis.editing import Edit, apply_edits
from tests.diagnosis.scripts import APPENDED, POSTED, parent, script

INPUT = ["2x1x16x16"]


def written(tmp_path: Path, text: str, name: str = "grown.py") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_script_as_posted_runs_after_it_and_equals_the_right_one(tmp_path: Path) -> None:
    path = written(tmp_path, POSTED)
    right = written(tmp_path, script(APPENDED), "right.py")
    fixed = fix(f"{path}:net", INPUT, like=f"{right}:net")
    assert {c.code for c in fixed.solved} == {"RP101", "FC101", "SI101"}
    assert [c.code for c in fixed.left] == ["TL101"]
    assert fixed.proof[0] == "names: unique"
    assert "equal" in fixed.proof[1]
    assert path.read_text() == script(APPENDED, stray="nn.Conv2d(before, width, 1)")
    assert fixed.backup is not None
    assert fixed.backup.read_text() == POSTED
    assert sorted(p.name for p in tmp_path.glob("*.py*")) == ["grown.py", "grown.py.orig", "right.py"]
    subprocess.run([sys.executable, path.name], cwd=tmp_path, check=True, capture_output=True)


def test_a_cell_around_the_groups_keeps_its_outputs_and_comments(tmp_path: Path) -> None:
    text = parent(inserted=True).replace("self.stem = stem", "self.stem = stem  # as it is")
    path = written(tmp_path, text)
    fixed = fix(f"{path}:net", INPUT)
    assert fixed.proof[1].startswith("outputs: unchanged, equal")
    assert path.read_text() == parent(inserted=False).replace(
        "self.stem = stem", "self.stem = stem  # as it is"
    )


def test_diff_writes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, parent(inserted=True))
    shown = CliRunner().invoke(main, ["fix", f"{path}:net", "--diff"])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[0] == "1 finding would be solved, 0 left"
    assert "+        self.group1 = group(4, 4, 2, first=True)" in shown.stdout
    assert [p.name for p in tmp_path.glob("*.py*")] == ["grown.py"]


@pytest.mark.usefixtures("without_search")
def test_an_edit_that_does_not_equal_its_reference_is_not_written(tmp_path: Path) -> None:
    path = written(tmp_path, POSTED)
    other = written(
        tmp_path, script(APPENDED).replace("nn.ReLU(),\n)", "nn.ReLU(),\n    nn.Tanh(),\n)"), "other.py"
    )
    with pytest.raises(regraft.RegraftError):
        fix(f"{path}:net", INPUT, like=f"{other}:net")
    assert path.read_text() == POSTED
    assert not list(tmp_path.glob("*.orig*"))


def test_a_reference_needs_inputs_to_be_compared_with(tmp_path: Path) -> None:
    path = written(tmp_path, POSTED)
    found = CliRunner().invoke(main, ["fix", f"{path}:net", "--like", f"{path}:net"])
    assert found.exit_code == 2
    assert "E001 expected inputs with --like" in found.stderr
    assert "hint: --input" in found.stderr
    assert path.read_text() == POSTED


def test_a_right_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, script(APPENDED))
    fixed = fix(f"{path}:net", INPUT)
    assert (fixed.diff, fixed.left, fixed.backup) == ("", [], None)
    assert path.read_text() == script(APPENDED)


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        ("net.insert_child_to_cell('a', f(1,))  # why\n", Edit("assign", 1), "net.a = f(1,)  # why\n"),
        ("net.insert_child_to_cell(\n    'a',\n    f(),\n)\n", Edit("assign", 2), "net.a = f()\n"),
        ("net.insert_child_to_cell(n, f())\n", Edit("assign", 1), "setattr(net, n, f())\n"),
        ("net.insert_child_to_cell('1', f())\n", Edit("assign", 1), "setattr(net, '1', f())\n"),
        (
            "def f(self):\n    self.a.w = self.b.w  # why\n    return 1\n",
            Edit("behind", 2, new='self.a.w.name = "a.w"'),
            'def f(self):\n    self.a.w = self.b.w  # why\n    self.a.w.name = "a.w"\n    return 1\n',
        ),
        ("net.insert_child_to_cell(n, f())\n", Edit("append", 1), "net.append(f())\n"),
        (
            "class A:\r\n  def forward(self):\r\n    return super().forward(), x.forward()\r\n",
            Edit("rename", 2, "forward", "construct"),
            "class A:\r\n  def construct(self):\r\n    return super().construct(), x.forward()\r\n",
        ),
        (
            "self.a = [1, # one\n  2]\n",
            Edit("wrap", 1, "a", "nn.CellList"),
            "self.a = nn.CellList([1, # one\n  2])\n",
        ),
        (
            "self.w = Tuple([nn.Parameter(f(i)) for _ in range(2)])  # why\n",
            Edit("name", 1, "w"),
            'self.w = Tuple([nn.Parameter(f(i), name=f"w{n}") for n in range(2)])  # why\n',
        ),
        (
            "self.w = [Parameter(a), Parameter(b, requires_grad=False)]\n",
            Edit("name", 1, "w"),
            'self.w = [Parameter(a, name="w0"), Parameter(b, requires_grad=False, name="w1")]\n',
        ),
        (
            "m.w.set_data(initializer('normal', m.w.shape,  m.w.dtype))  # why\n",
            Edit("draw", 1, new="layer.w.set_data(initializer(Zero(), layer.w.shape))", span=(1, 0, 1, 58)),
            "m.w.set_data(initializer(Zero(), m.w.shape,  m.w.dtype))  # why\n",
        ),
        (
            "init.normal_(m.w.data, 0, 0.1)  # why\n",
            Edit("draw", 1, new="nn.init.zeros_(layer.w)", span=(1, 0, 1, 30)),
            "init.zeros_(m.w.data)  # why\n",
        ),
        (
            "if x:\n    self.a = torch.nn.Linear(1, 2)  # why\n",
            Edit("after", 2, new="nn.init.normal_(layer.bias, 0, 1)", span=(2, 13, 2, 34)),
            "if x:\n    self.a = torch.nn.Linear(1, 2)  # why\n"
            "    torch.nn.init.normal_(self.a.bias, 0, 1)\n",
        ),
    ],
)
def test_an_edit_keeps_everything_else(before: str, edit: Edit, after: str) -> None:
    assert apply_edits(before.encode(), [edit]) == (after.encode(), [edit])


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("self.w = [Parameter(a, 'w')]\n", Edit("name", 1, "w")),
        ("self.w = [Parameter(a) for a in b]\n", Edit("name", 1, "w")),
        ("m.w.data.normal_(0, 1)\n", Edit("draw", 1, new="nn.init.zeros_(layer.w)", span=(1, 0, 1, 22))),
        ("a = f(nn.Linear(1, 2))\n", Edit("after", 1, new="nn.init.zeros_(layer.w)", span=(1, 6, 1, 21))),
    ],
)
def test_what_is_written_otherwise_stays(text: str, edit: Edit) -> None:
    assert apply_edits(text.encode(), [edit]) == (text.encode(), [])


def test_a_tuple_of_parameters_and_a_dict_of_cells_are_made_from_plain_ones(tmp_path: Path) -> None:
    text = """
import numpy as np
import mindspore as ms
from mindspore import nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.ws = [ms.Parameter(ms.Tensor(np.eye(3, dtype=np.float32))) for _ in range(2)]
        self.heads = {"a": nn.Dense(3, 2)}  # one for now

    def construct(self, x):
        for w in self.ws:
            x = ops.matmul(x, w)
        return self.heads["a"](x)
"""
    path = written(tmp_path, text, "plain.py")
    fixed = fix(f"{path}:Net", ["2x3"])
    assert fixed.left == []
    assert fixed.proof[1].startswith("outputs: unchanged, equal")
    new = path.read_text()
    assert 'self.heads = nn.CellDict({"a": nn.Dense(3, 2)})  # one for now' in new
    assert "self.ws = ms.ParameterTuple([ms.Parameter(" in new
    assert 'name=f"ws{i}") for i in range(2)])' in new


@pytest.mark.parametrize(
    "text", ["net.insert_child_to_cell(*pair)\n", "x = net.insert_child_to_cell('a', b)\n", "# c\n"]
)
def test_what_is_not_understood_stays(text: str) -> None:
    assert apply_edits(text.encode(), [Edit("assign", 1)]) == (text.encode(), [])


def test_a_parameter_of_another_layer_gets_the_name_of_its_place(tmp_path: Path) -> None:
    """Then a checkpoint that calls it so is loaded."""
    path = written(
        tmp_path,
        "from mindspore import nn\n\n\nclass Net(nn.Cell):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Dense(6, 6, has_bias=False)\n        self.b = nn.Dense(6, 6, has_bias=False)\n"
        "        self.a.weight = self.b.weight\n\n    def construct(self, x):\n"
        "        return self.b(self.a(x))\n",
    )
    fixed = fix(f"{path}:Net", ["2x6"])
    assert [c.code for c in fixed.solved] == ["PN102"]
    assert fixed.solved[0].place == "grown.py:9"
    assert "is called `b.weight`" in fixed.solved[0].message
    assert (
        '        self.a.weight = self.b.weight\n        self.a.weight.name = "a.weight"\n' in path.read_text()
    )
    assert fixed.proof[1].startswith("outputs: unchanged, equal")
    [parameter] = regraft.load_tree(f"{path}:Net").parameters()
    assert parameter.declared == "a.weight"


def test_a_name_is_given_by_what_the_constructor_calls_its_object(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "from mindspore import nn\n\n\nclass Net(nn.Cell):\n"
        "    def __init__(this):\n        super().__init__()\n"
        "        this.a = nn.Dense(6, 6, has_bias=False)\n        this.b = nn.Dense(6, 6, has_bias=False)\n"
        '        setattr(this.a, "weight", this.b.weight)\n\n    def construct(self, x):\n'
        "        return self.b(self.a(x))\n",
    )
    [finding] = [c for c in regraft.check(f"{path}:Net", ["2x6"]) if c.code == "PN102"]
    assert '`this.a.weight.name = "a.weight"`' in finding.advice


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nn.Dropout(0.1)", "nn.Dropout(p=0.3)"),
        ("nn.Dropout(keep_prob=0.1)", "nn.Dropout(p=0.3)"),
        ("nn.Dropout(keep_prob=0.9, p=0.2)", "nn.Dropout(p=0.3)"),
        ("nn.Dropout(0.9, p=0.2)", "nn.Dropout(p=0.3)"),
        ("nn.Dropout(0.1, dtype=ms.float16)", "nn.Dropout(p=0.3, dtype=ms.float16)"),
        ("nn.Dropout(0.1, 0.2)", "nn.Dropout(0.1, 0.3)"),
        ("nn.Dropout(p=0.2)", "nn.Dropout(p=0.3)"),
        ("nn.Dropout()", "nn.Dropout(p=0.3)"),
        ("nn.Dropout(*given)", "nn.Dropout(*given)"),
    ],
)
def test_an_argument_takes_the_place_of_one_that_says_the_same(before: str, after: str) -> None:
    span = (1, 7, 1, 7 + len(before))
    edit = Edit("argument", 1, "p", "0.3", span, 1, ("keep_prob", 0))
    assert apply_edits(f"drop = {before}\n".encode(), [edit])[0] == f"drop = {after}\n".encode()


def test_places_behind_a_starred_argument_are_not_known() -> None:
    text = b"conv = nn.Conv2d(*sizes, 3, 1)\n"
    assert apply_edits(text, [Edit("argument", 1, "kernel_size", "5", (1, 7, 1, 30), 1)]) == (text, [])
