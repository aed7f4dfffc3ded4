"""What holds gradients back in the source does so in emitted source, and what does not is named."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.verification import verify

mindspore = pytest.importorskip("mindspore")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mindspore_training_state")]


class Padded(nn.Module):
    """One row is padding; another table is tied to the output."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4, padding_idx=2)
        self.places = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids):
        return self.out(torch.tanh(self.words(ids) + self.places(ids % 5)))


class Held(nn.Module):
    """One branch detached, one computed without gradients."""

    def __init__(self):
        super().__init__()
        self.stem, self.left, self.right = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        with torch.no_grad():
            scale = torch.sigmoid(self.right(x))
        return self.left(x).detach() * x * scale + x.detach()


class Straight(torch.autograd.Function):
    """Rounds; its gradient is the identity's."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return Straight.apply(self.linear(x) * 4)


def emitted(net, array, folder):
    torch.manual_seed(0)
    graph = regraft.load(net, (array,))
    regraft.save(regraft.rewrite(graph).graph, folder / "out", to="mindspore")
    return graph, folder / "out"


def edited(folder, old, new):
    broken = folder.with_name("broken")
    shutil.rmtree(broken, ignore_errors=True)
    shutil.copytree(folder, broken)
    text = (broken / "model.py").read_text()
    assert old in text, text
    (broken / "model.py").write_text(text.replace(old, new))
    return broken


def failed(graph, folder):
    report = verify(graph, folder, train=True, modules=False)
    return {row.parameter for row in report.training if not row.passed}


def test_the_row_of_padding_is_not_trained(tmp_path):
    ids = np.array([[0, 2, 2, 6], [2, 1, 3, 2]])
    graph, folder = emitted(Padded(), ids, tmp_path)
    assert failed(graph, folder) == set()
    broken = edited(folder, "ops.stop_gradient(rows)", "rows")
    assert {name.partition(" ")[0] for name in failed(graph, broken)} == {"words.weight"}


def test_detached_branches_are_not_trained(tmp_path):
    graph, folder = emitted(
        Held(), np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32), tmp_path
    )
    text = (folder / "model.py").read_text()
    assert text.count("ops.stop_gradient(") == 3
    assert failed(graph, folder) == set()
    broken = edited(folder, "ops.stop_gradient(", "(")
    assert {"left.weight", "right.weight"} <= failed(graph, broken)


def test_onnx_has_no_operator_for_a_held_gradient(tmp_path):
    graph = regraft.load(Held(), (np.zeros((3, 4), np.float32),))
    path = regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")[0]
    assert regraft.verify(graph, path).passed
    import onnx

    assert not [n for n in onnx.load(path).graph.node if n.op_type == "Identity"]


def test_nothing_is_held_where_nothing_is_trained():
    class Frozen(Held):
        def __init__(self):
            super().__init__()
            self.requires_grad_(False)

    graph = regraft.load(Frozen(), (np.zeros((3, 4), np.float32),))
    assert "StopGradient" not in str(graph)


def test_a_gradient_of_the_models_own_is_said_and_fails(tmp_path):
    apply = vars(torch.autograd.Function)["apply"]
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    graph, folder = emitted(Rounded(), x, tmp_path)
    assert any("`Straight`" in note for note in graph.origin.notes)
    assert "`Straight`" in (folder / "model.py").read_text()
    assert verify(graph, folder).passed
    assert failed(graph, folder) == {"linear.weight", "linear.bias"}
    assert vars(torch.autograd.Function)["apply"] is apply
