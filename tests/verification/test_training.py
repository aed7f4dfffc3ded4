"""One training step, source against target: right targets pass; wrong ones fail and name what is wrong."""

import copy
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regraft
from regraft.cli import main
from regraft.ir import ModelError, UsageError
from regraft.verification import Report, verify

ROOT = Path(__file__).parents[2]
nn = torch.nn


class Net(nn.Module):
    """Convolutions, batch statistics, Dropout as a module and as a function, a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.3)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(8, momentum=0.25)
        self.fc = nn.Linear(8, 5)
        self.conv2.weight.requires_grad_(False)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(self.drop(x))))
        return self.fc(nn.functional.dropout(x.mean((2, 3)), 0.2, self.training))


class Siamese(nn.Module):
    """One encoder for both inputs: its gradient is the sum over the branches."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, left, right):
        return self.encoder(left) * self.encoder(right), (self.encoder(left) - self.encoder(right)).abs()


def emitted(net: nn.Module, inputs: tuple, folder: Path) -> tuple[regraft.ir.Graph, Path]:
    graph = regraft.load(net, inputs)
    regraft.save(regraft.rewrite(graph).graph, folder / "out", "mindspore")
    return graph, folder / "out"


def trained(net: nn.Module, inputs: tuple, folder: Path) -> Report:
    graph, out = emitted(net, inputs, folder)
    report = verify(graph, out, train=True, modules=False)
    assert report.passed, report.render(brief=True)
    assert report.training_divergence is None
    floating = [n for n, t in net.state_dict().items() if t.is_floating_point()]
    assert {row.parameter for row in report.training} <= set(floating)
    named = dict(net.named_parameters())
    assert {row.parameter for row in report.training if row.gradient_max_abs is not None} == {
        n for n, p in named.items() if p.requires_grad
    }
    assert all(row.passed for row in report.training)
    return report


def edited(out: Path, folder: Path, old: str, new: str) -> Path:
    """A copy of an emitted folder in which one thing in model.py is wrong."""
    broken = folder / "broken"
    shutil.copytree(out, broken)
    text = (broken / "model.py").read_text()
    assert text.count(old) == 1, text
    (broken / "model.py").write_text(text.replace(old, new))
    return broken


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net()


@pytest.fixture(scope="module")
def images() -> tuple[torch.Tensor]:
    torch.manual_seed(1)
    return (torch.randn(4, 3, 16, 16),)


@pytest.fixture(scope="module")
def pair(net: nn.Module, images: tuple, tmp_path_factory: pytest.TempPathFactory):
    return emitted(net, images, tmp_path_factory.mktemp("net"))


# -- equal ---------------------------------------------------------------------------------------------


def test_convolutions_and_statistics(net: nn.Module, images: tuple, tmp_path: Path) -> None:
    report = trained(net, images, tmp_path)
    rows = {row.parameter: row for row in report.training}
    assert rows["conv2.weight"].reason == "frozen"
    assert rows["conv2.bias"].reason.startswith("rounding only")  # what batch statistics subtract again
    assert rows["bn2.running_var"].statistic_max_abs is not None
    assert rows["bn2.running_var"].reason == ""
    assert report.outputs[0].case == "training, N=4"
    assert any("Dropout" in n and "drop" in n and "`dropout`" in n for n in report.notes)


def test_gradients_are_those_of_torch(net: nn.Module, images: tuple) -> None:
    """The recorded step, against autograd on a copy of the module."""
    from regraft.verification.runners.torch_runner import TorchRunner
    from regraft.verification.training.step import output_weights

    mine = copy.deepcopy(net).train()
    mine.drop.p = 0.0
    mine.forward = lambda x: mine.fc(
        torch.relu(mine.bn2(mine.conv2(torch.relu(mine.bn1(mine.conv1(x)))))).mean((2, 3))
    )
    before = mine.fc.weight.detach().clone()
    result = mine(*images)
    (result * torch.from_numpy(output_weights((4, 5), 7, 0)).float()).sum().backward()
    runner = TorchRunner(regraft.load(net, images))
    step = runner.step({"x": images[0].numpy()}, 7)
    for name, parameter in mine.named_parameters():
        found = step.tensors[name].gradient
        assert (found is None) == (parameter.grad is None)
        if found is not None:
            np.testing.assert_allclose(found, parameter.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(step.tensors["bn2.running_var"].forward, mine.bn2.running_var, rtol=1e-6)
    expected = before - 0.01 * mine.fc.weight.grad
    np.testing.assert_allclose(step.tensors["fc.weight"].after, expected.numpy(), rtol=1e-6, atol=1e-7)


def test_source_is_left_as_it_was(images: tuple, tmp_path: Path) -> None:
    torch.manual_seed(2)
    net = Net()
    net.train()
    net.bn1.eval()
    net.fc.weight.grad = torch.ones_like(net.fc.weight)
    graph, out = emitted(net, images, tmp_path)
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    identities = {name: id(tensor) for name, tensor in net.state_dict(keep_vars=True).items()}
    flags = [module.training for module in net.modules()]
    frozen = [p.requires_grad for p in net.parameters()]
    gradients = {name: p.grad for name, p in net.named_parameters()}
    random = torch.get_rng_state()
    assert verify(graph, out, train=True, modules=False).passed
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())
    assert {name: id(t) for name, t in net.state_dict(keep_vars=True).items()} == identities
    assert [module.training for module in net.modules()] == flags
    assert [p.requires_grad for p in net.parameters()] == frozen
    assert all(p.grad is gradients[name] for name, p in net.named_parameters())
    assert net.drop.p == 0.3
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_one_gradient_through_both_branches(tmp_path: Path) -> None:
    torch.manual_seed(0)
    report = trained(Siamese(), (torch.randn(4, 6), torch.randn(4, 6)), tmp_path)
    assert report.training[0].parameter == "encoder.0.weight"


def test_transformer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    report = trained(_example("transformer").transformer(), (torch.randint(0, 100, (2, 16)),), tmp_path)
    assert any("self_attn" in note for note in report.notes)


def test_lstm_tagger(tmp_path: Path) -> None:
    """Through time, both directions and the Dropout between two layers."""
    nets = _imported("torch_recurrent", ROOT / "tests" / "end_to_end" / "nets" / "torch_recurrent.py")
    torch.manual_seed(0)
    report = trained(nets.Tagger(), (torch.randint(0, 40, (2, 5)),), tmp_path)
    assert sum(row.parameter.startswith("lstm.") for row in report.training) == 16
    assert any("Dropout" in note and "lstm" in note for note in report.notes)


def test_inverted_residuals(tmp_path: Path) -> None:
    nets = _imported("torch_vision", ROOT / "tests" / "end_to_end" / "nets" / "torch_vision.py")
    torch.manual_seed(0)
    trained(nets.MobileNetV2(), (torch.randn(4, 3, 32, 32),), tmp_path)


class Undefined(nn.Module):
    """The gradient of the square root at 0 is infinite, and times 0 it is not a number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.0, 1.0, 2.0]))

    def forward(self, x):
        return torch.sqrt(self.scale * self.scale) * x


def test_gradient_that_is_no_number_on_both_sides(tmp_path: Path) -> None:
    report = trained(Undefined(), (torch.randn(4, 3),), tmp_path)
    assert "NaN" in report.training[0].reason


@pytest.mark.slow
def test_resnet(tmp_path: Path) -> None:
    torch.manual_seed(0)
    report = trained(_example("resnet").resnet18(), (torch.randn(2, 3, 64, 64),), tmp_path)
    assert len(report.training) == 102


def test_two_modules_of_one_framework(net: nn.Module, images: tuple) -> None:
    graph = regraft.load(net, images)
    other = copy.deepcopy(net)
    assert verify(graph, regraft.load(other, images), train=True, own=True, modules=False).passed
    other.bn1.momentum = 0.9
    report = verify(graph, regraft.load(other, images), train=True, own=True, modules=False)
    assert not report.passed
    assert report.training_divergence is not None
    assert report.training_divergence.startswith("bn1.running_")


class Twice(nn.Module):
    """Two layers that may hold equal weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


@pytest.mark.parametrize("memory", [True, False], ids=["one memory", "tied by request"])
def test_gradients_of_tied_parameters_add_up(memory: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Twice()
    net.second.weight = nn.Parameter(net.first.weight.data if memory else net.first.weight.detach().clone())
    graph = regraft.load(net, (torch.randn(3, 4),))
    tied = regraft.rewrite(graph, ["tie-weights:tie=first.weight+second.weight", "rename-parameters"])
    regraft.save(tied.graph, tmp_path / "out", "mindspore")
    report = verify(graph, tmp_path / "out", train=True, modules=False)
    assert report.passed, report.render()
    assert [row.parameter for row in report.training] == ["first.weight + second.weight"]


# -- wrong targets -------------------------------------------------------------------------------------


def test_wrong_momentum_is_named(pair, tmp_path: Path) -> None:
    graph, out = pair
    broken = edited(out, tmp_path, "momentum=0.75", "momentum=0.25")
    report = verify(graph, broken, train=True, modules=False)
    assert not report.passed
    assert {row.parameter for row in report.training if not row.passed} == {
        "bn2.running_mean",
        "bn2.running_var",
    }
    assert report.training_divergence is not None
    assert report.training_divergence.startswith("bn2.running_")
    assert "training diverges at bn2.running_" in report.render()
    assert verify(graph, broken, modules=False).passed  # inference cannot see it


def test_detached_branch_is_named(pair, tmp_path: Path) -> None:
    graph, out = pair
    broken = edited(out, tmp_path, "self.conv1(x)", "ops.stop_gradient(self.conv1(x))")
    report = verify(graph, broken, train=True, modules=False)
    assert not report.passed
    failed = [row for row in report.training if not row.passed]
    assert [row.parameter for row in failed] == ["conv1.weight"]
    assert "no gradient reaches it" in failed[0].reason
    assert report.training_divergence is not None
    assert report.training_divergence.startswith("conv1.weight")


def test_weight_no_longer_shared_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    graph, out = emitted(Siamese(), (torch.randn(4, 6), torch.randn(4, 6)), tmp_path)
    text = (out / "model.py").read_text()
    at = text.index("self.encoder(")
    broken = tmp_path / "broken"
    shutil.copytree(out, broken)
    copied = f"{text[:at]}self.twin({text[at + len('self.encoder(') :]}" + UNSHARED
    (broken / "model.py").write_text(copied)
    report = verify(graph, broken, train=True, modules=False)
    assert not report.passed
    failed = {row.parameter: row.reason for row in report.training if not row.passed}
    assert "twin.0.weight" in failed
    assert "not in the source" in failed["twin.0.weight"]
    assert failed["encoder.0.weight"].startswith("the gradient is")
    assert report.training_divergence is not None
    assert report.training_divergence.startswith("encoder.")


UNSHARED = """

_shared = build


def build(checkpoint=CHECKPOINT):
    import copy

    net = _shared(checkpoint)
    net.twin = copy.deepcopy(net.encoder)
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    return net
"""


def test_frozen_in_the_source_and_trained_in_the_target(pair, tmp_path: Path) -> None:
    graph, out = pair
    broken = edited(out, tmp_path, 'FROZEN = {"conv2.weight"}', "FROZEN = set()")
    report = verify(graph, broken, train=True, modules=False)
    assert not report.passed
    failed = [row for row in report.training if not row.passed]
    assert [row.parameter for row in failed] == ["conv2.weight"]
    assert failed[0].reason == "frozen in the source, trained in the target"
    first = report.render(brief=True).splitlines()[:4]
    assert "frozen in the source, trained in the target: `conv2.weight`" in first
    assert "  write: requires_grad = False for it" in first


def test_other_starting_values_are_named(net: nn.Module, pair, images: tuple) -> None:
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.bn2.bias += 1
    report = verify(regraft.load(other, images), pair[1], train=True, modules=False)
    failed = {row.parameter: row.reason for row in report.training if not row.passed}
    assert failed["bn2.bias"] == "the sides start from other values"


# -- refusals ------------------------------------------------------------------------------------------


class DropPath(nn.Module):
    def forward(self, x):
        if not self.training:
            return x
        return x * torch.empty(x.shape[0], 1).bernoulli_(0.5)


class InPlace(nn.Module):
    def forward(self, x):
        y = x.exp()
        z = y + 1
        y.mul_(2)  # exp's gradient is its result, which is gone
        return y + z


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


@pytest.mark.parametrize("part", [DropPath, Doubled])
def test_other_differences_between_the_modes_are_refused(part: type[nn.Module], tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), part(), nn.Linear(4, 2))
    graph, out = emitted(net, (torch.randn(2, 3),), tmp_path)
    with pytest.raises(ModelError, match=r"training.* at 1\b") as error:
        verify(graph, out, train=True)
    assert error.value.code == "E702"


def test_gradient_that_torch_refuses_is_our_error(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), InPlace())
    graph, out = emitted(net, (torch.randn(2, 3),), tmp_path)
    with pytest.raises(ModelError, match="backward raised RuntimeError"):
        verify(graph, out, train=True)


def test_source_without_its_framework_is_refused(pair) -> None:
    symbol = ROOT / "examples" / "shared_weight-symbol.json"
    graph = regraft.load(symbol, {"data": np.ones((1, 1, 3, 3), np.float32)})
    with pytest.raises(UsageError, match="source that can train"):
        verify(graph, pair[1], train=True)


def test_onnx_is_refused(pair, tmp_path: Path) -> None:
    graph, _ = pair
    file = regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")[0]
    for target in (file, graph):
        with pytest.raises(UsageError, match="ONNX is inference"):
            verify(graph, target, train=True)


# -- from outside ---------------------------------------------------------------------------------------


def test_library_and_command_line(pair, net: nn.Module, images: tuple, tmp_path: Path) -> None:
    assert regraft.verify(net, pair[1], images, train=True).training
    file = tmp_path / "net.py"
    file.write_text("from torch import nn\n\ndef net():\n    return nn.Sequential(nn.Linear(3, 2))\n")
    call = CliRunner().invoke
    made = call(
        main, ["rewrite", f"{file}:net", "-o", str(tmp_path / "o"), "--to", "mindspore", "--input", "2x3"]
    )
    assert made.exit_code == 0, made.output
    result = call(main, ["verify", f"{file}:net", str(tmp_path / "o"), "--input", "2x3", "--train", "--json"])
    assert result.exit_code == 0, result.output
    assert [row["parameter"] for row in json.loads(result.stdout)["training"]] == ["0.weight", "0.bias"]


def test_recorded_outputs(pair, net: nn.Module, images: tuple) -> None:
    with torch.no_grad():
        want = copy.deepcopy(net).eval()(*images).numpy()
    assert regraft.verify(net, pair[1], images, expected=[want]).passed
    report = regraft.verify(pair[0], pair[1], expected=[want + 1])  # of the inputs the graph was made with
    assert {row.case for row in report.outputs if not row.passed} == {"recorded, source", "recorded, target"}


# -- report --------------------------------------------------------------------------------------------


def test_report_as_json_and_text(pair) -> None:
    report = verify(*pair, train=True, modules=False)
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert data["passed"] is True
    assert data["training"][0]["parameter"] == "conv1.weight"
    assert data["training"][0]["gradient_max_abs"] < 1e-4
    assert "trained one step" in report.summary()
    assert "conv1.weight" in report.render()
    assert "conv1.weight" not in report.render(brief=True)


def _example(name: str) -> ModuleType:
    return _imported(name, ROOT / "examples" / f"{name}.py")


def _imported(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"training_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
