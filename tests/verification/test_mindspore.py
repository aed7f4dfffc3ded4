"""Live Cells and emitted folders in MindSpore: right ones pass, broken ones fail by name, none is changed."""

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest

import regraft
from regraft.formats.renames import write_renames
from regraft.ir import ModelError, TensorData
from regraft.verification import verify

EMITTED = """
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv_ = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=True)
        self.fc = nn.Dense(4, 5)

    def construct(self, x):
        return self.fc(ops.relu(self.conv_(x)).mean((2, 3)))


def build(checkpoint="model.ckpt"):
    net = Net()
    missing, unused = ms.load_param_into_net(net, ms.load_checkpoint(str(Path(__file__).parent / checkpoint)))
    assert not missing and not unused
    return net
"""


@pytest.fixture
def torch_source():
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.fc = torch.nn.Linear(4, 5)

        def forward(self, x):
            return self.fc(torch.relu(self.conv(x)).mean((2, 3)))

    torch.manual_seed(0)
    return regraft.load(Net(), (torch.randn(2, 3, 8, 8),))


@pytest.fixture
def folder(torch_source, tmp_path: Path) -> Path:
    """What a person would have written for the torch net, with one attribute renamed."""
    (tmp_path / "model.py").write_text(EMITTED)
    state = {k: v.numpy() for k, v in torch_source.origin.model.state_dict().items()}
    tensors = [{"name": k.replace("conv.", "conv_."), "data": ms.Tensor(v)} for k, v in state.items()]
    ms.save_checkpoint(tensors, str(tmp_path / "model.ckpt"))
    write_renames(
        tmp_path / "renames.json", [], source="torch", target="mindspore", modules={"conv": "conv_"}
    )
    return tmp_path


def test_folder_equals_its_torch_source(torch_source, folder: Path) -> None:
    before = set(sys.modules)
    report = verify(torch_source, folder)
    assert report.passed, report.render()
    assert [(row.call, row.isolated_passed) for row in report.modules] == [("conv#1", True), ("fc#1", True)]
    assert not [name for name in set(sys.modules) - before if name.startswith("regraft_emitted")]


@pytest.mark.parametrize(
    ("right", "wrong", "culprit"),
    [("padding=1", "padding=(0, 2, 0, 2)", "conv#1"), ("ops.relu", "ops.tanh", "fc#1")],
)
def test_broken_folder_fails_and_names_the_module(
    torch_source, folder: Path, right: str, wrong: str, culprit: str
) -> None:
    file = folder / "model.py"
    file.write_text(file.read_text().replace(right, wrong))
    report = verify(torch_source, folder)
    assert not report.passed
    # a fault in the root's own code shows at the boundary of the next module
    assert report.first_divergence == culprit


def test_folder_that_does_not_build_is_one_clear_error(torch_source, folder: Path) -> None:
    (folder / "model.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(ModelError, match="E702"):
        verify(torch_source, folder)


class Twice(ms.nn.Cell):
    """Two groups with equal parameter names, which MindSpore renames on the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.insert_child_to_cell("a", ms.nn.SequentialCell(ms.nn.Dense(4, 4), ms.nn.ReLU()))
        self.insert_child_to_cell("b", ms.nn.SequentialCell(ms.nn.Dense(4, 4), ms.nn.ReLU()))

    def construct(self, x):
        return self.b(self.a(x)) + x


def test_live_cell_against_its_graph_and_left_as_it_was() -> None:
    net = Twice()
    net.set_train(True)
    ms.set_context(mode=ms.GRAPH_MODE)
    names = [p.name for p in net.get_parameters()]
    assert len(set(names)) < len(names)
    source = regraft.load(net, (np.zeros((2, 4), np.float32),))
    target = regraft.rewrite(source).graph
    report = verify(source, target)
    assert report.passed, report.render()
    assert {"a.0#1", "b.0#1"} <= {row.call for row in report.modules if row.isolated_passed}
    assert [p.name for p in net.get_parameters()] == names
    assert ms.get_context("mode") == ms.GRAPH_MODE
    assert all(cell.training for _, cell in net.cells_and_names())

    weight = next(p for p in target.parameters() if p.name == "b.0.weight")
    weight.data = TensorData.of(weight.data.numpy() * np.float32(1.01))
    assert verify(source, target).first_divergence == "b.0#1"


def test_mindspores_own_tanh_is_allowed_for_and_said() -> None:
    class Saturated(ms.nn.Cell):
        def construct(self, x):
            return ms.ops.tanh(x * 5)

    source = regraft.load(Saturated(), (np.zeros((2, 400), np.float32),))
    report = verify(source, source)
    assert report.passed, report.render()
    assert any("tanh" in note for note in report.notes)
    assert "2048 units" in report.yardstick
