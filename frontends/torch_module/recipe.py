"""Reads what a PyTorch training script builds: its optimizer, schedule and loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ...ir import ModelError
from ...ir.recipe import COUPLED, DECOUPLED, LossRule, Recipe, Setting, UpdateRule
from ..recipe_settings import (
    adam,
    cross_entropy,
    decayed,
    number,
    options_of,
    rates_of_groups,
    reduced,
    refuse_optimizer,
    sgd,
    weights_text,
)
from ..training_script import Script

Group = Mapping[str, Any]


def _sgd(group: Group) -> dict[str, Setting]:
    momentum, dampening = number(group["momentum"]), number(group["dampening"])
    return sgd(momentum, dampening, nesterov=bool(group["nesterov"]), decay=number(group["weight_decay"])) | {
        "maximize": bool(group["maximize"])
    }


def _adam(group: Group) -> dict[str, Setting]:
    kind = DECOUPLED if group.get("decoupled_weight_decay") else COUPLED
    return adam(
        [number(b) for b in group["betas"]],
        number(group["eps"]),
        amsgrad=bool(group["amsgrad"]),
        decay=decayed(number(group["weight_decay"]), kind),
    ) | {"maximize": bool(group["maximize"])}


def _rmsprop(group: Group) -> dict[str, Setting]:
    return {
        "alpha": number(group["alpha"]),
        "epsilon": number(group["eps"]),
        "epsilon inside the root": False,
        "mean square starts at": 0.0,
        "momentum": number(group["momentum"]),
        "centered": bool(group["centered"]),
        **decayed(number(group["weight_decay"]), COUPLED),
        "maximize": bool(group["maximize"]),
    }


def _adagrad(group: Group) -> dict[str, Setting]:
    return {
        "rate decay": number(group["lr_decay"]),
        "epsilon": number(group["eps"]),
        "sum of squares starts at": number(group["initial_accumulator_value"]),
        **decayed(number(group["weight_decay"]), COUPLED),
        "maximize": bool(group["maximize"]),
    }


_OPTIMIZERS: dict[str, tuple[str, Callable[[Group], dict[str, Setting]]]] = {
    "SGD": ("SGD", _sgd),
    "Adam": ("Adam", _adam),
    "AdamW": ("Adam", _adam),
    "RMSprop": ("RMSprop", _rmsprop),
    "Adagrad": ("Adagrad", _adagrad),
}


def read_recipe(script: Script, names: Mapping[int, str], steps: int, reference: str) -> Recipe:
    """Read what a script built; its schedule is used up by it.

    Args:
        script: what the recipe function returned.
        names: id of a parameter -> its name.
        steps: for how many steps to read the learning rate.
        reference: where the script is.

    Raises:
        ModelError: for an optimizer or schedule that is not known, and one that holds what is not the net's
            (E704).
    """
    optimizer = script.optimizer
    kind, read = _rule_of(optimizer, reference)
    with warnings.catch_warnings():  # that the schedule moves before the optimizer does
        warnings.simplefilter("ignore")
        rates = rates_of_groups(lambda: optimizer.param_groups, script, steps, reference)
    rules: dict[str, UpdateRule] = {}
    for group, found in zip(optimizer.param_groups, rates, strict=True):
        rule = UpdateRule(
            kind, {k: v for k, v in read(group).items() if v is not False or k != "maximize"}, found
        )
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ModelError(
                    "E704",
                    f"expected the optimizer to hold the net's parameters, got a tensor of shape "
                    f"{list(parameter.shape)} that is none of them",
                    place=reference,
                    hint="the function must use the net that it is given, and not one of its own",
                )
            if parameter.requires_grad:
                rules[names[id(parameter)]] = rule
    scale = 1.0 if hasattr(script.loss_scale, "scale") else number(script.loss_scale)
    return Recipe(
        "torch",
        reference,
        f"torch.optim.{type(optimizer).__name__}",
        read_loss(script.loss),
        rules,
        options_of(script, scale),
    )


def _rule_of(optimizer: Any, reference: str) -> tuple[str, Callable[[Group], dict[str, Setting]]]:
    known = type(optimizer).__name__ in _OPTIMIZERS and type(optimizer).__module__.startswith("torch.optim")
    if not known:
        raise refuse_optimizer(optimizer, reference, [f"torch.optim.{n}" for n in _OPTIMIZERS])
    return _OPTIMIZERS[type(optimizer).__name__]


def read_loss(loss: Any) -> LossRule:
    """What a loss computes; of no kind where it is a function or a class of the user's own."""
    name = type(loss).__name__
    written = f"nn.{name}"
    if not type(loss).__module__.startswith("torch.nn.modules"):
        return LossRule("", {}, getattr(loss, "__name__", name))
    if name == "CrossEntropyLoss":
        return cross_entropy(
            loss.reduction,
            written,
            smoothing=number(loss.label_smoothing),
            ignored=loss.ignore_index,
            weights=loss.weight,
        )
    if name == "NLLLoss":
        return reduced(
            "negative log likelihood",
            loss.reduction,
            written,
            **{"ignore_index": loss.ignore_index, "class weights": weights_text(loss.weight)},
        )
    if name in ("BCEWithLogitsLoss", "BCELoss"):
        extra: dict[str, Setting] = {"weights": weights_text(loss.weight)}
        if name == "BCEWithLogitsLoss":
            extra["weights of positives"] = weights_text(loss.pos_weight)
        return reduced(PLAIN[name], loss.reduction, written, **extra)
    if name in PLAIN:
        extra = {n: number(getattr(loss, n)) for n in ("beta", "delta") if hasattr(loss, n)}
        return reduced(PLAIN[name], loss.reduction, written, **extra)
    return LossRule("", {}, written)


PLAIN = {
    "MSELoss": "squared error",
    "L1Loss": "absolute error",
    "SmoothL1Loss": "smooth absolute error",
    "HuberLoss": "Huber's loss",
    "BCELoss": "binary cross entropy",
    "BCEWithLogitsLoss": "binary cross entropy of logits",
}
