"""Training goes on where it stopped: step k+1 of the other framework is the source's own."""

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import nn
from mindspore.experimental import optim as experimental

from regraft import convert_checkpoint, diff, repair_checkpoint
from regraft.checkpoints import read_checkpoint

STEPS = 5
RANDOM = np.random.default_rng(3)
DATA = [
    (RANDOM.standard_normal((6, 3)).astype(np.float32), RANDOM.standard_normal((6, 2)).astype(np.float32))
    for _ in range(STEPS + 1)
]


class TorchNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
        self.bn = torch.nn.BatchNorm1d(3)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.relu(self.fc(self.bn(x))))


class MindSporeNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 4)
        self.bn = nn.BatchNorm1d(3, momentum=0.9)
        self.head = nn.Dense(4, 2)

    def construct(self, x):
        return self.head(ms.ops.relu(self.fc(self.bn(x))))


TORCH = {
    "SGD": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.05, initial_accumulator_value=0.1),
}
MINDSPORE = {
    "SGD": lambda p: nn.SGD(p, 0.05, momentum=0.9),
    "Adam": lambda p: nn.Adam(p, 0.01),
    "RMSprop": lambda p: experimental.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: nn.Adagrad(p, 0.1, 0.05),
}


def torch_steps(net, optimizer, data):
    net.train()
    for x, y in data:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(torch.tensor(x)), torch.tensor(y)).backward()
        optimizer.step()


def mindspore_steps(net, optimizer, data):
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    step.set_train()
    for x, y in data:
        step(ms.Tensor(x), ms.Tensor(y))
    return step


def assert_equal(net, cell):
    """Trained parameters, within a few units of float32's rounding of what a step changes."""
    mine = {n: p.asnumpy() for n, p in cell.parameters_and_names()}
    spelled = {"bn.weight": "bn.gamma", "bn.bias": "bn.beta"}
    for name, parameter in net.named_parameters():
        theirs = mine[spelled.get(name, name)]
        np.testing.assert_allclose(theirs, parameter.detach().numpy(), rtol=0, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_torchs_training_goes_on_in_mindspore(tmp_path, kind):
    torch.manual_seed(0)
    net = TorchNet()
    optimizer = TORCH[kind](net.parameters())
    torch_steps(net, optimizer, DATA[:STEPS])
    torch.save(
        {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "a.pth"
    )
    done = convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt")
    assert any("the optimizer's state follows" in note for note in done.notes)
    torch_steps(net, optimizer, DATA[STEPS:])

    def resumed(with_state):
        cell = MindSporeNet()
        found = ms.load_checkpoint(str(tmp_path / "b.ckpt"))
        ms.load_param_into_net(cell, found)
        mine = MINDSPORE[kind](cell.trainable_params())
        if with_state:
            lacking, _ = ms.load_param_into_net(mine, found)
            assert set(lacking) <= {"learning_rate", "momentum", "global_step"}
        mindspore_steps(cell, mine, DATA[STEPS:])
        return cell

    assert_equal(net, resumed(with_state=True))
    with pytest.raises(AssertionError):  # the state is what does it
        assert_equal(net, resumed(with_state=False))


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_mindspores_training_goes_on_in_torch(tmp_path, kind):
    ms.set_seed(0)
    cell = MindSporeNet()
    step = mindspore_steps(cell, MINDSPORE[kind](cell.trainable_params()), DATA[:STEPS])
    ms.save_checkpoint(step, str(tmp_path / "a.ckpt"))
    done = convert_checkpoint(tmp_path / "a.ckpt", tmp_path / "b.pth")
    saved = torch.load(tmp_path / "b.pth")
    model = TorchNet()
    model.load_state_dict(saved["model"])
    optimizer = TORCH[kind](model.parameters())
    line = next(note for note in done.notes if "load_state_dict" in note).partition("`model`: ")[2]
    exec(line, {"saved": saved, "model": model, "optimizer": optimizer})  # what it says to write
    torch_steps(model, optimizer, DATA[STEPS:])
    for x, y in DATA[STEPS:]:
        step(ms.Tensor(x), ms.Tensor(y))
    assert_equal(model, cell)


def saved_training(path, optimizer, net):
    torch_steps(net, optimizer, DATA[:2])
    torch.save({"state_dict": {f"module.{n}": v for n, v in net.state_dict().items()},
                "optimizer": optimizer.state_dict()}, path)  # fmt: skip


def test_prefixes_are_peeled_of_slots_too_and_amsgrad_follows(tmp_path):
    net = TorchNet()
    saved_training(tmp_path / "a.pth", TORCH["AdamW"](net.parameters()), net)
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt")
    found = read_checkpoint(tmp_path / "b.ckpt")
    assert {"moment1.bn.gamma", "moment2.fc.weight", "vhat.head.bias", "beta2_power"} <= set(found)
    assert found["global_step"].numpy().tolist() == [2]
    np.testing.assert_allclose(found["beta1_power"].numpy(), 0.9**2, rtol=1e-6)
    report = diff(tmp_path / "a.pth", tmp_path / "b.ckpt")
    assert report.equal
    assert any(
        "not compared, because they belong to an optimizer: 21 tensors" in note for note in report.notes
    )
    convert_checkpoint(tmp_path / "b.ckpt", tmp_path / "c.ckpt")  # of one framework: the same
    assert set(read_checkpoint(tmp_path / "c.ckpt")) == set(found)


def test_groups_are_told_by_shapes_or_refused(tmp_path):
    """Weights and biases in two groups: shapes tell; two groups of one shape: they do not."""
    net = TorchNet()
    wide = [p for p in net.parameters() if p.ndim > 1]
    flat = [p for p in net.parameters() if p.ndim == 1]
    groups = [{"params": wide, "weight_decay": 0.1}, {"params": flat}]
    optimizer = torch.optim.SGD(groups, 0.05, momentum=0.9)
    saved_training(tmp_path / "a.pth", optimizer, net)
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt")
    found = read_checkpoint(tmp_path / "b.ckpt")
    for name, parameter in net.named_parameters():
        spelled = {"bn.weight": "bn.gamma", "bn.bias": "bn.beta"}.get(name, name)
        np.testing.assert_array_equal(
            found[f"accum.{spelled}"].numpy(), optimizer.state[parameter]["momentum_buffer"].numpy()
        )
    rest = [p for p in net.parameters() if p is not net.bn.weight]  # among it one of the same shape
    mixed = torch.optim.SGD([{"params": [net.bn.weight]}, {"params": rest}], 0.05, momentum=0.9)
    saved_training(tmp_path / "c.pth", mixed, net)
    done = convert_checkpoint(tmp_path / "c.pth", tmp_path / "d.ckpt")
    assert any("shapes do not tell which of its 2 groups" in note for note in done.notes)
    assert not any(n.startswith("accum.") for n in read_checkpoint(tmp_path / "d.ckpt"))


def test_a_frozen_layer_of_the_same_shape_makes_the_order_ambiguous(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    optimizer = torch.optim.SGD(net[1].parameters(), 0.1, momentum=0.9)
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pth")
    done = convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt")
    assert any("more than one order" in note for note in done.notes)


def test_what_is_no_state_is_not_taken_for_one(tmp_path):
    net = TorchNet()
    for number, state in enumerate(
        [
            {"state": {0: {"exp_avg": 3}}, "param_groups": [{"params": [0]}]},
            {"state": {"a": 1}},
            {"state": 3},
            [1],
        ]
    ):
        path = tmp_path / f"{number}.pth"
        torch.save({"model": net.state_dict(), "optimizer": state}, path)
        done = convert_checkpoint(path, path.with_suffix(".ckpt"))
        assert done.tensors == 8


def test_repair_and_convert_agree_on_slots(tmp_path):
    """A MindSpore training checkpoint as its optimizer wrote it is whole for `repair-checkpoint`."""
    cell = MindSporeNet()
    step = mindspore_steps(cell, nn.Adam(cell.trainable_params(), 0.01), DATA[:1])
    ms.save_checkpoint(step, str(tmp_path / "a.ckpt"))
    assert repair_checkpoint(cell, tmp_path / "a.ckpt", tmp_path / "b.ckpt").whole
    assert (tmp_path / "b.ckpt").exists()
