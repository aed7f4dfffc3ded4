"""train.py: what trains the source trains the emitted net, in both modes, and goes on from a checkpoint."""

import ast
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
from regraft.backends.mindspore_source.training_script import training_source
from regraft.ir import BackendError, UsageError
from regraft.ir.recipe import LossRule, Recipe, UpdateRule

STEPS = 20


class Convolutions(nn.Module):
    """A residual block with batch statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.bn1(self.stem(x)))
        return self.fc(torch.tanh(self.bn2(self.conv(x)) + x).mean((2, 3)))


class Transformer(nn.Module):
    """A ViT in small: patches, attention, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        normal = self.norm(x)
        x = x + self.attention(normal, normal, normal, need_weights=False)[0]
        return self.head((x + self.mlp(x)).mean(1))


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
    return {"loss": loss, "optimizer": optimizer, "schedule": schedule, "clip_norm": 1.0}


def adamw(net: nn.Module) -> dict[str, Any]:
    plain = [p for n, p in net.named_parameters() if n.endswith("bias")]
    decayed = [p for n, p in net.named_parameters() if not n.endswith("bias")]
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0, "lr": 2e-3}]
    optimizer = torch.optim.AdamW(groups, 1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    loss = nn.CrossEntropyLoss()
    return {"loss": loss, "optimizer": optimizer, "schedule": schedule, "steps": STEPS}


def adam(net: nn.Module) -> dict[str, Any]:
    optimizer = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=0.01, amsgrad=True)
    return {"loss": nn.MSELoss(), "optimizer": optimizer, "clip_value": 0.05}


Make = Callable[[nn.Module], dict[str, Any]]
CASES: dict[str, tuple[type[nn.Module], Make, str]] = {
    "resnet": (Convolutions, momentum, "4x3x8x8"),
    "vit": (Transformer, adamw, "4x3x8x8"),
    "lstm": (Recurrent, adam, "4x5x6"),
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


def trained_in_torch(net: nn.Module, make: Make, data: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """The losses of the loop that everybody writes."""
    script, losses = make(net.train()), []
    for x, y in data:
        script["optimizer"].zero_grad()
        loss = script["loss"](net(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        if "clip_norm" in script:
            nn.utils.clip_grad_norm_(net.parameters(), script["clip_norm"])
        if "clip_value" in script:
            nn.utils.clip_grad_value_(net.parameters(), script["clip_value"])
        script["optimizer"].step()
        if "schedule" in script:
            script["schedule"].step()
        losses.append(loss.item())
    return losses


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
            files, report = regraft.api.rewrite_file(
                graph, regraft.rewrite(graph), folder / "out", "mindspore", recipe=recipe
            )
            assert report is not None
            assert report.passed, report.render()
            assert report.recipes is not None
            assert report.recipes.trajectory is not None
            assert report.recipes.trajectory.steps == STEPS
            assert [f.name for f in files if f.name.startswith("train")] == ["train.py"]
            found[name] = folder / "out", trained_in_torch(net, recipe, batches(shape))
        return found[name]

    return make


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", ["resnet", pytest.param("vit", marks=SLOW), pytest.param("lstm", marks=SLOW)]
)
def test_it_trains_as_the_source_in_graph_mode(
    name: str, emitted: Callable[[str], tuple[Path, list[float]]], graph_mode: None
) -> None:
    folder, losses = emitted(name)
    np.testing.assert_allclose(trained(step_of(folder), batches(CASES[name][2])), losses, rtol=2e-4)


@SLOW
def test_it_goes_on_from_what_was_saved(
    emitted: Callable[[str], tuple[Path, list[float]]], tmp_path: Path
) -> None:
    folder, losses = emitted("vit")
    data, half = batches(CASES["vit"][2]), STEPS // 2
    step = step_of(folder)
    first = trained(step, data[:half])
    ms.save_checkpoint(step, str(tmp_path / "half.ckpt"))
    again = step_of(folder)
    left = ms.load_param_into_net(again, ms.load_checkpoint(str(tmp_path / "half.ckpt")), strict_load=True)
    assert left == ([], [])
    np.testing.assert_allclose(first + trained(again, data[half:]), losses, rtol=2e-4)
    assert losses[0] != pytest.approx(losses[half], rel=1e-3)


def test_what_it_writes_reads_well(emitted: Callable[[str], tuple[Path, list[float]]]) -> None:
    text = (emitted("resnet")[0] / "train.py").read_text()
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
        ({"options": {"precision": "float16"}}, "without `precision`"),
        ({"options": {"gradients times": 8.0}}, "without `gradients times`"),
        ({"loss": LossRule("", {}, "my_loss")}, "a loss that MindSpore has.*my_loss"),
        ({"rules": {}}, "an optimizer of the net's parameters"),
        (
            {"rules": {"a.weight": UpdateRule("RMSprop", {"weight decay": 0.0}, (0.1,))}},
            "expected SGD, Adam or AdamW",
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
    with pytest.raises(UsageError, match="E001 expected a verified MindSpore output"):
        regraft.api.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "x.onnx", recipe=adam)
