"""What only training shows: rows of tables without gradient, frozen parameters, stopped gradients, kinks."""

from __future__ import annotations

import ast
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from mindspore import amp, nn, ops
from mindspore.common.initializer import Normal

import regraft
from regraft.cli import main
from regraft.verification import Report, verify
from regraft.verification.training.kinks import near_kink

tnn = torch.nn


def trained(source: object, target: object, inputs: object = None) -> Report:
    graphs = [regraft.load(net, inputs) for net in (source, target)]
    return verify(graphs[0], graphs[1], None, own=True, copy=True, train=True)


class Tables(tnn.Module):
    def __init__(self, padding: int | None = 0, active: bool = False) -> None:
        super().__init__()
        self.emb = tnn.Embedding(20, 8, padding_idx=padding)
        self.act = tnn.ReLU() if active else tnn.Identity()
        self.fc = tnn.Linear(8, 3)

    def forward(self, ids):
        return self.fc(self.act(self.emb(ids)).mean(1))


class TablesPort(nn.Cell):
    """The table as it is, with MindSpore's own padding, or with a row that gets no gradient."""

    def __init__(self, padding: int | None = None, stopped: int | None = None, active: bool = False) -> None:
        super().__init__()
        self.emb = nn.Embedding(20, 8, embedding_table=Normal(1.0), padding_idx=padding)
        self.act = nn.ReLU() if active else nn.Identity()
        self.fc = nn.Dense(8, 3)
        self.stopped = stopped

    def construct(self, ids):
        rows = self.emb(ids)
        if self.stopped is not None:
            rows = ops.where((ids == self.stopped).expand_dims(-1), ops.stop_gradient(rows), rows)
        return self.fc(self.act(rows).mean(1))


IDS = ["ids=2x5:int64[0,20)"]


@pytest.mark.parametrize("port", [TablesPort(), TablesPort(padding=0)], ids=["none", "MindSpore's"])
@pytest.mark.parametrize("active", [False, True])
def test_a_row_that_trains_is_a_difference_on_any_draw(port: TablesPort, active: bool) -> None:
    port.act = nn.ReLU() if active else nn.Identity()
    report = trained(Tables(active=active), port, IDS)
    assert report.verdict == "different", report.render()
    assert any("padding_idx 0 against none" in line for line in report.causes()), report.render()
    write = "ops.where((ids == 0).expand_dims(-1), ops.stop_gradient(rows), rows) in place of the rows"
    assert any(write in line and "test_training_only.py:" in line for line in report.causes())


@pytest.mark.parametrize("padding", [0, 3, -1])
def test_a_row_without_gradient_that_is_written_out_is_equal(padding: int) -> None:
    report = trained(Tables(padding), TablesPort(stopped=padding % 20), IDS)
    assert report.passed, report.render()
    other = trained(Tables(padding), TablesPort(stopped=7), IDS)
    assert f"padding_idx {padding % 20} against 7" in other.render()


def test_a_frozen_table_has_no_row_that_trains_otherwise() -> None:
    source, port = Tables(), TablesPort()
    source.emb.weight.requires_grad_(False)
    port.emb.embedding_table.requires_grad = False
    assert trained(source, port, IDS).passed


class Halves(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = tnn.Linear(6, 8), tnn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x).detach()))


class HalvesPort(nn.Cell):
    def __init__(self, stopped: bool) -> None:
        super().__init__()
        self.body, self.head = nn.Dense(6, 8), nn.Dense(8, 3)
        self.stopped = stopped

    def construct(self, x):
        x = self.body(x)
        return self.head(ops.tanh(ops.stop_gradient(x) if self.stopped else x))


def test_a_stopped_gradient_is_named_with_its_line() -> None:
    report = trained(Halves(), HalvesPort(False), ["4x6"])
    assert report.verdict == "different"
    told = [line for line in report.causes() if "ops.stop_gradient" in line]
    line = next(
        i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if ".detach()))" in text
    )
    assert any(f"test_training_only.py:{line}" in text for text in told), report.render()
    plain = verify(*(regraft.load(n, ["4x6"]) for n in (Halves(), HalvesPort(False))), None, own=True)
    assert "stop_gradient" not in plain.render(), "it changes no output"


class Curved(tnn.Module):
    def __init__(self, act: tnn.Module) -> None:
        super().__init__()
        self.norm, self.act, self.pool = tnn.BatchNorm2d(3), act, tnn.MaxPool2d(2)
        self.shift = tnn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        return self.pool(self.act(self.norm(x) - self.shift))


@pytest.mark.parametrize(
    ("act", "point", "at"),
    [
        (tnn.ReLU(), 0, "Relu of `act`"),
        (tnn.Hardtanh(), 1, "Clip of `act`"),
        (tnn.GELU(), 0, None),
        (tnn.Identity(), 0, None),
    ],
)
def test_a_kink_is_where_a_value_in_training_lies_beside_it(act, point: float, at: str | None) -> None:
    net, x = Curved(act), torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    normed = net.train().norm(x)[0, 0, 0, 0].item()
    net.eval().norm.reset_running_stats()
    assert near_kink(regraft.load(net, (x,)), {"x": x.numpy()}) is None
    with torch.no_grad():
        net.shift.fill_(normed - point - 1e-6)
    assert near_kink(regraft.load(net, (x,)), {"x": x.numpy()}) == at


def test_elements_of_a_window_that_are_nearly_equal_are_a_kink() -> None:
    net, x = Curved(tnn.Identity()).eval(), torch.randn(2, 3, 4, 4)
    x[0, 1, :2, :2] = torch.tensor([[0.0, 3.0], [3.000001, 0.0]])
    assert near_kink(regraft.load(net, (x,)), {"x": x.numpy()}) == "MaxPool of `pool`"


FILE = """
import torch
from mindspore import nn, ops
from torch import nn as tnn


class Port(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(6, 8), nn.LayerNorm((8,)))
        self.side = nn.Dense(6, 8)
        self.head = nn.Dense(8, 3)

    def construct(self, x):
        return self.head({act}(self.body(x) + self.side(x)))


class Source(tnn.Module):
    def __init__(self):
        super().__init__()
        self.body = tnn.Sequential(tnn.Linear(6, 8), tnn.LayerNorm(8))
        self.side = tnn.Linear(6, 8)
        self.head = tnn.Linear(8, 3)
        self.body.requires_grad_(False)
        self.side.weight.requires_grad_(False)

    def forward(self, x):
        return self.head(torch.relu(self.body(x) + self.side(x)))
"""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def written(folder: Path, act: str) -> tuple[str, str]:
    for name in ("port", "source"):
        (folder / f"{name}.py").write_text(FILE.replace("{act}", act))
    return f"{folder}/source.py:Source", f"{folder}/port.py:Port"


def test_frozen_parameters_are_named_by_line_and_frozen_by_fix(tmp_path: Path) -> None:
    source, port = written(tmp_path, "ops.relu")
    found = invoke("verify", source, port, "--input", "4x6", "--train")
    assert found.exit_code == 1, found.output
    assert "write: requires_grad = False for them - at port.py:10, 11" in found.stdout, found.stdout
    fixed = invoke("fix", port, "--like", source, "--input", "4x6")
    text = (tmp_path / "port.py").read_text()
    assert "        for part in (self.body,):\n            for parameter in part.get_parameters():" in text
    assert "        self.side.weight.requires_grad = False\n" in text
    assert "outputs: those of" in fixed.stdout, fixed.output
    again = invoke("verify", source, port, "--input", "4x6", "--train")
    assert "requires_grad" not in again.stdout
    ast.parse(text)


def test_fix_mends_another_expression_and_what_is_not_frozen(tmp_path: Path) -> None:
    source, port = written(tmp_path, "ops.tanh(self.side(x)) * ops.sigmoid")
    fixed = invoke("fix", port, "--like", source, "--input", "4x6")
    assert fixed.exit_code == 0, fixed.output
    text = (tmp_path / "port.py").read_text()
    assert "self.head(ops.relu(self.body(x) + self.side(x)))" in text
    assert "requires_grad = False" in text


class Convolved(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn, self.fc = nn.BatchNorm2d(8), nn.Dense(8, 5)

    def construct(self, x):
        return self.fc(ops.relu(self.bn(self.conv(x))).mean((2, 3)))


def frozen() -> Convolved:
    net = Convolved()
    for parameter in net.get_parameters():
        parameter.requires_grad = False
    return net


@pytest.mark.parametrize(
    "make", [frozen, lambda: amp.auto_mixed_precision(Convolved(), "O1"), Convolved], ids=["frozen", "O1", ""]
)
def test_parameters_without_gradient_move_outputs(make, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # where MindSpore writes the code of its casts
    ms.set_seed(1)
    graph = regraft.load(make(), ["2x3x6x6"])
    before = [p.requires_grad for p in graph.origin.model.get_parameters()]
    report = verify(graph, regraft.load(make(), ["2x3x6x6"]), None, own=True, copy=True)
    assert "8 of 8 parameters moved an output" in report.render(), report.render()
    assert [p.requires_grad for p in graph.origin.model.get_parameters()] == before


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_lower_precision_is_judged_by_the_precision_of_each_operator(
    level: str, tmp_path: Path, monkeypatch
) -> None:
    import onnx

    monkeypatch.chdir(tmp_path)  # where MindSpore writes the code of its casts
    ms.set_seed(1)
    graph = regraft.load(amp.auto_mixed_precision(Convolved(), level), ["2x3x6x6"])
    out = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, out)
    for seed in range(2):
        report = verify(graph, out, None, seed=seed)
        assert report.passed, report.render()
    model = onnx.load(out)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.size > 3 and array.dtype.kind == "f":
            wrong = array.copy()
            wrong.flat[1] = wrong.flat[1] * np.float16(1.02) + np.float16(0.01)
            tensor.CopyFrom(onnx.numpy_helper.from_array(wrong, tensor.name))
            onnx.save(model, out)
            assert verify(graph, out, None).verdict == "different", tensor.name
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
