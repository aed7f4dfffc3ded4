"""Reads what a MindSpore training script builds: its optimizer with the learning rates, and its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ir import ModelError
from ...ir.recipe import BEFORE, COUPLED, DECOUPLED, EPSILON_PLACE, Recipe, Setting, UpdateRule
from ..recipe_losses import read_loss
from ..recipe_settings import (
    adagrad,
    adam,
    decayed,
    number,
    options_of,
    rates_of_groups,
    read_group,
    read_scaler,
    refuse_optimizer,
    rmsprop,
    sgd,
)
from ..training_script import Script

Reader = Callable[[Any, float], dict[str, Setting]]
"""Reads an optimizer's settings for a parameter with this weight decay."""


def _sgd(optimizer: Any, decay: float) -> dict[str, Setting]:
    return sgd(
        number(optimizer.momentum), number(optimizer.dampening), nesterov=optimizer.nesterov, decay=decay
    )


def _momentum(optimizer: Any, decay: float) -> dict[str, Setting]:
    # on the CPU its kernel gives the same with and without (2.10)
    nesterov = optimizer.use_nesterov and optimizer.target != "CPU"
    return sgd(number(optimizer.momentum), 0.0, nesterov=nesterov, decay=decay)


def _adam(optimizer: Any, decay: float) -> dict[str, Setting]:
    return adam(
        [number(optimizer.beta1), number(optimizer.beta2)],
        number(optimizer.eps),
        amsgrad=optimizer.use_amsgrad,
        nesterov=optimizer.use_nesterov,
        place=BEFORE,
        decay=decayed(decay, COUPLED),
    )


def _torchs_adam(optimizer: Any, decay: float) -> dict[str, Setting]:
    return adam(
        [float(beta) for beta in optimizer.betas],
        number(optimizer.eps),
        amsgrad=bool(optimizer.amsgrad),
        decay=decayed(decay, DECOUPLED if optimizer.decoupled else COUPLED),
    )


def _torchs_rmsprop(optimizer: Any, decay: float) -> dict[str, Setting]:
    return rmsprop(
        number(optimizer.alpha),
        number(optimizer.eps),
        inside=False,
        start=0.0,
        momentum=number(optimizer.momentum),
        centered=bool(optimizer.centered),
        decay=decay,
    )


def _torchs_adagrad(optimizer: Any, decay: float) -> dict[str, Setting]:
    return adagrad(number(optimizer.lr_decay), number(optimizer.eps), number(optimizer.start), decay)


_AS_TORCH: dict[str, tuple[str, Reader]] = {
    "torch.optim.Adam": ("Adam", _torchs_adam),
    "torch.optim.RMSprop": ("RMSprop", _torchs_rmsprop),
    "torch.optim.Adagrad": ("Adagrad", _torchs_adagrad),
}
"""Value of `UPDATE` in an optimizer that computes as torch's, such as those that regraft writes."""


def _adam_weight_decay(optimizer: Any, decay: float) -> dict[str, Setting]:
    return adam(
        [number(optimizer.beta1), number(optimizer.beta2)],
        number(optimizer.eps),
        corrected=False,
        decay=decayed(decay, DECOUPLED),
    )


def _rmsprop(optimizer: Any, decay: float) -> dict[str, Setting]:
    return rmsprop(
        number(optimizer.decay),
        number(optimizer.epsilon),
        inside=True,
        start=1.0,
        momentum=number(optimizer.momentum),
        centered=bool(optimizer.centered),
        decay=decay,
    )


def _adagrad(optimizer: Any, decay: float) -> dict[str, Setting]:
    # its kernel on the CPU adds 1e-8 to the sum of squares, and no argument changes that (2.10)
    return adagrad(0.0, 1e-8, number(optimizer.accum[0]), decay, inside=True)


_OPTIMIZERS: dict[str, tuple[str, Reader]] = {
    "SGD": ("SGD", _sgd),
    "Momentum": ("SGD", _momentum),
    "Adam": ("Adam", _adam),
    "AdamWeightDecay": ("Adam", _adam_weight_decay),
    "RMSProp": ("RMSprop", _rmsprop),
    "Adagrad": ("Adagrad", _adagrad),
}


_TORCH_LIKE = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")
_EXPERIMENTAL, _MINT = "mindspore.experimental.optim", "mindspore.mint.optim"


def read_recipe(script: Script, names: Mapping[int, str], steps: int, reference: str) -> Recipe:
    """Read what a script built; see the PyTorch reader of the same name.

    Raises:
        ModelError: for an optimizer or schedule that is not known, and one that holds what is not the net's
            (E704).
    """
    optimizer = script.optimizer
    home, class_name = type(optimizer).__module__, type(optimizer).__name__
    remarks: list[str] = []
    if home.startswith("mindspore.nn.optim") and class_name in _OPTIMIZERS:
        shown, rules = f"nn.{class_name}", _own_rules(script, names, steps, reference)
        scale = number(optimizer.loss_scale)
        if class_name == "Momentum" and optimizer.use_nesterov and optimizer.target == "CPU":
            remarks.append(
                "nn.Momentum(use_nesterov=True) does nothing on the CPU; nn.SGD(nesterov=True) does"
            )
    elif getattr(optimizer, "UPDATE", None) in _AS_TORCH:
        shown, rules = class_name, _own_rules(script, names, steps, reference)
        scale = number(optimizer.loss_scale)
    elif home.startswith((_EXPERIMENTAL, _MINT)) and class_name in _TORCH_LIKE:
        experimental = home.startswith(_EXPERIMENTAL)
        shown = f"{_EXPERIMENTAL if experimental else _MINT}.{class_name}"
        rates = rates_of_groups(lambda: optimizer.param_groups, script, steps, reference)
        rules = {}
        for group, found in zip(optimizer.param_groups, rates, strict=True):
            kind, settings = read_group(class_name, group)
            if experimental and class_name == "Adam":  # it runs nn.Adam's kernel: no AMSGrad either
                settings |= {"amsgrad": False, EPSILON_PLACE: BEFORE}
            rule = UpdateRule(kind, settings, found)
            for parameter in group["params"]:
                rules[_named(parameter, names, reference)] = rule
        scale = 1.0
        if experimental and class_name == "Adam" and any(g["amsgrad"] for g in optimizer.param_groups):
            remarks.append(f"{shown}(amsgrad=True) computes plain Adam; nn.Adam(use_amsgrad=True) does not")
        if not experimental:
            remarks.append(f"{shown} moves no parameter on the CPU; nn.SGD and {_EXPERIMENTAL} do")
    else:
        known = [f"nn.{n}" for n in _OPTIMIZERS] + [f"{_EXPERIMENTAL}.{n}" for n in _TORCH_LIKE]
        raise refuse_optimizer(optimizer, reference, known)
    loss, options = read_loss(script.loss, "mindspore.nn.loss"), options_of(script, scale)
    scaler = read_scaler(script.loss_scale)
    return Recipe("mindspore", reference, shown, loss, rules, options, tuple(remarks), scaler)


def _named(parameter: Any, names: Mapping[int, str], reference: str) -> str:
    if id(parameter) not in names:
        raise ModelError(
            "E704",
            f"expected the optimizer to hold the net's Parameters, got `{parameter.name}`, none of them",
            place=reference,
            hint="the function must use the net that it receives, not one that it makes",
        )
    return names[id(parameter)]


def _own_rules(script: Script, names: Mapping[int, str], steps: int, reference: str) -> dict[str, UpdateRule]:
    """Return the rules of an `nn.Optimizer`, whose learning rates and weight decay are its own."""
    optimizer = script.optimizer
    if script.schedule is not None:
        raise ModelError(
            "E704",
            f"expected no `schedule` beside `nn.{type(optimizer).__name__}`, which holds its learning rates",
            place=reference,
            hint="give it as the optimizer's learning_rate: a list with a rate a step, or a Cell",
        )
    update = getattr(optimizer, "UPDATE", None)
    kind, read = _OPTIMIZERS[type(optimizer).__name__] if update is None else _AS_TORCH[update]
    known: dict[int, tuple[float, ...]] = {}
    rules: dict[str, UpdateRule] = {}
    for at, parameter in enumerate(optimizer.parameters):
        if not parameter.requires_grad:
            continue
        rate = list(optimizer.learning_rate)[at] if optimizer.is_group_lr else optimizer.learning_rate
        if id(rate) not in known:
            known[id(rate)] = _rates(rate, steps, reference)
        settings = read(optimizer, _decay(optimizer, at, reference))
        if optimizer.is_group and optimizer.grad_centralization_flags[at]:
            settings["centralised gradients"] = True
        rules[_named(parameter, names, reference)] = UpdateRule(kind, settings, known[id(rate)])
    return rules


def _decay(optimizer: Any, at: int, reference: str) -> float:
    if not optimizer.exec_weight_decay or not optimizer.decay_flags[at]:
        return 0.0
    decay = optimizer.weight_decay[at] if optimizer.is_group else optimizer.weight_decay
    if optimizer.dynamic_weight_decay:
        raise ModelError(
            "E704",
            "expected a weight decay that stays the same, got a Cell",
            place=reference,
            hint="give a constant number: regraft does not compare one that changes from step to step",
        )
    return number(number(decay) / number(optimizer.loss_scale))


def _rates(rate: Any, steps: int, reference: str) -> tuple[float, ...]:
    """Return the learning rate of each step: MindSpore asks for that of step 0 first."""
    from mindspore import Parameter, Tensor
    from mindspore import dtype as mstype

    if isinstance(rate, (Parameter, Tensor)):
        return (number(rate),) * steps
    inner = getattr(rate, "learning_rate", None)
    if type(rate).__name__ == "_ConvertToCell":  # a constant beside schedules
        return (number(inner),) * steps
    if isinstance(inner, (Parameter, Tensor)) and inner.ndim == 1:  # a list: past its end MindSpore raises
        return tuple(number(value) for value in inner.asnumpy()[:steps])
    try:
        together = rate(Tensor(np.arange(steps), mstype.int32)).asnumpy()
        if together.shape == (steps,):
            return tuple(map(number, together))
        return tuple(number(rate(Tensor([t], mstype.int32))) for t in range(steps))
    except Exception as error:  # a user's own schedule may raise anything
        raise ModelError(
            "E704",
            f"the schedule `{type(rate).__name__}` raised {type(error).__name__}: {error}",
            place=reference,
        ) from error
