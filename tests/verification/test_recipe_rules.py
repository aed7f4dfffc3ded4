"""What is read of an optimizer is what it does: each runs beside its rule in float64, in both frameworks."""

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore.experimental import optim as experimental

from regraft.frontends.mindspore_cell.recipe import read_recipe as read_mindspore
from regraft.frontends.torch_module.recipe import read_recipe as read_torch
from regraft.frontends.training_script import Script
from regraft.ir import ModelError
from regraft.ir.recipe import UpdateRule
from regraft.verification.recipes.rules import updated

nn, optim = ms.nn, torch.optim
STEPS = 6
_RANDOM = np.random.default_rng(0)
START = _RANDOM.standard_normal((3, 4)).astype(np.float32)
GRADIENTS = [
    (_RANDOM.standard_normal((3, 4)) * 10.0 ** _RANDOM.uniform(-7, 0, (3, 4))).astype(np.float32)
    for _ in range(STEPS)
]
"""From ordinary ones down to those beside which an epsilon counts."""


def by_rule(rule: UpdateRule, gradients: list[np.ndarray]) -> np.ndarray:
    value: Any = START.astype(np.float64)
    state: dict[str, Any] = {}
    for gradient, rate in zip(gradients, rule.rates, strict=True):
        value = updated(rule, state, value, gradient.astype(np.float64), rate)
    return value


def assert_does_as_its_rule(rule: UpdateRule, values: np.ndarray, times: float = 1.0) -> None:
    told = by_rule(rule, GRADIENTS)
    assert np.abs(told - START).max() > 1e-3
    np.testing.assert_allclose(values, told, rtol=0, atol=3e-6 * times)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, 0.1),
        lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
        lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: optim.SGD(p, 0.1, momentum=0.9, maximize=True),
        lambda p: optim.Adam(p, 0.01),
        lambda p: optim.Adam(p, 0.01, weight_decay=0.1, eps=1e-4),
        lambda p: optim.Adam(p, 0.01, amsgrad=True),
        lambda p: optim.AdamW(p, 0.01, betas=(0.8, 0.99), weight_decay=0.1),
        lambda p: optim.RMSprop(p, 0.01, alpha=0.9, momentum=0.5, weight_decay=0.01),
        lambda p: optim.RMSprop(p, 0.01, centered=True),
        lambda p: optim.Adagrad(p, 0.01, lr_decay=0.1, initial_accumulator_value=0.2),
        lambda p: optim.Adadelta(p, 0.5, rho=0.8, eps=1e-3, weight_decay=0.01),
        lambda p: optim.Adamax(p, 0.01, eps=1e-3, weight_decay=0.01),
        lambda p: optim.NAdam(p, 0.01, momentum_decay=0.1, weight_decay=0.1, decoupled_weight_decay=True),
        lambda p: optim.RAdam(p, 0.01, betas=(0.8, 0.7), weight_decay=0.1),
        lambda p: optim.Rprop(p, 0.01, etas=(0.4, 1.3), step_sizes=(1e-3, 0.02), maximize=True),
        lambda p: optim.ASGD(p, 0.1, lambd=0.1, weight_decay=0.01),
    ],
)
def test_torch(make: Callable[[list[torch.nn.Parameter]], Any]) -> None:
    parameter = torch.nn.Parameter(torch.from_numpy(START.copy()))
    names = {id(parameter): "w"}
    rule = read_torch(Script(torch.nn.MSELoss(), make([parameter])), names, STEPS, "train.py").rules["w"]
    optimizer = make([parameter])
    for gradient in GRADIENTS:
        parameter.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
    assert_does_as_its_rule(rule, parameter.detach().numpy())


@pytest.mark.parametrize(
    "make",
    [
        lambda p: nn.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
        lambda p: nn.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: nn.SGD(p, [0.1, 0.2, 0.1, 0.0, 0.3, 0.1], momentum=0.9),
        lambda p: nn.Momentum(p, 0.1, 0.9, weight_decay=0.01),
        lambda p: nn.Momentum(p, 0.1, 0.9, use_nesterov=True),  # which the CPU's kernel leaves out
        lambda p: nn.Adam(p, 0.01, weight_decay=0.1),
        lambda p: nn.Adam(p, nn.CosineDecayLR(0.001, 0.01, 4), eps=1e-4),
        lambda p: nn.Adam(p, 0.01, use_amsgrad=True),
        lambda p: nn.Adam(p, 0.01, use_nesterov=True),
        lambda p: nn.AdamWeightDecay(p, 0.01, weight_decay=0.1),
        lambda p: nn.RMSProp(p, 0.01, momentum=0.5, epsilon=1e-3),
        lambda p: nn.RMSProp(p, [0.01, 0.02, 0.01, 0.0, 0.03, 0.01], momentum=0.5, epsilon=1e-3),
        lambda p: nn.Adagrad(p, accum=0.1, learning_rate=0.01),
        lambda p: nn.Adadelta(p, 0.5, rho=0.8, epsilon=1e-3, weight_decay=0.01),
        lambda p: nn.AdaMax(p, 0.01, eps=1e-3, weight_decay=0.01),
        lambda p: nn.Rprop(p, 0.01, etas=(0.4, 1.3), step_sizes=(1e-3, 0.02)),
        lambda p: nn.ASGD(p, 0.1, lambd=0.1, weight_decay=0.01),
        lambda p: experimental.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
        lambda p: experimental.Adam(p, 0.01, weight_decay=0.1, amsgrad=True),
        lambda p: experimental.AdamW(p, 0.01, weight_decay=0.1),
        lambda p: experimental.RMSprop(p, 0.01, momentum=0.5),
        lambda p: experimental.NAdam(p, 0.01, momentum_decay=0.1),
        lambda p: experimental.RAdam(p, 0.01, betas=(0.8, 0.7)),
        lambda p: experimental.Adamax(p, 0.01, eps=1e-3),
    ],
)
def test_mindspore(make: Callable[[list[ms.Parameter]], Any]) -> None:
    parameter = ms.Parameter(ms.Tensor(START.copy()), name="w")
    names = {id(parameter): "w"}
    rule = read_mindspore(Script(nn.MSELoss(), make([parameter])), names, STEPS, "train.py").rules["w"]
    optimizer = make([parameter])
    for gradient in GRADIENTS:
        optimizer((ms.Tensor(gradient.copy()),))
    # nn.RMSProp's vectorised root on the CPU is good to four digits only
    assert_does_as_its_rule(rule, parameter.asnumpy(), 20 if isinstance(optimizer, nn.RMSProp) else 1)


def test_a_loss_scale_of_the_optimizer_divides_gradients_and_not_decay() -> None:
    parameter = ms.Parameter(ms.Tensor(START.copy()), name="w")
    optimizer = nn.Momentum([parameter], 0.1, 0.9, weight_decay=0.01, loss_scale=8.0)
    script = Script(nn.MSELoss(), optimizer, loss_scale=8.0)
    recipe = read_mindspore(script, {id(parameter): "w"}, STEPS, "train.py")
    for gradient in GRADIENTS:
        optimizer((ms.Tensor(8 * gradient),))
    assert recipe.options["gradients times"] == 1
    assert_does_as_its_rule(recipe.rules["w"], parameter.asnumpy())


def test_mindspore_leaves_normalisations_out_of_decay_unless_there_are_groups() -> None:
    named = [ms.Parameter(ms.Tensor(START.copy()), name=n) for n in ("bn.gamma", "bn.beta", "fc.bias")]
    names = {id(p): p.name for p in named}
    plain = read_mindspore(Script(nn.MSELoss(), nn.SGD(named, 0.1, weight_decay=0.5)), names, 1, "")
    groups = nn.SGD([{"params": named}], 0.1, weight_decay=0.5)
    grouped = read_mindspore(Script(nn.MSELoss(), groups), names, 1, "")
    assert [plain.rules[p.name].settings["weight decay"] for p in named] == [0, 0, 0.5]
    assert [grouped.rules[p.name].settings["weight decay"] for p in named] == [0.5, 0.5, 0.5]


def test_rates_of_groups_and_schedules() -> None:
    a, b = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], 0.1)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    script = Script(torch.nn.MSELoss(), optimizer, schedule, schedule_every="epoch", steps_per_epoch=2)
    rules = read_torch(script, {id(a): "a", id(b): "b"}, 5, "").rules
    assert rules["a"].rates == (0.1, 0.1, 0.05, 0.05, 0.025)
    assert rules["b"].rates == (1.0, 1.0, 0.5, 0.5, 0.25)


@pytest.mark.parametrize(
    ("make", "length"),
    [
        (lambda o: optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=30), 30),
        (lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 20), 20),
        (
            lambda o: optim.lr_scheduler.SequentialLR(
                o,
                [
                    optim.lr_scheduler.LinearLR(o, 0.1, total_iters=5),
                    optim.lr_scheduler.CosineAnnealingLR(o, 20),
                ],
                [5],
            ),
            25,
        ),
        (lambda o: optim.lr_scheduler.StepLR(o, 5), 100),
    ],
)
@pytest.mark.parametrize("every", [1, 3])
def test_a_schedule_is_read_up_to_its_end(make: Callable[[Any], Any], length: int, every: int) -> None:
    """One cycle raises after it, a cosine turns up again: no loop gets there."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = optim.SGD([parameter], 0.1)
    how = {"schedule_every": "epoch", "steps_per_epoch": every} if every > 1 else {}
    script = Script(torch.nn.MSELoss(), optimizer, make(optimizer), **how)
    rates = read_torch(script, {id(parameter): "w"}, 100, "").rules["w"].rates
    assert len(rates) == min(length * every, 100)
    optimizer = optim.SGD([parameter], 0.1)
    schedule = make(optimizer)
    for at, rate in enumerate(rates[: 2 * every]):
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (at + 1) % every == 0:
            schedule.step()


class Own(optim.SGD):
    """Nobody knows what its step does."""


def test_an_optimizer_that_nobody_knows_is_refused() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(ModelError, match=r"E704 expected an optimizer whose update is known.*Own"):
        read_torch(Script(torch.nn.MSELoss(), Own([parameter], 0.1)), {id(parameter): "w"}, 1, "train.py")
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer := optim.SGD([parameter], 0.1))
    with pytest.raises(ModelError, match=r"E704 expected a schedule.*ReduceLROnPlateau"):
        read_torch(Script(torch.nn.MSELoss(), optimizer, plateau), {id(parameter): "w"}, 1, "train.py")
    with pytest.raises(ModelError, match="E704 expected the optimizer to hold the net's parameters"):
        read_torch(Script(torch.nn.MSELoss(), optimizer), {}, 1, "train.py")
