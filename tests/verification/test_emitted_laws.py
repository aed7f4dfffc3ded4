"""Initial distributions of an emitted folder: drawn by its own build(), against what the source states."""

from pathlib import Path

import pytest

import regraft

pytestmark = pytest.mark.xdist_group("mindspore_laws")

NET = """
from torch import nn
from torch.nn.init import normal_, orthogonal_


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 20)
        self.fc = nn.Linear(20, 30)
        self.norm = nn.LayerNorm(30)
        self.head = nn.Linear(30, 8)
        normal_(self.fc.weight, 0, 0.02)
        orthogonal_(self.head.weight)

    def forward(self, x):
        return self.head(self.norm(self.fc(self.embedding(x))))
"""


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """The source's graph and the folder emitted from it."""
    folder = tmp_path_factory.mktemp("laws")
    (folder / "net.py").write_text(NET)
    graph = regraft.load(f"{folder / 'net.py'}:Net", ("2x7:int64",))
    regraft.save(regraft.rewrite(graph).graph, folder / "out", to="mindspore")
    return graph, folder / "out"


def test_the_net_as_constructed_is_the_sources(emitted):
    graph, folder = emitted
    report = regraft.verify(graph, folder, train=True)
    assert report.passed, report.render()
    assert {row.parameter: row.passed for row in report.laws.rows} == {
        "embedding.weight": True,
        "fc.weight": True,
        "fc.bias": True,
        "norm.weight": True,
        "norm.bias": True,
        "head.weight": None,  # whether values are orthogonal, no test of single values tells
        "head.bias": True,
    }
    assert {row.target for row in report.laws.rows} >= {"embedding.embedding_table", "norm.gamma"}


def edited(folder: Path, into: Path, *edits: tuple[str, str]) -> Path:
    """A copy of an emitted folder with edits in its source."""
    for file in (f for f in folder.iterdir() if f.is_file()):  # imported before, it holds bytecode too
        (into / file.name).write_bytes(file.read_bytes())
    text = (into / "model.py").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (into / "model.py").write_text(text)
    return into


@pytest.mark.parametrize(
    "edits",
    [
        [  # constants
            ("embedding_table=Normal(1.0)", 'embedding_table="ones"'),
            ("weight_init=Normal(0.02)", 'weight_init="zeros"'),
            ("bias_init=Uniform(1 / math.sqrt(20))", 'bias_init="zeros"'),
            ("bias_init=Uniform(1 / math.sqrt(30))", "bias_init=Constant(0.1)"),
            ("math\n", "math\nfrom mindspore.common.initializer import Constant\n"),
        ],
        [  # another width, another family, another fan
            ("embedding_table=Normal(1.0)", "embedding_table=Uniform(math.sqrt(3))"),
            ("weight_init=Normal(0.02)", "weight_init=Normal(0.025)"),
            ("bias_init=Uniform(1 / math.sqrt(20))", "bias_init=Uniform(1 / math.sqrt(30))"),
            ("bias_init=Uniform(1 / math.sqrt(30))", "bias_init=Normal(1 / math.sqrt(90))"),
        ],
    ],
    ids=["constants", "others"],
)
def test_every_law_that_is_another_is_found(emitted, tmp_path: Path, edits):
    graph, folder = emitted
    if "Constant" not in str(edits):  # the two edits of biases must not meet
        edits = [*edits[:2], (edits[3][0], edits[3][1]), edits[2]]
    report = regraft.verify(graph, edited(folder, tmp_path, *edits), train=True)
    found = [row.target for row in report.laws.rows if row.passed is False]
    assert found == ["embedding.embedding_table", "fc.weight", "fc.bias", "head.bias"]
    assert report.summary().startswith("DIFFERENT in 4 initial distributions")


def test_a_constant_that_is_drawn_is_found(emitted, tmp_path: Path):
    graph, folder = emitted
    change = (
        "nn.LayerNorm([30], epsilon=1e-05)",
        "nn.LayerNorm([30], gamma_init=Normal(0.02), epsilon=1e-05)",
    )
    report = regraft.verify(graph, edited(folder, tmp_path, change), train=True)
    assert [row.target for row in report.laws.rows if row.passed is False] == ["norm.gamma"]


def test_an_edited_law_is_named_with_what_mends_it(emitted, tmp_path: Path):
    graph, folder = emitted
    edited(folder, tmp_path, ("Normal(0.02)", "Normal(0.05)"))
    report = regraft.verify(graph, tmp_path, train=True)
    assert not report.passed
    assert [row.target for row in report.laws.rows if row.passed is False] == ["fc.weight"]
    text = report.render()
    assert "DIFFERENT in 1 initial distributions" in text
    assert "weight: normal(std=0.02) in the source" in text
    assert "write: weight_init=Normal(0.02)" in text
    assert regraft.verify(graph, tmp_path).passed  # from equal weights it computes the same


SAME_NAMES = """
from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.insert_child_to_cell("a", nn.SequentialCell(nn.Dense(6, 8)))
        self.insert_child_to_cell("b", nn.SequentialCell(nn.Dense(8, 6)))

    def construct(self, x):
        return self.b(self.a(x))
"""


def test_layers_whose_parameters_have_one_name_are_told_apart(tmp_path: Path):
    (tmp_path / "net.py").write_text(SAME_NAMES)
    graph = regraft.load(f"{tmp_path / 'net.py'}:Net", ("2x6",))
    assert len({p.declared for p in graph.parameters()}) == 2
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    assert regraft.verify(graph, tmp_path / "out", train=True).passed
    (tmp_path / "edited").mkdir()
    wrong = edited(tmp_path / "out", tmp_path / "edited", ("Uniform(1 / math.sqrt(8))", "'normal'"))
    report = regraft.verify(graph, wrong, train=True)
    assert {row.parameter: row.passed for row in report.laws.rows} == {
        "a.0.weight": True,
        "a.0.bias": True,
        "b.0.weight": True,
        "b.0.bias": False,
    }
