"""Wrong ports of what trains a net are DIFFERENT, with a line and what to write; right ones are equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import nn, ops
from mindspore.experimental import optim as experimental
from torch import nn as tnn
from torch import optim
from torch.nn import functional as F
from torch.optim import lr_scheduler as schedules

import regraft
from regraft.frontends.constructions import constructions_noted
from regraft.verification import verify
from regraft.verification.recipes.comparing import RecipeComparison
from regraft.verification.recipes.report import RecipeReport
from regraft.verification.recipes.scripts import Recipes
from regraft.verification.runners.select_runner import exact_runner, own_runner, paired_runner
from regraft.verification.sides import Sides
from regraft.verification.two_nets.nets import NetComparison

LINES = Path(__file__).read_text().splitlines()


class Wrong(NamedTuple):
    """A wrong port.

    Attributes:
        port: the recipe or the net.
        write: what the report says to write.
        at: a part of the line that the report names.
    """

    port: Any
    write: str
    at: str


class Pair(NamedTuple):
    """A source, a right port and wrong ones."""

    source: Any
    right: Any
    wrong: tuple[Wrong, ...]


def is_named(text: str, wrong: Wrong) -> bool:
    """Whether a report says what to write, and the line that is wrong."""
    found = re.findall(r"write: (.*) - at test_training_pairs\.py:(\d+)", text)
    return any(wrong.write in said and wrong.at in LINES[int(line) - 1] for said, line in found)


# -- recipes ---------------------------------------------------------------------------------------


class Original(tnn.Module):
    """A normalisation between layers, so that every kind of parameter is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = tnn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn, self.fc = tnn.BatchNorm2d(4), tnn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.tanh(self.bn(self.conv(x))).mean((2, 3)))


class Port(nn.Cell):
    """The same."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1)
        self.bn, self.fc = nn.BatchNorm2d(4), nn.Dense(4, 5)

    def construct(self, x):
        return self.fc(ops.tanh(self.bn(self.conv(x))).mean((2, 3)))


def mine(make: Callable[[Any], Any], loss: Any = None, **more: Any) -> Any:
    return lambda net: {"loss": loss or tnn.CrossEntropyLoss(), "optimizer": make(net.parameters()), **more}


def ours(make: Callable[[Any], Any], loss: Any = None, **more: Any) -> Any:
    return lambda net: {"loss": loss or nn.CrossEntropyLoss(), "optimizer": make(net.trainable_params()), **more}  # fmt: skip  # noqa: E501


def tsgd(p: Any) -> Any:
    return optim.SGD(p, 0.1)


def msgd(p: Any) -> Any:
    return nn.SGD(p, 0.1)


def scheduled(make: Callable[[Any], Any]) -> Any:
    def recipe(net: tnn.Module) -> dict[str, Any]:
        optimizer = optim.SGD(net.parameters(), 0.1)
        return {"loss": tnn.CrossEntropyLoss(), "optimizer": optimizer, "schedule": make(optimizer)}

    return recipe


def by_groups(make: Callable[[Any], Any], loss: Any, parameters: str) -> Any:
    def recipe(net: Any) -> dict[str, Any]:
        held = list(getattr(net, parameters)())
        decayed = {"params": [p for p in held if p.ndim > 1], "weight_decay": 0.05}
        rest = {"params": [p for p in held if p.ndim <= 1], "weight_decay": 0.0}
        return {"loss": loss(), "optimizer": make([decayed, rest])}

    return recipe


WEIGHTS = [1.0, 2.0, 0.5, 1.0, 3.0]
TW, MW = torch.tensor(WEIGHTS), ms.Tensor(WEIGHTS, ms.float32)


def distributions(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    drawn = random.random(shape).astype(np.float32)
    return drawn / drawn.sum(1, keepdims=True)


def signs(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (random.random(shape) < 0.5).astype(np.float32)


def numbers(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (3 * random.standard_normal(shape)).astype(np.float32)


def letters(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.integers(1, 4, shape[0])


def torch_ctc(o, y):
    lengths = torch.tensor([o.shape[0]]), torch.tensor([3])
    return F.ctc_loss(F.log_softmax(o, -1).unsqueeze(1), y[:3].unsqueeze(0), *lengths, blank=0)


def ctc_blank(blank: int) -> Callable[..., Any]:
    def loss(o, y):
        logs, lengths = ops.log_softmax(o, -1).expand_dims(1), (ms.Tensor([o.shape[0]]), ms.Tensor([3]))
        return ops.ctc_loss(logs, y[:3].expand_dims(0), *lengths, blank=blank)[0]

    return loss


class Focal(tnn.Module):
    """A loss of one's own, with a setting."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, o, y):
        error = F.binary_cross_entropy_with_logits(o, y, reduction="none")
        return ((1 - torch.exp(-error)) ** self.gamma * error).mean()


class FocalPort(nn.Cell):
    """The same."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma

    def construct(self, o, y):
        error = ops.binary_cross_entropy_with_logits(o, y, reduction="none")
        return ((1 - ops.exp(-error)) ** self.gamma * error).mean()


def counts(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.integers(0, 5, shape).astype(np.float32)


RECIPES: dict[str, Pair] = {
    "a loss of one's own": Pair(
        mine(tsgd, Focal(2.0), labels=signs),
        ours(msgd, FocalPort(2.0)),
        (Wrong(ours(msgd, FocalPort(1.5)), "2.0 in place of 1.5", "** self.gamma * error"),),
    ),
    "a factor": Pair(
        mine(tsgd, lambda o, y: 0.5 * F.mse_loss(o, y)),
        ours(msgd, lambda o, y: 0.5 * ops.mse_loss(o, y)),
        (
            Wrong(
                ours(msgd, lambda o, y: ops.mse_loss(o, y)),
                "`0.5 * ops.mse_loss(o, y)` in place of",
                "ops.mse_loss(o, y)",
            ),
        ),
    ),
    "a layer whose settings nobody reads": Pair(
        mine(tsgd, tnn.PoissonNLLLoss(), labels=counts),
        ours(msgd, nn.PoissonNLLLoss()),
        (
            Wrong(
                lambda net: (nn.PoissonNLLLoss(log_input=False), msgd(net.trainable_params())),
                "log_input=True in `nn.PoissonNLLLoss`",
                "log_input=False",
            ),
        ),
    ),
    "dampening": Pair(
        mine(lambda p: optim.SGD(p, 0.1, momentum=0.9)),
        ours(lambda p: nn.SGD(p, 0.1, momentum=0.9)),
        (
            Wrong(
                ours(lambda p: nn.SGD(p, 0.1, momentum=0.9, dampening=0.9)),
                "dampening=0 in `nn.SGD`",
                "dampening=0.9",
            ),
        ),
    ),
    "dampening that Momentum lacks": Pair(
        mine(lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.5)),
        ours(lambda p: nn.SGD(p, 0.1, momentum=0.9, dampening=0.5)),
        (
            Wrong(
                ours(lambda p: nn.Momentum(p, 0.1, 0.9)),
                "`nn.SGD(…, momentum=…, dampening=0.5)`",
                "nn.Momentum",
            ),
        ),
    ),
    "nesterov": Pair(
        mine(lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True)),
        ours(lambda p: nn.SGD(p, 0.1, momentum=0.9, nesterov=True)),
        (
            Wrong(
                ours(lambda p: nn.Momentum(p, 0.1, 0.9, use_nesterov=True)),
                "`nn.SGD(…, momentum=…, nesterov=True)`",
                "nn.Momentum",
            ),
            Wrong(ours(lambda p: nn.SGD(p, 0.1, momentum=0.9)), "nesterov=True in `nn.SGD`", "nn.SGD"),
        ),
    ),
    "epsilon": Pair(
        mine(lambda p: optim.Adam(p, 1e-3, eps=1e-4)),
        ours(lambda p: experimental.AdamW(p, 1e-3, eps=1e-4, weight_decay=0.0)),
        (
            Wrong(ours(lambda p: nn.Adam(p, 1e-3)), "`nn.Adam(…, eps=0.0001)`", "nn.Adam(p, 1e-3)"),
            Wrong(ours(lambda p: nn.Adam(p, 1e-3, eps=1e-4)), "experimental.optim.AdamW", "eps=1e-4"),
        ),
    ),
    "betas": Pair(
        mine(lambda p: optim.Adam(p, 1e-3, betas=(0.5, 0.99))),
        ours(lambda p: nn.Adam(p, 1e-3, beta1=0.5, beta2=0.99)),
        (
            Wrong(ours(lambda p: nn.Adam(p, 1e-3, 0.5)), "beta2=0.99 in `nn.Adam`", "nn.Adam(p, 1e-3, 0.5)"),
            Wrong(
                ours(lambda p: experimental.AdamW(p, 1e-3, weight_decay=0.0)),
                "betas=(0.5, 0.99) in `mindspore.experimental.optim.AdamW`",
                "experimental.AdamW",
            ),
        ),
    ),
    "AdamW's own decay": Pair(
        mine(lambda p: optim.AdamW(p, 1e-3)),
        ours(lambda p: experimental.AdamW(p, 1e-3)),
        (
            Wrong(ours(lambda p: nn.Adam(p, 1e-3)), "AdamW(…, weight_decay=0.01)` in place", "nn.Adam"),
            Wrong(ours(lambda p: nn.AdamWeightDecay(p, 1e-3)), "optim.AdamW", "nn.AdamWeightDecay"),
            Wrong(
                ours(lambda p: nn.Adam(p, 1e-3, weight_decay=1e-2)),
                "`mindspore.experimental.optim.AdamW(…)` in place of `nn.Adam`",
                "nn.Adam(p, 1e-3, weight_decay=1e-2)",
            ),
        ),
    ),
    "amsgrad": Pair(
        mine(lambda p: optim.Adam(p, 1e-3, amsgrad=True)),
        ours(lambda p: nn.Adam(p, 1e-3, use_amsgrad=True)),
        (
            Wrong(ours(lambda p: nn.Adam(p, 1e-3)), "use_amsgrad=True in `nn.Adam`", "nn.Adam"),
            Wrong(
                ours(lambda p: experimental.Adam(p, 1e-3, amsgrad=True)),
                "`nn.Adam(…, use_amsgrad=True)` in place",
                "experimental.Adam",
            ),
        ),
    ),
    "another optimizer": Pair(
        mine(lambda p: optim.AdamW(p, 1e-3)),
        ours(lambda p: experimental.AdamW(p, 1e-3)),
        (
            Wrong(
                ours(lambda p: nn.SGD(p, 1e-3)), "AdamW(…, weight_decay=0.01)` in place of `nn.SGD`", "nn.SGD"
            ),
        ),
    ),
    "decay by groups": Pair(
        by_groups(lambda g: optim.AdamW(g, 1e-3), tnn.CrossEntropyLoss, "parameters"),
        by_groups(lambda g: experimental.AdamW(g, 1e-3), nn.CrossEntropyLoss, "trainable_params"),
        (
            Wrong(
                ours(lambda p: experimental.AdamW(p, 1e-3, weight_decay=0.05)),
                "[{'params': these, 'weight_decay': 0.0}, {'params': the others}]",
                "experimental.AdamW(p, 1e-3, weight_decay=0.05)",
            ),
        ),
    ),
    "RMSprop": Pair(
        mine(lambda p: optim.RMSprop(p, 1e-3)),
        ours(lambda p: experimental.RMSprop(p, 1e-3)),
        (Wrong(ours(lambda p: nn.RMSProp(p, 1e-3)), "experimental.optim.RMSprop", "nn.RMSProp"),),
    ),
    "Adagrad": Pair(
        mine(lambda p: optim.Adagrad(p, 1e-2)),
        ours(lambda p: experimental.Adagrad(p, 1e-2)),
        (
            Wrong(ours(lambda p: nn.Adagrad(p, learning_rate=1e-2)), "accum=0)", "nn.Adagrad"),
            Wrong(ours(lambda p: nn.Adagrad(p, accum=0.0)), "a learning rate of 0.01", "accum=0.0)"),
            # the kernel adds 1e-8 to the sum of squares, which no argument changes
            Wrong(
                ours(lambda p: nn.Adagrad(p, accum=0.0, learning_rate=1e-2)),
                "`mindspore.experimental.optim.Adagrad(…)`",
                "accum=0.0, learning_rate",
            ),
        ),
    ),
    "steps of a staircase": Pair(
        scheduled(lambda o: schedules.StepLR(o, 3, 0.1)),
        ours(lambda p: nn.SGD(p, [0.1 * 0.1 ** (t // 3) for t in range(12)])),
        (Wrong(ours(lambda p: nn.SGD(p, nn.ExponentialDecayLR(0.1, 0.1, 3))), "as a list", "DecayLR"),),
    ),
    "length of a cosine": Pair(
        scheduled(lambda o: schedules.CosineAnnealingLR(o, 8)),
        ours(lambda p: nn.SGD(p, nn.CosineDecayLR(0.0, 0.1, 8))),
        (Wrong(ours(lambda p: nn.SGD(p, nn.CosineDecayLR(0.0, 0.1, 80))), "as a list", "80"),),
    ),
    "clipping by norm": Pair(
        mine(tsgd, clip_norm=0.1),
        ours(msgd, clip_norm=0.1),
        (
            Wrong(ours(msgd, clip_value=0.1), "ops.clip_by_global_norm(gradients, 0.1)", "lambda net"),
            Wrong(ours(msgd), "ops.clip_by_global_norm(gradients, 0.1)", "lambda net"),
        ),
    ),
    "clipping by value": Pair(
        mine(tsgd, clip_value=0.01),
        ours(msgd, clip_value=0.01),
        (Wrong(ours(msgd, clip_norm=0.01), "ops.clip_by_value(gradients, -0.01, 0.01)", "lambda net"),),
    ),
    "averages": Pair(
        mine(tsgd, ema=0.999),
        ours(msgd, ema=0.999),
        (Wrong(ours(msgd), "average += (1 - 0.999)", "lambda net"),),
    ),
    "weights of classes": Pair(
        mine(tsgd, lambda o, y: F.cross_entropy(o, y, weight=TW)),
        ours(msgd, lambda o, y: ops.cross_entropy(o, y, weight=MW)),
        (
            Wrong(
                ours(msgd, lambda o, y: (ops.cross_entropy(o, y, reduction="none") * MW[y]).mean()),
                "`ops.cross_entropy(o, y, weight=MW)` in place of",
                'reduction="none") * MW[y]',
            ),
            Wrong(
                ours(msgd, lambda o, y: ops.cross_entropy(o, y)),
                "weight=ms.Tensor([1.0, 2.0, 0.5, 1.0, 3.0]))` in place of",
                "lambda o, y: ops.cross_entropy(o, y)",
            ),
        ),
    ),
    "weights of a layer's classes": Pair(
        mine(tsgd, tnn.CrossEntropyLoss(weight=TW)),
        ours(msgd, nn.CrossEntropyLoss(weight=MW)),
        (
            Wrong(ours(msgd), "weight=ms.Tensor([1, 2, 0.5, 1, 3], ms.float32))`", "nn.CrossEntropyLoss()"),
            Wrong(
                ours(msgd, lambda o, y: (ops.cross_entropy(o, y, reduction="none") * MW[y]).mean()),
                "division by the sum of the labels' weights",
                'reduction="none") * MW[y]',
            ),
        ),
    ),
    "labels that are ignored": Pair(
        mine(tsgd, lambda o, y: F.cross_entropy(o, y, ignore_index=2)),
        ours(msgd, lambda o, y: ops.cross_entropy(o, y, ignore_index=2)),
        (
            Wrong(
                ours(msgd, lambda o, y: ops.cross_entropy(o, y, label_smoothing=0.0)),
                "ignore_index=2",
                "label_smoothing=0.0",
            ),
        ),
    ),
    "softmax twice": Pair(
        mine(tsgd, lambda o, y: F.nll_loss(F.log_softmax(o, 1), y)),
        ours(msgd, lambda o, y: ops.nll_loss(ops.log_softmax(o, 1), y)),
        (
            Wrong(
                ours(msgd, lambda o, y: ops.cross_entropy(ops.softmax(o, 1), y)),
                "`ops.log_softmax` in place of `ops.softmax`",
                "ops.cross_entropy(ops.softmax(o, 1), y)",
            ),
            Wrong(
                ours(msgd, lambda o, y: nn.NLLLoss()(o, y)),
                "before `nn.NLLLoss()`",
                "nn.NLLLoss()(o, y)",
            ),
        ),
    ),
    "mean over a batch": Pair(
        mine(tsgd, lambda o, y: F.kl_div(o.log_softmax(1), y, reduction="batchmean"), labels=distributions),
        ours(msgd, lambda o, y: ops.kl_div(ops.log_softmax(o, 1), y, reduction="batchmean")),
        (
            Wrong(
                ours(msgd, lambda o, y: nn.KLDivLoss()(ops.log_softmax(o, 1), y)),
                'reduction="batchmean"',
                "nn.KLDivLoss()",
            ),
        ),
    ),
    "weights of positives": Pair(
        mine(tsgd, tnn.BCEWithLogitsLoss(pos_weight=TW)),
        ours(msgd, nn.BCEWithLogitsLoss(pos_weight=MW)),
        (
            Wrong(
                lambda net: (nn.BCEWithLogitsLoss(weight=MW), msgd(net.trainable_params())),
                "pos_weight=ms.Tensor([1, 2, 0.5, 1, 3], ms.float32))`",
                "weight=MW",
            ),
        ),
    ),
    "weights of positives in a function": Pair(
        mine(tsgd, lambda o, y: F.binary_cross_entropy_with_logits(o, y, pos_weight=TW), labels=signs),
        ours(msgd, lambda o, y: ops.binary_cross_entropy_with_logits(o, y, ops.ones_like(o), MW)),
        (
            Wrong(
                ours(msgd, lambda o, y: ops.binary_cross_entropy_with_logits(o, y, MW, ops.ones_like(o))),
                "operands 3 and 4 exchanged",
                "MW, ops.ones_like(o)",
            ),
        ),
    ),
    "where an absolute error bends": Pair(
        mine(tsgd, lambda o, y: F.smooth_l1_loss(o, y, beta=0.5), labels=numbers),
        ours(msgd, lambda o, y: ops.smooth_l1_loss(o, y, beta=0.5, reduction="mean")),
        (
            Wrong(
                ours(msgd, lambda o, y: ops.smooth_l1_loss(o, y, beta=0.5)), 'reduction="mean"', "beta=0.5"
            ),
            Wrong(
                ours(msgd, lambda o, y: ops.smooth_l1_loss(o, y, reduction="mean")),
                "beta=0.5 in `ops.smooth_l1_loss`",
                'ops.smooth_l1_loss(o, y, reduction="mean")',
            ),
        ),
    ),
    "where a layer's error bends": Pair(
        mine(tsgd, tnn.SmoothL1Loss(beta=0.5)),
        ours(msgd, nn.SmoothL1Loss(beta=0.5, reduction="mean")),
        (
            Wrong(
                lambda net: (nn.SmoothL1Loss(reduction="mean"), msgd(net.trainable_params())),
                "`nn.SmoothL1Loss(…, beta=0.5)`",
                "SmoothL1Loss",
            ),
        ),
    ),
    "another loss": Pair(
        mine(tsgd, tnn.MSELoss()),
        ours(msgd, nn.MSELoss()),
        (
            Wrong(
                lambda net: (nn.L1Loss(), msgd(net.trainable_params())),
                '`nn.MSELoss(reduction="mean")` in place of `nn.L1Loss`',
                "nn.L1Loss",
            ),
        ),
    ),
    "the blank of CTC": Pair(
        mine(tsgd, torch_ctc, labels=letters),
        ours(msgd, ctc_blank(0)),
        (Wrong(ours(msgd, ctc_blank(4)), "blank=0 in `ops.ctc_loss`", "ops.ctc_loss"),),
    ),
}


@pytest.fixture(scope="module")
def compare() -> Iterator[Callable[..., RecipeReport]]:
    """Compare two recipes on the nets above, which are loaded once."""
    torch.manual_seed(0)
    graphs = [regraft.load(net, ("4x3x6x6",)) for net in (Original(), Port())]
    nets = NetComparison(*graphs, None, train=True)
    target = paired_runner(graphs[1], nets.values(), nets.modules)
    runners = own_runner(graphs[0]), target, exact_runner(graphs[0])

    def made(source: Any, port: Any) -> RecipeReport:
        sides = Sides(graphs[0], *runners, by_hand=True)
        comparison = RecipeComparison(sides, Recipes(source, port, 5), nets.pairing, 0)
        return comparison.report(agree=True, equal_weights=True)

    yield made
    for runner in runners[:2]:
        runner.close()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe(name: str, compare: Callable[..., RecipeReport]) -> None:
    pair = RECIPES[name]
    report = compare(pair.source, pair.right)
    assert report.passed, "\n".join(report.lines())
    for wrong in pair.wrong:
        report = compare(pair.source, wrong.port)
        text = "\n".join(report.lines())
        assert report.differing, text
        assert is_named(text, wrong), text


def test_a_loss_that_both_sides_hold_stays_as_it_is(compare: Callable[..., RecipeReport]) -> None:
    """The source is followed in float64 too, and its loss has weights of its own."""
    loss = tnn.CrossEntropyLoss(weight=TW.clone())
    compare(mine(tsgd, loss), ours(msgd, nn.CrossEntropyLoss(weight=MW)))
    assert loss.weight is not None
    assert loss.weight.dtype == torch.float32


# -- nets ------------------------------------------------------------------------------------------


def torch_net(middle: Callable[[], Any], forward: Any = None, frozen: str = "") -> Callable[[], tnn.Module]:
    class Source(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.mid, self.fc = tnn.Conv2d(3, 4, 3, padding=1), middle(), tnn.Linear(4, 5)
            for name, parameter in self.named_parameters():
                parameter.requires_grad = not frozen or not name.startswith(frozen)

        def forward(self, x):
            return self.fc(torch.tanh(self.mid(self.conv(x))).mean((2, 3)))

    if forward is not None:
        Source.forward = forward
    return Source


def port(middle: Callable[[], Any], construct: Any = None, frozen: str = "") -> Callable[[], nn.Cell]:
    class Target(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=True)
            self.mid, self.fc = middle(), nn.Dense(4, 5)
            for name, parameter in self.parameters_and_names():
                parameter.requires_grad = parameter.requires_grad and not (frozen and name.startswith(frozen))

        def construct(self, x):
            return self.fc(ops.tanh(self.mid(self.conv(x))).mean((2, 3)))

    if construct is not None:
        Target.construct = construct
    return Target


def dropped(self, x):
    return self.fc(F.dropout(torch.tanh(self.mid(self.conv(x))).mean((2, 3)), 0.3, self.training))


def dropped_port(self, x):
    return self.fc(ops.dropout(ops.tanh(self.mid(self.conv(x))).mean((2, 3)), 0.3, self.training))


def kept_port(self, x):
    return self.fc(ops.dropout(ops.tanh(self.mid(self.conv(x))).mean((2, 3)), 0.7, self.training))


def whole_port(self, x):
    return self.fc(ops.tanh(self.mid(self.conv(x))).mean((2, 3)))


def detached(self, x):
    return self.fc(torch.tanh(self.mid(self.conv(x))).detach().mean((2, 3)))


def detached_port(self, x):
    return self.fc(ops.stop_gradient(ops.tanh(self.mid(self.conv(x)))).mean((2, 3)))


def norm() -> Any:
    return tnn.BatchNorm2d(4)


def normed() -> Any:
    return nn.BatchNorm2d(4)


NETS: dict[str, Pair] = {
    "momentum": Pair(
        torch_net(lambda: tnn.BatchNorm2d(4, momentum=0.01)),
        port(lambda: nn.BatchNorm2d(4, momentum=0.99)),
        (
            Wrong(port(lambda: nn.BatchNorm2d(4, momentum=0.01)), "momentum=0.99", "momentum=0.01"),
            Wrong(port(normed), "momentum=0.99", "return nn.BatchNorm2d(4)"),
        ),
    ),
    "epsilon of a normalisation": Pair(
        torch_net(lambda: tnn.BatchNorm2d(4, eps=1e-3)),
        port(lambda: nn.BatchNorm2d(4, eps=1e-3)),
        (Wrong(port(normed), "eps=0.001", "return nn.BatchNorm2d(4)"),),
    ),
    "statistics that stay": Pair(
        torch_net(norm),
        port(normed),
        (
            Wrong(
                port(lambda: nn.BatchNorm2d(4, use_batch_statistics=False)),
                "use_batch_statistics=None",
                "use_batch_statistics=False",
            ),
        ),
    ),
    "statistics of each batch": Pair(
        torch_net(lambda: tnn.BatchNorm2d(4, track_running_stats=False)),
        port(lambda: nn.BatchNorm2d(4, use_batch_statistics=True)),
        (Wrong(port(normed), "use_batch_statistics=True", "return nn.BatchNorm2d(4)"),),
    ),
    "dropout": Pair(
        torch_net(lambda: tnn.Dropout(0.3)),
        port(lambda: nn.Dropout(p=0.3)),
        (
            Wrong(port(lambda: nn.Dropout(0.3)), "p=0.3", "nn.Dropout(0.3)"),
            Wrong(port(lambda: nn.Identity()), "nn.Dropout(p=0.3) in place of", "nn.Identity()"),
            Wrong(port(lambda: nn.Dropout2d(p=0.3)), "nn.Dropout(p=0.3) in place of", "nn.Dropout2d(p=0.3)"),
        ),
    ),
    "dropout of channels": Pair(
        torch_net(lambda: tnn.Dropout2d(0.3)),
        port(lambda: nn.Dropout2d(0.3)),
        (
            Wrong(port(lambda: nn.Dropout2d(0.7)), "p=0.3", "nn.Dropout2d(0.7)"),
            Wrong(port(lambda: nn.Dropout(p=0.3)), "nn.Dropout2d(p=0.3) in place of", "nn.Dropout(p=0.3)"),
        ),
    ),
    "a dropout that nothing asks for": Pair(
        torch_net(tnn.Identity),
        port(nn.Identity),
        (Wrong(port(lambda: nn.Dropout(p=0.3)), "nn.Identity() in place of `nn.Dropout`", "nn.Dropout"),),
    ),
    "dropout as a function": Pair(
        torch_net(tnn.Identity, dropped),
        port(nn.Identity, dropped_port),
        (
            Wrong(port(nn.Identity, kept_port), "p=0.3 in `ops.dropout`", "0.7, self.training"),
            Wrong(
                port(nn.Identity, whole_port), "`ops.dropout(…, p=0.3, training=self.training)`", "whole_port"
            ),
        ),
    ),
    "what is frozen": Pair(
        torch_net(norm, frozen="conv"),
        port(normed, frozen="conv"),
        (Wrong(port(normed), "requires_grad = False for them", "self.conv = nn.Conv2d"),),
    ),
    "what is trained": Pair(
        torch_net(norm),
        port(normed),
        (Wrong(port(normed, frozen="conv"), "requires_grad = True for them", "self.conv = nn.Conv2d"),),
    ),
    "a gradient that is stopped": Pair(
        torch_net(norm, detached),
        port(normed, detached_port),
        (Wrong(port(normed), "ops.stop_gradient(…)", "def construct"),),
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_a_net(name: str) -> None:
    source, right, wrongs = NETS[name]
    for make, wrong in ((right, None), *((w.port, w) for w in wrongs)):
        with constructions_noted(nn.Cell), constructions_noted(tnn.Module):
            nets = [source(), make()]
        graphs = [regraft.load(net, ["4x3x5x5"]) for net in nets]
        report = verify(graphs[0], graphs[1], None, own=True, copy=True, train=True)
        assert report.verdict == ("equal" if wrong is None else "different"), report.render()
        assert wrong is None or is_named("\n".join(report.causes()), wrong), report.render()
