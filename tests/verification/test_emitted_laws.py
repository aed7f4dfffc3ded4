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


def test_an_edited_law_is_named_with_what_mends_it(emitted, tmp_path: Path):
    graph, folder = emitted
    for file in (f for f in folder.iterdir() if f.is_file()):  # imported before, it holds bytecode too
        text = file.read_bytes().replace(b"Normal(0.02)", b"Normal(0.05)")
        (tmp_path / file.name).write_bytes(text)
    report = regraft.verify(graph, tmp_path, train=True)
    assert not report.passed
    assert [row.target for row in report.laws.rows if row.passed is False] == ["fc.weight"]
    text = report.render()
    assert "DIFFERENT in 1 initial distributions" in text
    assert "weight: normal(std=0.02) in the source" in text
    assert "write: weight_init=Normal(0.02)" in text
    assert regraft.verify(graph, tmp_path).passed  # from equal weights it computes the same
