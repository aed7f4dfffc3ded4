"""Reads what a MindSpore training script builds: its optimizer with the learning rates, and its loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...frameworks.optimizers import EXPERIMENTAL, MINDSPORE, TORCH, WRITTEN_FOR_MINDSPORE, Optimizer
from ...ir import ModelError
from ...ir.recipe import Recipe, UpdateRule
from ..recipe_losses import read_loss
from ..recipe_settings import (
    number,
    options_of,
    rates_of_groups,
    read_scaler,
    refuse_optimizer,
    update_rule,
)
from ..training_script import Script

_EXPERIMENTAL, _MINT = "mindspore.experimental.optim", "mindspore.mint.optim"

_PAIRS = {"etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}
"""Argument -> the attributes that hold its numbers."""


def read_recipe(script: Script, names: Mapping[int, str], steps: int, reference: str) -> Recipe:
    """Read what a script built; see the PyTorch reader of the same name.

    Raises:
        ModelError: for an optimizer or schedule that is not known, and one that holds what is not the net's
            (E704).
    """
    optimizer = script.optimizer
    home, class_name = type(optimizer).__module__, type(optimizer).__name__
    remarks: list[str] = []
    written = WRITTEN_FOR_MINDSPORE.get(getattr(optimizer, "UPDATE", ""))
    if home.startswith("mindspore.nn.optim") and class_name in MINDSPORE:
        shown = f"nn.{class_name}"
        rules = _own_rules(MINDSPORE[class_name], script, names, steps, reference)
        scale = number(optimizer.loss_scale)
        if class_name == "Momentum" and optimizer.use_nesterov and optimizer.target == "CPU":
            remarks.append(
                "nn.Momentum(use_nesterov=True) does nothing on the CPU; nn.SGD(nesterov=True) does"
            )
    elif written is not None:
        shown, rules = class_name, _own_rules(written, script, names, steps, reference)
        scale = number(optimizer.loss_scale)
    elif home.startswith((_EXPERIMENTAL, _MINT)) and class_name in TORCH:
        experimental = home.startswith(_EXPERIMENTAL)
        shown = f"{_EXPERIMENTAL if experimental else _MINT}.{class_name}"
        rates = rates_of_groups(lambda: optimizer.param_groups, script, steps, reference)
        rules = {}
        for group, found in zip(optimizer.param_groups, rates, strict=True):
            rule = update_rule((EXPERIMENTAL if experimental else TORCH)[class_name], group.get, found)
            for parameter in group["params"]:
                rules[_named(parameter, names, reference)] = rule
        scale = 1.0
        if experimental and class_name == "Adam" and any(g["amsgrad"] for g in optimizer.param_groups):
            remarks.append(f"{shown}(amsgrad=True) computes plain Adam; nn.Adam(use_amsgrad=True) does not")
        if not experimental:
            remarks.append(f"{shown} moves no parameter on the CPU; nn.SGD and {_EXPERIMENTAL} do")
    else:
        known = [f"nn.{n}" for n in MINDSPORE] + [f"{_EXPERIMENTAL}.{n}" for n in EXPERIMENTAL]
        raise refuse_optimizer(optimizer, reference, known)
    loss = read_loss(script.loss, "mindspore.nn.loss", script.loss_weights)
    options = options_of(script, scale)
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


def _own_rules(
    known: Optimizer, script: Script, names: Mapping[int, str], steps: int, reference: str
) -> dict[str, UpdateRule]:
    """Return the rules of an `nn.Optimizer`, whose learning rates and weight decay are its own."""
    optimizer = script.optimizer
    if script.schedule is not None:
        raise ModelError(
            "E704",
            f"expected no `schedule` beside `nn.{type(optimizer).__name__}`, which holds its learning rates",
            place=reference,
            hint="give it as the optimizer's learning_rate: a list with a rate a step, or a Cell",
        )
    if type(optimizer).__name__ == "Momentum" and optimizer.use_nesterov and optimizer.target != "CPU":
        known = replace(known, fixed={**known.fixed, "nesterov": True})
    scheduled: dict[int, tuple[float, ...]] = {}
    rules: dict[str, UpdateRule] = {}
    for at, parameter in enumerate(optimizer.parameters):
        if not parameter.requires_grad:
            continue
        rate = list(optimizer.learning_rate)[at] if optimizer.is_group_lr else optimizer.learning_rate
        if id(rate) not in scheduled:
            scheduled[id(rate)] = _rates(rate, steps, reference)
        decay, value_of = _decay(optimizer, at, reference), partial(_argument, optimizer)
        rule = update_rule(known, value_of, scheduled[id(rate)], decay)
        if optimizer.is_group and optimizer.grad_centralization_flags[at]:
            rule = replace(rule, settings={**rule.settings, "centralised gradients": True})
        rules[_named(parameter, names, reference)] = rule
    return rules


def _argument(optimizer: Any, name: str) -> Any:
    """Return what an optimizer keeps of an argument: one value of those that it keeps for each parameter."""
    if name in _PAIRS:
        return tuple(getattr(optimizer, each) for each in _PAIRS[name])
    value: Any = getattr(optimizer, name, None)
    return value[0] if type(value).__name__ == "ParameterTuple" else value


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
