"""train.py: what trains the source trains the emitted net, in both modes, and goes on from a checkpoint."""

import ast
import copy
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import mindspore as ms
import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.backends.mindspore_source.training.script import training_source
from regraft.frontends.mindspore_cell.recipe import read_recipe as read_mindspore
from regraft.frontends.torch_module.recipe import read_recipe as read_torch
from regraft.frontends.training_script import Script
from regraft.ir import BackendError, UsageError
from regraft.ir.recipe import LossRule, LossScaler, Recipe, UpdateRule

STEPS = 20


class Vision(nn.Module):
    """A residual block with batch statistics, then a transformer's: patches, attention, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.patches = nn.Conv2d(8, 16, 4, 4)
        self.norm = nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 16), nn.GELU())
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.bn1(self.stem(x)))
        x = torch.tanh(self.conv(x) + x)
        x = self.patches(x).flatten(2).transpose(1, 2)
        parts = self.qkv(self.norm(x)).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        return self.head(self.mlp(x).mean(1))


class Recurrent(nn.Module):
    """An LSTM that gives a number."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def momentum(net: nn.Module) -> dict[str, Any]:
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5),
            torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.3),
        ],
        [5],
    )
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    more = {"clip_norm": 1.0, "loss_scale": 8.0, "ema": 0.9}
    return {"loss": loss, "optimizer": optimizer, "schedule": schedule, **more}


def adamw(net: nn.Module) -> dict[str, Any]:
    plain = [p for n, p in net.named_parameters() if "bias" in n]
    decayed = [p for n, p in net.named_parameters() if "bias" not in n]
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0, "lr": 2e-3}]
    optimizer = torch.optim.AdamW(groups, 1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    return {"loss": nn.MSELoss(), "optimizer": optimizer, "schedule": schedule, "steps": STEPS}


Make = Callable[[nn.Module], dict[str, Any]]
CASES: dict[str, tuple[type[nn.Module], Make, str]] = {
    "vision": (Vision, momentum, "4x3x8x8"),
    "lstm": (Recurrent, adamw, "4x5x6"),
}


def batches(shape: str) -> list[tuple[np.ndarray, np.ndarray]]:
    random, sizes = np.random.default_rng(0), [int(n) for n in shape.split("x")]
    real = len(sizes) == 3
    return [
        (
            random.standard_normal(sizes).astype(np.float32),
            random.standard_normal((sizes[0], 1)).astype(np.float32)
            if real
            else random.integers(0, 5, sizes[0]),
        )
        for _ in range(STEPS)
    ]


def trained_in_torch(
    net: nn.Module, make: Make, data: list[tuple[np.ndarray, np.ndarray]], *, mixed: bool = False
) -> tuple[list[float], dict[str, np.ndarray]]:
    """The losses of the loop that everybody writes, and the averaged weights."""
    script, losses = make(net.train()), []
    real = next(net.parameters()).dtype
    averages = {n: p.detach().clone() for n, p in net.named_parameters()}
    scaler = torch.amp.GradScaler("cpu", enabled=mixed)
    for x, y in data:
        labels = torch.from_numpy(y)
        script["optimizer"].zero_grad()
        with torch.autocast("cpu", torch.float16, enabled=mixed):
            output = net(torch.from_numpy(x).to(real))
            loss = script["loss"](output, labels.to(real) if y.dtype.kind == "f" else labels)
        scale = 1.0 if "precision" in script else script.get("loss_scale", 1.0)
        scaler.scale(loss * scale).backward()
        scaler.unscale_(script["optimizer"])
        if "clip_norm" in script:
            nn.utils.clip_grad_norm_(net.parameters(), script["clip_norm"])
        if "clip_value" in script:
            nn.utils.clip_grad_value_(net.parameters(), script["clip_value"])
        scaler.step(script["optimizer"])
        scaler.update()
        if "schedule" in script:
            script["schedule"].step()
        for name, parameter in net.named_parameters():
            averages[name].lerp_(parameter.detach(), 1 - script.get("ema", 0.0))
        losses.append(loss.item())
    return losses, {name: value.numpy() for name, value in averages.items()}


def imported(path: Path) -> ModuleType:
    name = f"emitted_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def step_of(folder: Path) -> Any:
    return imported(folder / "train.py").TrainStep(imported(folder / "model.py").build())


def trained(step: Any, data: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    kind = {"i": np.int32, "f": np.float32}
    return [float(step(ms.Tensor(x), ms.Tensor(y.astype(kind[y.dtype.kind]))).asnumpy()) for x, y in data]


@pytest.fixture
def graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, list[float]]]:
    """Folder of an emitted case, and the losses of its source."""
    found: dict[str, tuple[Path, list[float]]] = {}

    def make(name: str) -> tuple[Path, list[float]]:
        if name not in found:
            folder = tmp_path_factory.mktemp(name)
            cls, recipe, shape = CASES[name]
            torch.manual_seed(0)
            net = cls()
            graph = regraft.load(net, (shape,))
            files, report = regraft.rewrite_file(
                graph, regraft.rewrite(graph), folder / "out", "mindspore", recipe=recipe
            )
            assert report is not None
            assert report.passed, report.render()
            assert report.recipes is not None
            assert report.recipes.trajectory is not None
            assert report.recipes.trajectory.steps == STEPS
            assert [f.name for f in files if f.name.startswith("train")] == ["train.py"]
            found[name] = folder / "out", trained_in_torch(net, recipe, batches(shape))[0]
        return found[name]

    return make


def test_it_trains_as_the_source_in_graph_mode(
    emitted: Callable[[str], tuple[Path, list[float]]], graph_mode: None
) -> None:
    """In PyNative mode `rewrite` itself has made these steps."""
    folder, losses = emitted("vision")
    np.testing.assert_allclose(trained(step_of(folder), batches(CASES["vision"][2])), losses, rtol=2e-4)


@pytest.mark.slow
def test_it_goes_on_from_what_was_saved(
    emitted: Callable[[str], tuple[Path, list[float]]], tmp_path: Path, graph_mode: None
) -> None:
    folder, losses = emitted("lstm")
    data, half = batches(CASES["lstm"][2]), STEPS // 2
    step = step_of(folder)
    first = trained(step, data[:half])
    ms.save_checkpoint(step, str(tmp_path / "half.ckpt"))
    again = step_of(folder)
    left = ms.load_param_into_net(again, ms.load_checkpoint(str(tmp_path / "half.ckpt")), strict_load=True)
    assert left == ([], [])
    np.testing.assert_allclose(first + trained(again, data[half:]), losses, rtol=2e-4)
    assert losses[0] != pytest.approx(losses[half], rel=1e-3)


def adam(net: nn.Module) -> dict[str, Any]:
    optimizer = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=0.01, amsgrad=True)
    return {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer, "clip_value": 0.05}


def rmsprop(net: nn.Module) -> dict[str, Any]:
    options = {"alpha": 0.9, "eps": 1e-4, "momentum": 0.5, "weight_decay": 0.01, "centered": True}
    optimizer = torch.optim.RMSprop(net.parameters(), 1e-2, **options)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, total_iters=4)
    more = {"clip_norm": 2.0, "loss_scale": 8.0, "ema": 0.8}
    return {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer, "schedule": schedule, **more}


def adagrad(net: nn.Module) -> dict[str, Any]:
    options = {"lr_decay": 0.1, "eps": 1e-3, "initial_accumulator_value": 0.2, "weight_decay": 0.01}
    optimizer = torch.optim.Adagrad(net.parameters(), 0.1, **options)
    return {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer, "loss_scale": 0.5, "ema": 0.5}


def mixed(net: nn.Module) -> dict[str, Any]:
    optimizer = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    more = {"precision": torch.float16, "loss_scale": scaler, "clip_norm": 1.0}
    return {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer, **more}


def layers(kind: Any, dense: Any) -> Any:
    """The same names of parameters in both frameworks."""
    return kind(dense(6, 8), nn.Tanh() if kind is nn.Sequential else ms.nn.Tanh(), dense(8, 5))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], tuple[ModuleType, Recipe]]:
    """train.py of a recipe, without the rewrite of a net."""
    found: dict[Make, tuple[ModuleType, Recipe]] = {}

    def make(recipe: Make) -> tuple[ModuleType, Recipe]:
        if recipe not in found:
            net = layers(nn.Sequential, nn.Linear)
            names = {id(p): n for n, p in net.named_parameters()}
            read = read_torch(Script(**recipe(net)), names, 8, "t.py:recipe")
            path = tmp_path_factory.mktemp(recipe.__name__) / "train.py"
            path.write_text(training_source(read, list(names.values()), ["x"], "t.py:recipe"))
            found[recipe] = imported(path), read
        return found[recipe]

    return make


def steps_of(
    module: ModuleType, net: nn.Module, data: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[list[float], dict[str, np.ndarray]]:
    """The losses of TrainStep from a net's weights, and the averaged weights, or those at the end."""
    twin = layers(ms.nn.SequentialCell, ms.nn.Dense)
    for name, parameter in net.named_parameters():
        twin.parameters_dict()[name].set_data(ms.Tensor(parameter.detach().numpy().astype(np.float32)))
    step = module.TrainStep(twin)
    losses = trained(step, data)
    rows = step.averaged() if hasattr(step, "averaged") else None
    values = twin.parameters_dict() if rows is None else {row["name"]: row["data"] for row in rows}
    return losses, {name: value.asnumpy() for name, value in values.items()}


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["pynative", "graph"])
@pytest.mark.parametrize("make", [adam, rmsprop, adagrad, mixed])
def test_a_step_is_the_loop_of_torch(
    make: Make, mode: int, alone: Callable[[Make], tuple[ModuleType, Recipe]]
) -> None:
    """As far from float64 as torch itself is, losses and (averaged) weights."""
    random = np.random.default_rng(0)
    data = [(random.standard_normal((4, 6)).astype(np.float32), random.integers(0, 5, 4)) for _ in range(8)]
    torch.manual_seed(0)
    net = layers(nn.Sequential, nn.Linear)
    exact, there = trained_in_torch(copy.deepcopy(net).double(), make, data)
    ms.set_context(mode=mode)
    try:
        losses, weights = steps_of(alone(make)[0], net, data)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    mine, values = trained_in_torch(copy.deepcopy(net), make, data, mixed=make is mixed)
    drift = np.abs(np.subtract(mine, exact)).max()
    assert drift > 1e-5 if make is mixed else drift < 1e-5
    np.testing.assert_allclose(losses, exact, rtol=1e-5, atol=4 * drift)
    for name, start in net.named_parameters():
        way = np.linalg.norm(there[name] - start.detach().numpy())
        rounding = np.linalg.norm(values[name] - there[name])
        assert way > 1e-3
        assert np.linalg.norm(weights[name] - there[name]) < 1e-4 * way + 4 * rounding


@pytest.mark.parametrize("make", [adam, rmsprop, adagrad, mixed])
def test_what_is_written_reads_as_what_it_was_written_from(
    make: Make, alone: Callable[[Make], tuple[ModuleType, Recipe]]
) -> None:
    module, recipe = alone(make)
    net = layers(ms.nn.SequentialCell, ms.nn.Dense)
    names = {id(p): p.name for p in net.trainable_params()}
    again = read_mindspore(Script(**module.recipe(net)), names, 8, "train.py:recipe")
    assert again.options == recipe.options
    assert again.scaler == recipe.scaler
    assert [rule.kind for rule in again.rules.values()] == [rule.kind for rule in recipe.rules.values()]
    assert {n: r.settings for n, r in again.rules.items()} == {n: r.settings for n, r in recipe.rules.items()}
    np.testing.assert_allclose(again.rules["0.weight"].rates, recipe.rules["0.weight"].rates, rtol=1e-6)


def test_what_it_writes_reads_well(emitted: Callable[[str], tuple[Path, list[float]]]) -> None:
    text = (emitted("vision")[0] / "train.py").read_text()
    assert 'nn.CrossEntropyLoss(reduction="mean", label_smoothing=0.1)' in text
    assert "return nn.SGD(" in text
    assert "class Rates(" in text
    assert "class Adam" not in text


def recipe_of(**changes: Any) -> Recipe:
    rule = UpdateRule("SGD", {"momentum": 0.0, "weight decay": 0.0}, (0.1,))
    options = {"clip norm": None, "clip value": None, "gradients times": 1.0, "precision": None}
    parts = {
        "loss": LossRule("squared error", {"reduction": "mean"}, "nn.MSELoss"),
        "rules": {"a.weight": rule},
        "options": {**options, "averaged weights": None, **changes.pop("options", {})},
    }
    return Recipe("torch", "t.py:recipe", "torch.optim.SGD", **{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"options": {"precision": "bfloat16"}},
            r"float32 or mixed precision in float16.*`bfloat16`.*\n.*CPU",
        ),
        ({"options": {"precision": "o2"}}, r"float32 or mixed precision in float16, got `o2`"),
        (
            {"options": {"averaged weights": "a AveragedModel"}},
            "the decay of averaged weights.*AveragedModel",
        ),
        ({"scaler": LossScaler(1.0, 2.0, 100, 0.25)}, "a loss scaler that shrinks as it grows"),
        ({"loss": LossRule("", {}, "my_loss")}, "a loss that MindSpore has.*my_loss"),
        ({"rules": {}}, "an optimizer over the net's parameters"),
        (
            {"rules": {"a.weight": UpdateRule("FTRL", {"weight decay": 0.0}, (0.1,))}},
            "expected SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Rprop or ASGD",
        ),
        (
            {
                "rules": {
                    "a.weight": UpdateRule("SGD", {"momentum": 0.0, "weight decay": 0.0}, (0.1,)),
                    "b.weight": UpdateRule("SGD", {"momentum": 0.5, "weight decay": 0.0}, (0.1,)),
                }
            },
            "groups that differ in more",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendError, match=rf"E602 .*{message}"):
        training_source(recipe_of(**changes), ["a.weight", "b.weight"], ["x"], "t.py:recipe")


@pytest.mark.parametrize(
    "name", ['a""".py', "a'b\"c.py", "a\\", "a\nimport nothing_of_that_name\n.py", "训练\t{x}.py", "\udc80"]
)
def test_names_of_files_and_functions_are_text_and_nothing_else(name: str) -> None:
    loss = LossRule("squared error", {"reduction": "mean"}, name, measured=True)
    text = training_source(recipe_of(loss=loss), ["a.weight"], ["x"], name)
    tree = ast.parse(text)
    assert f"as `{name}` trains" in str(ast.get_docstring(tree, clean=False))
    assert [type(node) for node in tree.body[1:3]] == [ast.Import, ast.ImportFrom]
    usual = training_source(recipe_of(loss=LossRule(loss.kind, loss.settings)), ["a.weight"], ["x"], "t.py")
    assert ast.dump(ast.Module(tree.body[1:])) == ast.dump(ast.Module(ast.parse(usual).body[1:]))


def test_only_a_verified_mindspore_output_takes_a_recipe(tmp_path: Path) -> None:
    graph = regraft.load(Recurrent(), ("4x5x6",))
    with pytest.raises(UsageError, match="E001 expected a verified output"):
        regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "x.onnx", recipe=adamw)
