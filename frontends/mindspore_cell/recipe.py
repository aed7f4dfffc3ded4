"""Reads what a MindSpore training script builds: its optimizer with the learning rates, and its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ir import ModelError
from ...ir.recipe import AFTER, BEFORE, COUPLED, DECOUPLED, LossRule, Recipe, Setting, UpdateRule
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


TORCH_ADAM = "torch.optim.Adam"
"""What an optimizer has as `UPDATE` that computes Adam as torch does, as those that regraft writes."""


def _as_torch(optimizer: Any, decay: float) -> dict[str, Setting]:
    return adam(
        [float(beta) for beta in optimizer.betas],
        number(optimizer.eps),
        amsgrad=bool(optimizer.amsgrad),
        decay=decayed(decay, DECOUPLED if optimizer.decoupled else COUPLED),
    )


def _adam_weight_decay(optimizer: Any, decay: float) -> dict[str, Setting]:
    return adam(
        [number(optimizer.beta1), number(optimizer.beta2)],
        number(optimizer.eps),
        corrected=False,
        decay=decayed(decay, DECOUPLED),
    )


def _rmsprop(optimizer: Any, decay: float) -> dict[str, Setting]:
    return {
        "alpha": number(optimizer.decay),
        "epsilon": number(optimizer.epsilon),
        "epsilon inside the root": True,
        "mean square starts at": 1.0,
        "momentum": number(optimizer.momentum),
        "centered": bool(optimizer.centered),
        **decayed(decay, COUPLED),
    }


def _adagrad(optimizer: Any, decay: float) -> dict[str, Setting]:
    return {
        "rate decay": 0.0,
        "epsilon": 0.0,
        "sum of squares starts at": number(optimizer.accum[0]),
        **decayed(decay, COUPLED),
    }


_OPTIMIZERS: dict[str, tuple[str, Reader]] = {
    "SGD": ("SGD", _sgd),
    "Momentum": ("SGD", _momentum),
    "Adam": ("Adam", _adam),
    "AdamWeightDecay": ("Adam", _adam_weight_decay),
    "RMSProp": ("RMSprop", _rmsprop),
    "Adagrad": ("Adagrad", _adagrad),
}


def _torch_like(class_name: str, group: Mapping[str, Any], *, experimental: bool) -> dict[str, Setting]:
    """Settings of a group of an optimizer that has torch's arguments."""
    decay = number(group["weight_decay"])
    if class_name == "SGD":
        momentum, dampening = number(group["momentum"]), number(group["dampening"])
        return sgd(momentum, dampening, nesterov=bool(group["nesterov"]), decay=decay)
    if class_name == "RMSprop":
        return {
            "alpha": number(group["alpha"]),
            "epsilon": number(group["eps"]),
            "epsilon inside the root": False,
            "mean square starts at": 0.0,
            "momentum": number(group["momentum"]),
            "centered": bool(group["centered"]),
            **decayed(decay, COUPLED),
        }
    plain = class_name == "Adam" and experimental  # which runs MindSpore's Adam kernel: no AMSGrad either
    return adam(
        [number(b) for b in group["betas"]],
        number(group["eps"]),
        amsgrad=bool(group["amsgrad"]) and not plain,
        decay=decayed(decay, DECOUPLED if class_name == "AdamW" else COUPLED),
        place=BEFORE if plain else AFTER,
    )


_TORCH_LIKE = {"SGD": "SGD", "Adam": "Adam", "AdamW": "Adam", "RMSprop": "RMSprop"}
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
        scale = loop_scale(script.loss_scale) / number(optimizer.loss_scale)
        if class_name == "Momentum" and optimizer.use_nesterov and optimizer.target == "CPU":
            remarks.append(
                "nn.Momentum(use_nesterov=True) does nothing on the CPU; nn.SGD(nesterov=True) does"
            )
    elif getattr(optimizer, "UPDATE", None) == TORCH_ADAM:
        shown, rules = class_name, _own_rules(script, names, steps, reference)
        scale = loop_scale(script.loss_scale) / number(optimizer.loss_scale)
    elif home.startswith((_EXPERIMENTAL, _MINT)) and class_name in _TORCH_LIKE:
        experimental = home.startswith(_EXPERIMENTAL)
        shown = f"{_EXPERIMENTAL if experimental else _MINT}.{class_name}"
        rates = rates_of_groups(lambda: optimizer.param_groups, script, steps, reference)
        rules = {}
        for group, found in zip(optimizer.param_groups, rates, strict=True):
            settings = _torch_like(class_name, group, experimental=experimental)
            if group.get("maximize"):
                settings["maximize"] = True
            rule = UpdateRule(_TORCH_LIKE[class_name], settings, found)
            for parameter in group["params"]:
                rules[_named(parameter, names, reference)] = rule
        scale = loop_scale(script.loss_scale)
        if experimental and class_name == "Adam" and any(g["amsgrad"] for g in optimizer.param_groups):
            remarks.append(f"{shown}(amsgrad=True) computes plain Adam; nn.Adam(use_amsgrad=True) does not")
        if not experimental:
            remarks.append(f"{shown} moves no parameter on the CPU; nn.SGD and {_EXPERIMENTAL} do")
    else:
        known = [f"nn.{n}" for n in _OPTIMIZERS] + [f"{_EXPERIMENTAL}.{n}" for n in _TORCH_LIKE]
        raise refuse_optimizer(optimizer, reference, known)
    options = options_of(script, scale)
    return Recipe("mindspore", reference, shown, read_loss(script.loss), rules, options, tuple(remarks))


def loop_scale(scale: Any) -> float:
    """What the loop multiplies the loss by and leaves in the gradients."""
    if hasattr(scale, "unscale"):  # mindspore.amp's scalers take it out again
        return 1.0
    if hasattr(scale, "get_loss_scale"):  # a manager that keeps it leaves that to the optimizer
        return 1.0 if scale.get_drop_overflow_update() else number(scale.get_loss_scale())
    return number(scale)


def _named(parameter: Any, names: Mapping[int, str], reference: str) -> str:
    if id(parameter) not in names:
        raise ModelError(
            "E704",
            f"expected the optimizer to hold the net's Parameters, got `{parameter.name}`, none of them",
            place=reference,
            hint="the function must use the net that it is given, and not one of its own",
        )
    return names[id(parameter)]


def _own_rules(script: Script, names: Mapping[int, str], steps: int, reference: str) -> dict[str, UpdateRule]:
    """The rules of an `nn.Optimizer`, whose learning rates and weight decay are its own."""
    optimizer = script.optimizer
    if script.schedule is not None:
        raise ModelError(
            "E704",
            f"expected no `schedule` beside `nn.{type(optimizer).__name__}`, which holds its learning rates",
            place=reference,
            hint="give it as the optimizer's learning_rate: a list with a rate a step, or a Cell",
        )
    kind, read = _OPTIMIZERS.get(type(optimizer).__name__, ("", _adam))
    if hasattr(optimizer, "UPDATE"):
        kind, read = "Adam", _as_torch
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
            hint="give a number: one that changes from step to step is not compared",
        )
    return number(number(decay) / number(optimizer.loss_scale))


def _rates(rate: Any, steps: int, reference: str) -> tuple[float, ...]:
    """The learning rate of each step: MindSpore asks for that of step 0 first."""
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


def read_loss(loss: Any) -> LossRule:
    """What a loss computes; of no kind where it is a function or a class of the user's own."""
    name = type(loss).__name__
    written = f"nn.{name}"
    if not type(loss).__module__.startswith("mindspore.nn.loss"):
        return LossRule("", {}, getattr(loss, "__name__", name))
    reduction = _reduction(loss)
    if name == "CrossEntropyLoss":
        return cross_entropy(
            reduction,
            written,
            smoothing=number(loss.label_smoothing),
            ignored=loss.ignore_index,
            weights=loss.weight,
        )
    if name == "SoftmaxCrossEntropyWithLogits":
        labels = "indices" if loss.sparse else "one-hot"
        return cross_entropy(reduction, written, ignored=None, labels=labels)
    if name == "NLLLoss":
        return reduced(
            "negative log likelihood",
            reduction,
            written,
            **{"ignore_index": loss.ignore_index, "class weights": weights_text(loss.weight)},
        )
    if name in ("BCEWithLogitsLoss", "BCELoss"):
        extra: dict[str, Setting] = {"weights": weights_text(getattr(loss, "weight", None))}
        if name == "BCEWithLogitsLoss":
            extra["weights of positives"] = weights_text(getattr(loss, "pos_weight", None))
        return reduced(_PLAIN[name], reduction, written, **extra)
    if name in _PLAIN:
        extra = {n: number(getattr(loss, n)) for n in ("beta", "delta") if hasattr(loss, n)}
        return reduced(_PLAIN[name], reduction, written, **extra)
    return LossRule("", {}, written)


def _reduction(loss: Any) -> str:
    if isinstance(getattr(loss, "reduction", None), str):
        return loss.reduction
    return "none" if not loss.reduce else "mean" if loss.average else "sum"


_PLAIN = {
    "MSELoss": "squared error",
    "L1Loss": "absolute error",
    "MAELoss": "absolute error",
    "SmoothL1Loss": "smooth absolute error",
    "HuberLoss": "Huber's loss",
    "BCELoss": "binary cross entropy",
    "BCEWithLogitsLoss": "binary cross entropy of logits",
}
