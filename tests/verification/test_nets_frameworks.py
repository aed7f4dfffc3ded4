"""Two nets written apart, of every pair of frameworks, and the example: a hand-written port of a ResNet."""

import json
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regraft
from regraft.cli import main
from regraft.frontends.python_file import load_object

nn = ms.nn

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SOURCE, TARGET = (str(EXAMPLES / f"cifar_resnet_{name}.py") for name in ("torch", "mindspore"))


def test_hand_written_resnet_starts_elsewhere() -> None:
    """The report names exactly the convolutions, and what mends them; without --train they are told only."""
    call = ["verify", f"{SOURCE}:small", f"{TARGET}:small", "--input", "2x3x32x32"]
    result = CliRunner().invoke(main, [*call, "--json"])
    assert result.exit_code == 0, result.output
    nets = json.loads(result.stdout)["nets"]
    wrong = [row for row in nets["laws"] if row["passed"] is False]
    convolutions = {
        path for path, cell in load_object(f"{TARGET}:small").cells_and_names() if isinstance(cell, nn.Conv2d)
    }
    assert {row["layer"] for row in wrong} == convolutions
    assert len(wrong) == len(convolutions) == 17
    assert {row["remedy"] for row in wrong} == {"weight_init=HeUniform(math.sqrt(5))"}
    assert nets["only_source"] == nets["only_target"] == []
    pairs = {row["source"]: row["target"] for row in nets["pairs"]}
    assert pairs["layer1.0.downsample.0.weight"] == "layer1.0.shortcut.0.weight"
    assert pairs["layer1.0.conv3.weight"] == "layer1.0.conv3.weight"
    assert pairs["bn1.running_var"] == "conv_block1.norm.moving_variance"


@pytest.mark.slow
def test_hand_written_resnet50() -> None:
    report = regraft.verify(f"{SOURCE}:resnet50", f"{TARGET}:resnet50", ["2x3x32x32"])
    assert report.passed, report.render(brief=True)
    wrong = [row for row in report.nets.laws if row.passed is False]
    assert len(wrong) == 53
    text = report.render(brief=True)
    assert "53 Conv2d `conv_block1.conv`, `layer{1,4}.{0..2}.conv{1..3}`" in text
    assert len(text.splitlines()) <= 12


class Small(nn.Cell):
    def __init__(self, momentum: float = 0.9) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, pad_mode="valid")
        self.norm = nn.BatchNorm2d(4, momentum=momentum)

    def construct(self, x):
        return self.norm(self.conv(x))


class Renamed(nn.Cell):
    def __init__(self, momentum: float = 0.9) -> None:
        super().__init__()
        self.body = nn.SequentialCell(
            nn.Conv2d(1, 4, 3, pad_mode="valid", weight_init="ones"), nn.BatchNorm2d(4, momentum=momentum)
        )

    def construct(self, x):
        return self.body(x)


def test_two_cells() -> None:
    report = regraft.verify(Small(), Renamed(momentum=0.1), ["4x1x6x6"], train=True)
    assert not report.passed
    assert all(row.passed for row in report.outputs)
    assert [str(row) for row in report.nets.settings] == ["momentum 0.9 against 0.1"]
    assert [(row.target, row.remedy) for row in report.nets.laws if row.passed is False] == [
        ("body.0.weight", "weight_init=HeUniform(math.sqrt(5))")
    ]
    right = regraft.verify(Small(), Renamed(), ["4x1x6x6"])
    assert right.passed, right.render()
    assert right.nets.settings == []


class Layers(torch.nn.Module):
    """Layers whose tensors the frameworks lay out or name in their own ways."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = torch.nn.Embedding(20, 8)
        self.conv = torch.nn.Conv1d(8, 8, 3, padding=1)
        self.lstm = torch.nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.att = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        self.prelu = torch.nn.PReLU()
        self.fc = torch.nn.Linear(12, 3)

    def forward(self, ids):
        x = self.conv(self.emb(ids).transpose(1, 2)).transpose(1, 2)
        x, _ = self.lstm(x)
        x, _ = self.att(x, x, x, need_weights=False)
        return self.fc(self.prelu(x).mean(1))


class PortedLayers(nn.Cell):
    """The same by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.window = nn.Conv1d(8, 8, 3, pad_mode="pad", padding=1, has_bias=True)
        self.rnn = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.mha = nn.MultiheadAttention(12, 3, batch_first=True)
        self.act = nn.PReLU()
        self.head = nn.Dense(12, 3)

    def construct(self, ids):
        x = self.window(self.embed(ids).transpose(0, 2, 1)).transpose(0, 2, 1)
        x, _ = self.rnn(x)
        x = self.mha(x, x, x, need_weights=False)[0]
        return self.head(self.act(x).mean(1))


def test_layers_of_other_layouts() -> None:
    torch.manual_seed(0)
    report = regraft.verify(Layers(), PortedLayers(), {"ids": np.arange(14).reshape(2, 7)})
    assert report.passed, report.render()
    pairs = {row.source: row for row in report.nets.pairs}
    assert len(pairs) == 18
    assert pairs["conv.weight"].target_shape == (8, 8, 1, 3)
    assert pairs["lstm.weight_ih_l0_reverse"].target.startswith("rnn.")
    assert pairs["prelu.weight"].target.startswith("act.")
    remedies = {row.parameter: row.remedy for row in report.nets.laws if row.passed is False}
    assert remedies["emb.weight"] == "embedding_table=Normal(1.0)"
    assert remedies["att.out_proj.bias"].startswith('layer.out_proj.bias.set_data(initializer("zeros"')


class Ported(nn.Cell):
    """By hand, from examples/shared_weight-symbol.json."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 1, 3, pad_mode="valid")

    def construct(self, data):
        return self.layer(data)


def test_symbol_and_cell() -> None:
    symbol = EXAMPLES / "shared_weight-symbol.json"
    inputs = {"data": np.ones((1, 1, 3, 3), np.float32)}
    for source, target in ((symbol, Ported()), (Ported(), symbol)):
        report = regraft.verify(source, target, inputs)
        assert report.nets.copied
        assert len(report.nets.pairs) == 1
        assert report.outputs[0].passed, report.render()


def test_map_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text('{"conv1": "conv_block1.conv", "bn1": "conv_block1.nrom"}')
    call = ["verify", f"{SOURCE}:small", f"{TARGET}:small", "--input", "2x3x32x32"]
    result = CliRunner().invoke(main, [*call, "--map", str(tmp_path / "map.json")])
    assert result.exit_code == 2
    assert "`conv_block1.nrom` is neither a module" in result.output
    assert "near: `conv_block1.norm`" in result.output


def test_map_beside_what_regraft_wrote_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    call = ["verify", f"{SOURCE}:small", str(tmp_path), "--input", "2x3x32x32"]
    result = CliRunner().invoke(main, [*call, "--map", str(tmp_path / "x.json")])
    assert result.exit_code == 2
    assert "expected a model as the target of a map" in result.output
