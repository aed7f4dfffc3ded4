"""What outputs do not show of emitted PyTorch source is compared: ratios, momenta, shared weights, values."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import regraft
from regraft.ir import Graph
from regraft.verification import verify

nn = torch.nn


class Net(nn.Module):
    """Every way to drop, running statistics, and one weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.norm = nn.BatchNorm1d(6, momentum=0.3)
        self.rnn = nn.LSTM(6, 6, num_layers=2, dropout=0.4)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.norm(self.embed(ids).transpose(1, 2))
        x = F.dropout2d(x.unsqueeze(-1), 0.25, self.training).squeeze(-1).transpose(1, 2)
        x = self.rnn(F.dropout(x, 0.1, self.training))[0]
        return self.head(self.drop(x))


UNTIED = "    net.head.weight = nn.Parameter(net.head.weight.detach().clone())\n    return net.to"


@pytest.fixture(scope="module")
def graph() -> Graph:
    torch.manual_seed(0)
    return regraft.load(Net(), (torch.randint(11, (4, 3)),))


@pytest.fixture(scope="module")
def folder(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("emitted") / "net"
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), made, to="torch")
    assert report.passed
    return made


def test_the_folder_as_it_was_written_is_equal(graph: Graph, folder: Path) -> None:
    report = verify(graph, folder, train=True)
    assert report.passed, report.render()
    assert "settings that differ" not in report.render()


@pytest.mark.parametrize(
    ("right", "wrong", "shown"),
    [
        ("nn.Dropout(0.2)", "nn.Dropout(0.3)", "Dropout 0.2 against 0.3: `drop`"),
        ("self.drop(x)", "x", "Dropout 0.2 against none: `drop`"),
        ("p=0.1,", "p=0.2,", "Dropout 0.1 against 0.2: `(root)`"),
        ("p=0.25,", "p=0.2,", "Dropout of channels 0.25 against 0.2: `(root)`"),
        ("dropout=0.4", "dropout=0.5", "Dropout 0.4 against 0.5: `rnn`"),
        ("momentum=0.3", "momentum=0.2", "momentum 0.7 against 0.8: `norm`"),
        ("    return net.to", UNTIED, "2 tensors in the target: `embed.weight`, `head.weight`"),
    ],
)
def test_a_change_of_the_source_is_named(
    right: str, wrong: str, shown: str, graph: Graph, folder: Path
) -> None:
    source = folder / "model.py"
    text = source.read_text()
    assert text.count(right) == 1, text
    try:
        source.write_text(text.replace(right, wrong))
        report = verify(graph, folder, train=True)
    finally:
        source.write_text(text)
    assert not report.passed
    assert shown in report.render()


def test_a_changed_element_is_named_however_small(graph: Graph, folder: Path) -> None:
    path = folder / "model.safetensors"
    kept = path.read_bytes()
    values = load_file(path)
    values["rnn.weight_hh_l1"][0, 0] *= 1 + 2**-23
    try:
        save_file(values, path)
        report = verify(graph, folder)
    finally:
        path.write_bytes(kept)
    assert not report.passed
    assert "`rnn.weight_hh_l1`" in report.render()
