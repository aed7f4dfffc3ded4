"""One training step of live Cells: against what was emitted from them, and against torch modules."""

import copy
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch

import regraft
from regraft.ir import ModelError
from regraft.verification import verify

nn, ops = ms.nn, ms.ops


class Net(nn.Cell):
    def __init__(self, momentum: float = 0.9) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, pad_mode="pad", padding=1, has_bias=False)
        self.norm = nn.BatchNorm2d(6, momentum=momentum)
        self.drop = nn.Dropout(p=0.4)
        self.fc = nn.Dense(6, 4)

    def construct(self, x):
        x = ops.relu(self.norm(self.conv(x)))
        return self.fc(self.drop(x.mean((2, 3))))


class Torch(torch.nn.Module):
    """The same net, with the same attribute names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(6)
        self.drop = torch.nn.Dropout(0.4)
        self.fc = torch.nn.Linear(6, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.fc(self.drop(x.mean((2, 3))))


IMAGES = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype(np.float32)


def filled(net: nn.Cell, source: torch.nn.Module) -> nn.Cell:
    """With the torch module's values, in its order of parameters and statistics."""
    values = source.state_dict()
    terms = {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
    }
    for path, parameter in net.parameters_and_names():
        head, _, last = path.rpartition(".")
        value = values[f"{head}.{terms.get(last, last)}"].numpy()
        parameter.set_data(ms.Tensor(value.reshape(parameter.shape)))
    return net


def test_cell_against_what_was_emitted_and_left_as_it_was(tmp_path: Path) -> None:
    ms.set_seed(0)
    net = Net()
    net.set_train(True)
    net.norm.set_train(False)
    net.fc.bias.requires_grad = False
    values = {path: p.asnumpy().copy() for path, p in net.parameters_and_names()}
    flags = [(cell.training, cell.cls_name) for _, cell in net.cells_and_names()]
    names = [(p.name, p.requires_grad) for p in net.get_parameters()]
    graph = regraft.load(net, (IMAGES,))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", "mindspore")
    report = verify(graph, tmp_path / "out", train=True, modules=False)
    assert report.passed, report.render()
    rows = {row.parameter: row for row in report.training}
    assert list(rows) == list(values)
    assert rows["fc.bias"].reason == "frozen"
    assert rows["conv.weight"].gradient_max_abs is not None
    assert any("Dropout" in note for note in report.notes)
    for path, parameter in net.parameters_and_names():
        np.testing.assert_array_equal(parameter.asnumpy(), values[path])
    assert [(cell.training, cell.cls_name) for _, cell in net.cells_and_names()] == flags
    assert [(p.name, p.requires_grad) for p in net.get_parameters()] == names
    assert net.drop.p == 0.4
    statistics = {row.parameter for row in report.training if row.statistic_max_abs is not None}
    assert statistics == {"norm.moving_mean", "norm.moving_variance", "fc.bias"}


def test_module_against_a_cell_written_by_hand() -> None:
    torch.manual_seed(0)
    source = Torch()
    graph = regraft.load(source, (torch.from_numpy(IMAGES),))
    good = regraft.verify(graph, filled(Net(), source), (IMAGES,), train=True)
    assert good.passed, good.render()
    assert {row.parameter: row.target for row in good.training}["norm.weight"] == "norm.gamma"
    wrong = regraft.verify(graph, filled(Net(momentum=0.1), source), (IMAGES,), train=True)
    assert not wrong.passed
    assert {row.parameter for row in wrong.training if not row.passed} == {
        "norm.running_mean",
        "norm.running_var",
    }
    assert all(row.passed for row in wrong.outputs)


def test_cell_against_a_module() -> None:
    torch.manual_seed(0)
    target = Torch()
    source = filled(Net(), target)
    report = regraft.verify(source, target, (IMAGES,), train=True)
    assert report.passed, report.render()
    other = copy.deepcopy(target)
    other.norm.momentum = 0.9
    assert not regraft.verify(source, other, (IMAGES,), train=True).passed


class Noisy(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 2)

    def construct(self, x):
        return self.fc(x + ops.standard_normal(x.shape) if self.training else x)


def test_random_numbers_are_refused() -> None:
    graph = regraft.load(Noisy(), (IMAGES[:, :, 0, 0],))
    with pytest.raises(ModelError, match="changes from run to run"):
        verify(graph, graph, train=True, own=True, modules=False)
