"""Two training scripts: a planted mistake is named with its edit in ten lines, and right ports are equal."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from mindspore.experimental import optim as experimental
from torch import nn as tnn
from torch.nn import functional

import regraft
from regraft.cli import main
from regraft.ir import ModelError
from regraft.verification.recipes.comparing import RecipeComparison
from regraft.verification.recipes.report import RecipeReport, RecipeRow
from regraft.verification.recipes.scripts import Recipes
from regraft.verification.report import OutputRow, Report
from regraft.verification.runners.select_runner import exact_runner, own_runner, paired_runner
from regraft.verification.sides import Sides
from regraft.verification.two_nets.nets import NetComparison
from regraft.verification.two_nets.report import Nets

nn, ops = ms.nn, ms.ops
STEPS = 6


class Original(tnn.Module):
    """Convolutions with batch statistics, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = tnn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = tnn.BatchNorm2d(8)
        self.fc = tnn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.tanh(self.bn(self.conv(x))).mean((2, 3)))


class Port(nn.Cell):
    """The same by another hand."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, pad_mode="pad", padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Dense(8, 5)

    def construct(self, x):
        return self.head(ops.tanh(self.norm(self.features(x))).mean((2, 3)))


def sgd(net: tnn.Module) -> dict[str, Any]:
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, total_iters=4)
    loss = tnn.CrossEntropyLoss(label_smoothing=0.1)
    return {"loss": loss, "optimizer": optimizer, "schedule": schedule, "clip_norm": 1.0}


def adam(net: tnn.Module) -> dict[str, Any]:
    return {"loss": tnn.CrossEntropyLoss(), "optimizer": torch.optim.Adam(net.parameters(), 1e-3)}


def adamw(net: tnn.Module) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.05)
    return {"loss": tnn.CrossEntropyLoss(), "optimizer": optimizer}


def cosine(net: tnn.Module) -> dict[str, Any]:
    made = adam(net)
    return {**made, "schedule": torch.optim.lr_scheduler.CosineAnnealingLR(made["optimizer"], 20)}


def by_epoch(net: tnn.Module) -> dict[str, Any]:
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    every = {"schedule_every": "epoch", "steps_per_epoch": 3}
    return {"loss": tnn.CrossEntropyLoss(), "optimizer": optimizer, "schedule": schedule, **every}


def regression(net: tnn.Module) -> tuple[Any, Any]:
    return tnn.MSELoss(), torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, nesterov=True)


WARM = [0.1 * (0.2 + 0.8 * min(t, 4) / 4) for t in range(50)]


def port_of_sgd(loss: Any = None, rates: Any = WARM, *, grouped: bool = True, **changes: Any) -> Any:
    def recipe(net: nn.Cell) -> dict[str, Any]:
        parameters = net.trainable_params()
        options = {"momentum": 0.9, "weight_decay": 1e-3, **changes.get("sgd", {})}
        optimizer = nn.SGD([{"params": parameters}] if grouped else parameters, rates, **options)
        given = loss or nn.CrossEntropyLoss(label_smoothing=0.1)
        return {"loss": given, "optimizer": optimizer, "clip_norm": changes.get("clip", 1.0)}

    return recipe


def ported(make: Callable[[list[ms.Parameter]], Any], loss: Any = None, **more: Any) -> Any:
    def recipe(net: nn.Cell) -> dict[str, Any]:
        return {"loss": loss or nn.CrossEntropyLoss(), "optimizer": make(net.trainable_params()), **more}

    return recipe


@pytest.fixture(scope="module")
def compare() -> Iterator[Callable[..., RecipeReport]]:
    """Compare two recipes on the pair of nets above; they are loaded once."""
    torch.manual_seed(0)
    graphs = [regraft.load(net, ("4x3x8x8",)) for net in (Original(), Port())]
    nets = NetComparison(*graphs, None, train=True)
    source, target, exact = (
        own_runner(graphs[0]),
        paired_runner(graphs[1], nets.values(), nets.modules),
        exact_runner(graphs[0]),
    )

    def made(mine: Any, theirs: Any, steps: int = STEPS, **how: bool) -> RecipeReport:
        sides = Sides(graphs[0], source, target, exact, by_hand=True)
        comparison = RecipeComparison(sides, Recipes(mine, theirs, steps), nets.pairing, 0)
        return comparison.report(**{"agree": True, "equal_weights": True, **how})

    yield made
    for runner in (source, target):
        runner.close()


def smoothed(output, labels):
    return ops.cross_entropy(output, labels, label_smoothing=0.1)


def drawn_classes(random, shape):
    return random.integers(0, 5, shape[:1])


def drawn_classes_and_masks(random, shape):
    return {"class": drawn_classes(random, shape), "known": random.random(shape[:1]) < 0.6}


def of_torch(loss: Any, **more: Any) -> Any:
    return lambda net: {"loss": loss, "optimizer": torch.optim.SGD(net.parameters(), 0.1), **more}


def of_mindspore(loss: Any, **more: Any) -> Any:
    return ported(lambda p: nn.SGD(p, 0.1), loss, **more)


def masked(output, labels):
    return functional.cross_entropy(output, labels, reduction="none")[labels > 0].mean()


def masked_by_products(output, labels):
    values, counts = ops.cross_entropy(output, labels, reduction="none"), (labels > 0).astype(ms.float32)
    return (values * counts).sum() / counts.sum()


def masked_by_labels(output, labels):
    values = functional.cross_entropy(output, labels["class"], reduction="none")
    return values[labels["known"]].mean()


def selected_by_labels(output, labels):
    values = ops.cross_entropy(output, labels["class"], reduction="none")
    return ops.masked_select(values, labels["known"]).mean()


def at_places(output, labels):
    at = (labels > 0).nonzero().squeeze(1)
    return functional.cross_entropy(output[at], labels[at])


def at_places_too(output, labels):
    at = ops.nonzero(labels > 0).squeeze(1)
    return ops.cross_entropy(output[at], labels[at])


def in_parts(output, labels):
    return {"class": functional.cross_entropy(output, labels), "size": output.pow(2).mean()}


def in_parts_too(output, labels):
    return {"size": output.pow(2).mean(), "class": ops.cross_entropy(output, labels)}


def with_its_parts(output, labels):
    parts = in_parts(output, labels)
    return parts["class"] + 0.1 * parts["size"], parts["class"].detach()


WEIGHTS = {"class": 1.0, "size": 0.1}

RIGHT = {
    "sgd": (sgd, port_of_sgd()),
    "sgd, momentum": (
        lambda net: {
            **adam(net),
            "optimizer": torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-3),
            "clip_norm": 1.0,
        },
        ported(lambda p: nn.Momentum([{"params": p}], 0.1, 0.9, weight_decay=1e-3), clip_norm=1.0),
    ),
    "a function as the loss": (sgd, port_of_sgd(smoothed)),
    "adam, whose epsilon is added elsewhere": (
        adam,
        ported(lambda p: nn.Adam(p, 1e-3), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")),
    ),
    "adamw": (adamw, ported(lambda p: experimental.AdamW(p, 1e-3, weight_decay=0.05))),
    "one-hot labels": (
        adam,
        ported(lambda p: nn.Adam(p, 1e-3), nn.SoftmaxCrossEntropyWithLogits(reduction="mean")),
    ),
    "a loss scale on both ends": (
        adam,
        ported(lambda p: nn.Adam(p, 1e-3, loss_scale=128.0), loss_scale=128.0),
    ),
    "a loss scale that the clipping knows": (
        lambda net: {**adam(net), "clip_norm": 0.5},
        ported(lambda p: nn.Adam(p, 1e-3, loss_scale=128.0), loss_scale=128.0, clip_norm=64.0),
    ),
    "float16, with scalers": (
        lambda net: {**adam(net), "precision": torch.float16, "loss_scale": torch.amp.GradScaler("cpu")},
        ported(
            lambda p: nn.Adam(p, 1e-3),
            precision=ms.float16,
            loss_scale=ms.amp.DynamicLossScaler(65536.0, 2, 2000),
        ),
    ),
    "one cycle": (
        lambda net: {
            "loss": tnn.CrossEntropyLoss(),
            "optimizer": (o := torch.optim.SGD(net.parameters(), 0.1)),
            "schedule": torch.optim.lr_scheduler.OneCycleLR(
                o, 0.1, total_steps=8, cycle_momentum=False, anneal_strategy="linear"
            ),
        },
        ported(
            lambda p: nn.SGD(p, np.interp(range(8), [0, 1.4, 7], [0.004, 0.1, 4e-7]).astype("f").tolist())
        ),
    ),
    "a loss that is not reduced": (
        lambda net: (tnn.CrossEntropyLoss(reduction="sum"), torch.optim.SGD(net.parameters(), 0.01)),
        ported(lambda p: nn.SGD(p, 0.01), nn.SoftmaxCrossEntropyWithLogits(sparse=True)),
    ),
    "RMSprop": (
        lambda net: {**adam(net), "optimizer": torch.optim.RMSprop(net.parameters(), 1e-3, momentum=0.5)},
        ported(lambda p: experimental.RMSprop(p, 1e-3, momentum=0.5)),
    ),
    "regression": (regression, ported(lambda p: nn.SGD(p, 0.05, momentum=0.9, nesterov=True), nn.MSELoss())),
    "masked elements": (of_torch(masked), of_mindspore(masked_by_products)),
    "elements at the places of nonzero": (of_torch(at_places), of_mindspore(at_places_too)),
    "labels and masks in a dict": (
        of_torch(masked_by_labels, labels=drawn_classes_and_masks),
        of_mindspore(selected_by_labels),
    ),
    "parts by name, against the sum and a part": (
        of_torch(with_its_parts, labels=drawn_classes, loss_weights=[1, 0]),
        of_mindspore(in_parts_too, loss_weights=WEIGHTS),
    ),
    "by epoch": (by_epoch, ported(lambda p: nn.SGD(p, [0.1 * 0.5 ** (t // 3) for t in range(30)]))),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_port_is_equal(name: str, compare: Callable[..., RecipeReport]) -> None:
    report = compare(*RIGHT[name])
    assert report.passed, "\n".join(report.lines())
    assert report.trajectory is not None
    assert report.trajectory.steps == STEPS
    assert not report.differing


WRONG: dict[str, tuple[Any, Any, str, str]] = {
    "label smoothing": (
        sgd,
        port_of_sgd(nn.CrossEntropyLoss()),
        "label smoothing: 0.1 in the source, 0 in",
        "nn.CrossEntropyLoss(label_smoothing=0.1)",
    ),
    "reduction": (
        sgd,
        port_of_sgd(nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.1)),
        "reduction: mean in the source, sum in the target",
        'reduction="mean"',
    ),
    "the reduction that SoftmaxCrossEntropyWithLogits has by default": (
        adam,
        ported(lambda p: nn.Adam(p, 1e-3), nn.SoftmaxCrossEntropyWithLogits(sparse=True)),
        "reduction: mean in the source, none, so the gradients are the sum's",
        'reduction="mean"',
    ),
    "reduction of a function": (
        sgd,
        port_of_sgd(lambda o, y: 2 * ops.cross_entropy(o, y, label_smoothing=0.1)),
        "2 times the source's on every batch",
        "`x` in place of `2 * x` - at test_recipes.py:",
    ),
    "weights of parts": (
        of_torch(in_parts, labels=drawn_classes, loss_weights=WEIGHTS),
        of_mindspore(in_parts_too, loss_weights={"class": 1.0, "size": 0.01}),
        'loss_weights: {"class": 1, "size": 0.1} in the source, {"class": 1, "size": 0.01} in the target',
        '`loss_weights={"class": 1, "size": 0.1}` - at test_recipes.py:',
    ),
    "decay on normalisation": (
        sgd,
        port_of_sgd(grouped=False),
        "weight decay: 0.001 in the source, 0 in the target, for 2 parameters: `norm.gamma`, `norm.beta`",
        "nn.SGD([{'params': net.trainable_params()}]",
    ),
    "decay on the bias too": (
        lambda net: {
            "loss": tnn.CrossEntropyLoss(),
            "optimizer": torch.optim.SGD(
                [
                    {"params": [net.conv.weight, net.fc.weight], "weight_decay": 0.01},
                    {"params": [net.bn.weight, net.bn.bias, net.fc.bias]},
                ],
                0.1,
            ),
        },
        ported(lambda p: nn.SGD(p, 0.1, weight_decay=0.01)),
        "weight decay: 0 in the source, 0.01 in the target, for 1 parameter: `head.bias`",
        "{'params': these, 'weight_decay': 0.0}",
    ),
    "warm-up": (
        sgd,
        port_of_sgd(rates=WARM[1:]),
        "the target is one step ahead",
        "its value for step - 1",
    ),
    "warm-up by a Cell": (
        lambda net: {
            "loss": tnn.CrossEntropyLoss(),
            "optimizer": (o := torch.optim.SGD(net.parameters(), 0.1)),
            "schedule": torch.optim.lr_scheduler.LambdaLR(o, lambda t: min(t + 1, 5) / 5),
        },
        ported(lambda p: nn.SGD(p, nn.WarmUpLR(0.1, 5))),
        "the target is one step behind",
        "its value for step + 1",
    ),
    "by step, not by epoch": (
        by_epoch,
        ported(lambda p: nn.SGD(p, [0.1 * 0.5**t for t in range(30)])),
        "the source changes its rate every 3 steps (an epoch), the target at every step",
        "stays for 3 steps",
    ),
    "learning rate": (
        adam,
        ported(lambda p: nn.Adam(p, 1e-2)),
        "learning rate: 0.001 in the source, 0.01 in the target",
        "a learning rate of 0.001",
    ),
    "epsilon": (
        adam,
        ported(lambda p: nn.Adam(p, 1e-3, eps=1e-3)),
        "epsilon: 1e-08 in the source, 0.001 in the target",
        "nn.Adam(…, eps=1e-08)",
    ),
    "bias correction": (
        adamw,
        ported(lambda p: nn.AdamWeightDecay([{"params": p}], 1e-3, eps=1e-8, weight_decay=0.05)),
        "bias correction: yes in the source, no in the target",
        "mindspore.experimental.optim.AdamW",
    ),
    "a large epsilon that is added elsewhere": (
        lambda net: {**adam(net), "optimizer": torch.optim.Adam(net.parameters(), 1e-3, eps=1e-3)},
        ported(lambda p: nn.Adam(p, 1e-3, eps=1e-3)),
        "epsilon is added: to the corrected root (torch) in the source, to the root before its correction",
        "mindspore.experimental.optim.AdamW",
    ),
    "centralised gradients": (
        adam,
        ported(lambda p: nn.Adam([{"params": p, "grad_centralization": True}], 1e-3)),
        "centralised gradients: no in the source, yes in the target",
        "",
    ),
    "L2 in place of decoupled decay": (
        adamw,
        ported(lambda p: nn.Adam([{"params": p}], 1e-3, weight_decay=0.05)),
        "decay: apart from the gradient (decoupled) in the source, added to the gradient (L2)",
        "mindspore.experimental.optim.AdamW",
    ),
    "Nesterov that the CPU leaves out": (
        regression,
        ported(lambda p: nn.Momentum(p, 0.05, 0.9, use_nesterov=True), nn.MSELoss()),
        "nesterov: yes in the source, no in the target",
        "nn.SGD(…, momentum=…, nesterov=True)",
    ),
    "momentum": (
        sgd,
        port_of_sgd(sgd={"momentum": 0.8}),
        "momentum: 0.9 in the source, 0.8 in the target",
        "momentum=0.9 in `nn.SGD`",
    ),
    "clipping": (
        sgd,
        port_of_sgd(clip=None),
        "clip norm: 1 in the source, none in the target",
        'ops.clip_by_global_norm(gradients, 1)` before the optimizer is called, and `"clip_norm": 1` in the',
    ),
    "rates of another form": (
        cosine,
        ported(lambda p: nn.Adam(p, 1e-3)),
        "learning rate: at step",
        "the source's rates, one for each step, as a list in `nn.Adam`",
    ),
    "rates of an optimizer that takes no list": (
        cosine,
        ported(lambda p: experimental.Adam(p, 1e-3)),
        "learning rate: at step",
        'mindspore.experimental.optim.lr_scheduler.LambdaLR(optimizer, …)`, and `"schedule"` in the recipe',
    ),
    "clipping of scaled gradients": (
        lambda net: {**adam(net), "clip_norm": 1.0},
        ported(lambda p: nn.Adam(p, 1e-3, loss_scale=128.0), loss_scale=128.0, clip_norm=1.0),
        "clip norm: 1 in the source, 0.0078125 in the target",
        "ops.clip_by_global_norm(gradients, 1)",
    ),
    "averaged weights": (
        lambda net: {**adam(net), "ema": 0.999},
        ported(lambda p: nn.Adam(p, 1e-3), ema=0.99),
        "averaged weights: 0.999 in the source, 0.99 in the target",
        "average += (1 - 0.999) * (weight - average)",
    ),
    "precision": (
        lambda net: {**adam(net), "precision": "float16"},
        ported(lambda p: nn.Adam(p, 1e-3)),
        "precision: float16 in the source, none in the target",
        'ms.amp.auto_mixed_precision(net, "auto", ms.float16)',
    ),
    "no loss scaler in float16": (
        lambda net: {**adam(net), "precision": "float16", "loss_scale": torch.amp.GradScaler("cpu")},
        ported(lambda p: nn.Adam(p, 1e-3), precision="float16"),
        "loss scaler: from 65536, times 2 every 2000 steps, 0.5 at overflow in the source, none in",
        "ms.amp.DynamicLossScaler",
    ),
    "RMSProp, which starts elsewhere": (
        lambda net: {**adam(net), "optimizer": torch.optim.RMSprop(net.parameters(), 1e-3)},
        ported(lambda p: nn.RMSProp(p, 1e-3, decay=0.99, epsilon=1e-8)),
        "mean square starts at: 0 in the source, 1 in the target",
        "mindspore.experimental.optim.RMSprop",
    ),
    "a loss scale on one end": (
        adam,
        ported(lambda p: nn.Adam(p, 1e-3, loss_scale=128.0)),
        "gradients times: 1 in the source, 0.0078125 in the target",
        "the same loss_scale in the loop and in `nn.Adam",
    ),
    "what is trained": (
        adam,
        ported(lambda p: nn.Adam(p[:1], 1e-3)),
        "trained: yes in the source, no in the target, for 4 parameters",
        "give them to `nn.Adam`",
    ),
    "ignore_index": (
        lambda net: {**adam(net), "loss": tnn.CrossEntropyLoss(ignore_index=3)},
        ported(lambda p: nn.Adam(p, 1e-3), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")),
        "ignore_index: 3 in the source, none in the target",
        "nn.CrossEntropyLoss(ignore_index=3)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_named_with_its_edit(name: str, compare: Callable[..., RecipeReport]) -> None:
    mine, theirs, what, edit = WRONG[name]
    report = compare(mine, theirs, steps=2)
    text = "\n".join(report.lines()[:8])  # which the verdict and the line below it precede
    assert not report.passed
    assert what in text, text
    assert edit in text, text


def test_what_no_setting_shows_leaves_the_trajectory(compare: Callable[..., RecipeReport]) -> None:
    """Labels that are not the kind's: neither script says so, and the gradients tell."""

    def labels(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return random.integers(0, 5, shape[:1])

    def mine(net: tnn.Module) -> dict[str, Any]:
        odd = lambda o, y: functional.cross_entropy(o, y) + 1e-2 * (o**2).sum()  # noqa: E731
        return {"loss": odd, "optimizer": torch.optim.SGD(net.parameters(), 0.1), "labels": labels}

    def theirs(net: nn.Cell) -> dict[str, Any]:
        odd = lambda o, y: ops.cross_entropy(o, y) + 1e-2 * ops.stop_gradient((o**2).sum())  # noqa: E731
        return {"loss": odd, "optimizer": nn.SGD(net.trainable_params(), 0.1)}

    report = compare(mine, theirs)
    assert not report.differing
    assert not report.passed
    assert report.trajectory is not None
    assert report.trajectory.left is not None
    assert report.trajectory.left.step == 1
    assert "leaves tolerance after step 1 of 6, first `" in "\n".join(report.lines())


def test_a_loss_that_tells_no_labels_needs_some(compare: Callable[..., RecipeReport]) -> None:
    mine = lambda net: (lambda o, y: (o * y).sum() ** 2, torch.optim.SGD(net.parameters(), 0.1))  # noqa: E731
    theirs = ported(lambda p: nn.SGD(p, 0.1), lambda o, y: (o * y).sum() ** 2)
    with pytest.raises(ModelError, match=r"E704 expected a loss whose kind of labels is known.*\n.*labels"):
        compare(mine, theirs)


def test_a_list_of_rates_that_ends_ends_the_steps(compare: Callable[..., RecipeReport]) -> None:
    report = compare(sgd, port_of_sgd(rates=WARM[:4]))
    assert report.passed
    assert report.trajectory is not None
    assert report.trajectory.steps == 4
    assert "4 steps were followed: a list of learning rates has no more" in report.notes


def test_nets_that_differ_are_not_followed(compare: Callable[..., RecipeReport]) -> None:
    assert compare(sgd, port_of_sgd(), agree=False).trajectory is None
    assert compare(sgd, port_of_sgd(), equal_weights=False).trajectory is None


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (lambda _: {"loss": tnn.MSELoss()}, "E704 expected a recipe to return `loss` and `optimizer`"),
        (lambda net: {**adam(net), "lossscale": 2}, "got `lossscale`.*\n.*`loss_scale`"),
        (lambda net: {**adam(net), "schedule_every": "week"}, 'schedule_every "step" or "epoch"'),
        (lambda net: {**adam(net), "schedule_every": "epoch"}, "expected steps_per_epoch"),
        (lambda net: {**adam(net), "loss": 3}, "expected a loss that can be called, got int"),
        (lambda _: 1 / 0, "E102 .*ZeroDivisionError"),
        (
            of_torch(in_parts),
            r"E704 expected `loss_weights` of the parts that the loss gives \(`class`, `size`",
        ),
        (of_torch(in_parts, loss_weights={"class": 1}), r"\(`class`, `size`\), got `class`.*\n.*0 for one"),
        (of_torch(in_parts, loss_weights={"class": 0, "size": 0}), "a weight above 0 in `loss_weights`"),
        (of_torch(in_parts, loss_weights=2), "`loss_weights` as numbers by key or in order, got 2"),
        (of_torch(masked, loss_weights=[1]), "got one that gives one tensor"),
    ],
)
def test_what_is_no_recipe_is_refused(
    recipe: Any, message: str, compare: Callable[..., RecipeReport]
) -> None:
    with pytest.raises(ModelError, match=message):
        compare(recipe, port_of_sgd())


TORCH = """
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)
    def forward(self, x):
        return self.fc(x)

def recipe(net):
    return nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1)

def adam(net):
    return nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), 0.01)

def batches():
    draw = np.random.default_rng(0)
    return [(draw.random((4, 6), np.float32), np.arange(4)) for _ in range(2)]

def with_data(net):
    loss, optimizer = recipe(net)
    return {"loss": loss, "optimizer": optimizer, "data": batches}
"""

MINDSPORE = """
import numpy as np
from mindspore import nn

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(6, 4)
    def construct(self, x):
        return self.fc(x)

def recipe(net):
    return nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 0.1)

def wrong(net):
    return nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 0.2)

def adam(net):
    return nn.CrossEntropyLoss(), nn.Adam(net.trainable_params(), 0.01)

def batches():
    draw = np.random.default_rng(0)
    return [{"x": draw.random((4, 6), np.float32), "y": np.arange(4)} for _ in range(2)]

def later():
    return [{**batch, "y": batch["y"] + 1} for batch in batches()]

def with_data(net):
    loss, optimizer = recipe(net)
    return {"loss": loss, "optimizer": optimizer, "data": batches}

def with_later(net):
    return {**with_data(net), "data": later}

def with_hidden(net):
    return {**with_data(net), "data": lambda: batches()}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(TORCH)
    (tmp_path / "b.py").write_text(MINDSPORE)
    return tmp_path


def invoke(folder: Path, *arguments: str) -> Any:
    nets = (f"{folder}/a.py:Net", f"{folder}/b.py:Net", "--input", "4x6")
    return CliRunner().invoke(main, ["verify", *nets, *arguments])


def test_data_of_the_recipes_are_compared_where_both_state_them(files: Path) -> None:
    def run(target: str, *more: str) -> Any:
        given = ("--recipe", f"{files}/a.py:with_data", "--recipe", f"{files}/b.py:{target}", "--steps", "2")
        return invoke(files, *given, *more)

    right = run("with_data", "-v")
    assert right.exit_code == 0, right.output
    assert "data: 8 samples in 2 fields compared" in right.output
    wrong = run("with_later")
    assert wrong.exit_code == 1
    assert wrong.output.startswith("DIFFERENT in 1 setting of the recipe: ")
    assert "  data, y: `y`: labels are larger by 1\n" in wrong.output
    assert "    write: take 1 off the labels" in wrong.output
    assert "trajectory: 2 steps agree" in wrong.output
    alone = run("recipe", "-v")
    assert alone.exit_code == 0
    assert "the data were not compared: only the recipe of the source states its `data`" in alone.output
    hidden = run("with_hidden")
    assert hidden.exit_code == 2
    assert "E704 expected as `data` a function at the top of a file" in hidden.output


def test_the_command(files: Path) -> None:
    right = invoke(files, "--recipe", f"{files}/a.py:recipe", "--recipe", f"{files}/b.py:recipe")
    assert right.exit_code == 0, right.output
    assert right.output.startswith("equal: ")
    assert "trajectory: 20 steps agree" in right.output
    arguments = ("--recipe", f"{files}/a.py:recipe", "--recipe", f"{files}/b.py:wrong", "--steps", "3")
    wrong = invoke(files, *arguments)
    first = "\n".join(wrong.output.splitlines()[:10])
    assert wrong.exit_code == 1
    assert first.startswith("DIFFERENT in 1 setting of the recipe: ")
    assert "learning rate: 0.1 in the source, 0.2 in the target" in first
    assert "write: a learning rate of 0.1" in first
    document = json.loads(invoke(files, *arguments, "--json").output)
    assert document["recipes"]["rows"][0]["setting"] == "learning rate"
    assert document["recipes"]["trajectory"]["left"]["step"] == 1
    assert document["passed"] is False


def test_the_other_way_round(files: Path) -> None:
    a, b = files / "a.py", files / "b.py"
    report = regraft.verify(f"{b}:Net", f"{a}:Net", ("4x6",), recipes=(f"{b}:adam", f"{a}:adam"), steps=STEPS)
    assert report.passed, report.render()
    assert report.recipes is not None
    assert [row.setting for row in report.recipes.rows] == ["epsilon is added"]
    assert report.recipes.trajectory is not None
    assert report.recipes.trajectory.apart < 1e-4
    wrong = regraft.verify(
        f"{b}:Net", f"{a}:Net", ("4x6",), recipes=(f"{b}:wrong", f"{a}:recipe"), steps=STEPS
    )
    assert not wrong.passed
    assert wrong.recipes is not None
    assert wrong.recipes.rows[0].setting == "learning rate"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a.py:recipe"], "E001 expected --recipe twice"),
        (["a.py:recipe", "b.py"], "E001 expected a recipe as file.py:function, got"),
        (["a.py:recipe", "b.py:missing"], "E102 expected a function `missing`"),
        (["a.py:recipe", "c.py:recipe"], "E101 no such file"),
    ],
)
def test_a_recipe_that_cannot_be_found(files: Path, given: list[str], message: str) -> None:
    found = invoke(files, *(part for name in given for part in ("--recipe", f"{files}/{name}")))
    assert found.exit_code == 2
    assert message in found.output


def test_the_verdict_names_the_recipe_beside_what_else_differs() -> None:
    recipes = RecipeReport(
        "a", "b", [RecipeRow("momentum", "0.9", "0"), RecipeRow("labels", "a", "b", counts=False)]
    )
    row = OutputRow("y", "N=2", (2,), 0.0, 0.0, 1e-6, passed=True)
    report = Report("a", "b", "", [row], recipes=recipes, nets=Nets("mindspore", [], ["fc.bias"]))
    assert report.differs
    assert report.summary().startswith("DIFFERENT in 1 setting of the recipe, 1 parameter on one side only: ")
    wrong = Report("a", "b", "", [replace(row, passed=False)], recipes=recipes)
    assert wrong.summary().startswith("DIFFERENT in 1 setting of the recipe: ")
    assert wrong.summary().endswith("1 beyond tolerance")
