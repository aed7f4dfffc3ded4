"""Optimizers, schedules and loops as every framework's reader states them, and errors for what none reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import ModelError
from ..ir.recipe import AFTER, COUPLED, DECAY, DECOUPLED, EPSILON_PLACE, INSIDE, KIND, LossScaler, Setting
from .training_script import Script

Group = Mapping[str, Any]
"""Arguments of some parameters, as an optimizer with torch's arguments keeps them."""


def array_of(value: Any) -> np.ndarray:
    """Return the elements of a number, tensor or Parameter, in one dimension."""
    for name in ("detach", "asnumpy", "numpy"):
        if hasattr(value, name):
            value = getattr(value, name)()
    return np.asarray(value).reshape(-1)


def number(value: Any) -> float:
    """Return a Python float of a number, tensor or Parameter, without the digits that float32 adds."""
    return float(f"{float(array_of(value)[0]):.7g}")


def sgd(momentum: float, dampening: float, *, nesterov: bool, decay: float) -> dict[str, Setting]:
    """Return settings of a step along the gradient or its running sum."""
    found: dict[str, Setting] = {"momentum": momentum}
    if momentum:
        found |= {"dampening": dampening, "nesterov": nesterov}
    return found | decayed(decay, COUPLED)


def adam(
    betas: Sequence[float],
    epsilon: float,
    *,
    decay: Mapping[str, Setting],
    amsgrad: bool = False,
    corrected: bool = True,
    place: str = AFTER,
    nesterov: bool = False,
) -> dict[str, Setting]:
    """Return settings of Adam and its kin."""
    found: dict[str, Setting] = {"beta1": betas[0], "beta2": betas[1], "epsilon": epsilon}
    found |= {"amsgrad": amsgrad, "bias correction": corrected, "nesterov": nesterov}
    if corrected:
        found[EPSILON_PLACE] = place
    return found | dict(decay)


def rmsprop(
    alpha: float,
    epsilon: float,
    *,
    inside: bool,
    start: float,
    momentum: float,
    centered: bool,
    decay: float,
) -> dict[str, Setting]:
    """Return settings of RMSprop; `inside`: epsilon is added inside the root, `start`: of its mean square."""
    return {
        "alpha": alpha,
        "epsilon": epsilon,
        INSIDE: inside,
        "mean square starts at": start,
        "momentum": momentum,
        "centered": centered,
        **decayed(decay, COUPLED),
    }


def adagrad(
    slower: float, epsilon: float, start: float, decay: float, *, inside: bool = False
) -> dict[str, Setting]:
    """Return settings of Adagrad.

    Args:
        slower: its own decay of the learning rate.
        epsilon: what is added to the root.
        start: of its sum of squares.
        decay: of the weights.
        inside: whether epsilon is added inside the root.
    """
    return {
        "rate decay": slower,
        "epsilon": epsilon,
        INSIDE: inside,
        "sum of squares starts at": start,
        **decayed(decay, COUPLED),
    }


def decayed(decay: float, kind: str) -> dict[str, Setting]:
    """Return weight decay; its kind only where there is some."""
    return {DECAY: decay, KIND: kind} if decay else {DECAY: 0.0}


def _sgd_group(group: Group) -> dict[str, Setting]:
    return sgd(
        number(group["momentum"]),
        number(group["dampening"]),
        nesterov=bool(group["nesterov"]),
        decay=number(group["weight_decay"]),
    )


def _adam_group(group: Group) -> dict[str, Setting]:
    kind = DECOUPLED if group.get("decoupled_weight_decay") else COUPLED
    return adam(
        [number(b) for b in group["betas"]],
        number(group["eps"]),
        amsgrad=bool(group["amsgrad"]),
        decay=decayed(number(group["weight_decay"]), kind),
    )


def _rmsprop_group(group: Group) -> dict[str, Setting]:
    return rmsprop(
        number(group["alpha"]),
        number(group["eps"]),
        inside=False,
        start=0.0,
        momentum=number(group["momentum"]),
        centered=bool(group["centered"]),
        decay=number(group["weight_decay"]),
    )


def _adagrad_group(group: Group) -> dict[str, Setting]:
    return adagrad(
        number(group["lr_decay"]),
        number(group["eps"]),
        number(group["initial_accumulator_value"]),
        number(group["weight_decay"]),
    )


_GROUPS: dict[str, tuple[str, Callable[[Group], dict[str, Setting]]]] = {
    "SGD": ("SGD", _sgd_group),
    "Adam": ("Adam", _adam_group),
    "AdamW": ("Adam", lambda group: _adam_group({**group, "decoupled_weight_decay": True})),
    "RMSprop": ("RMSprop", _rmsprop_group),
    "Adagrad": ("Adagrad", _adagrad_group),
}
GROUPED = tuple(_GROUPS)
"""Classes with torch's arguments whose groups are read."""


def read_group(class_name: str, group: Group) -> tuple[str, dict[str, Setting]]:
    """(kind of update, settings) of a group of a class of `GROUPED`, as torch's of that name computes."""
    kind, read = _GROUPS[class_name]
    return kind, read(group) | ({"maximize": True} if group.get("maximize") else {})


def loop_scale(scale: Any) -> float:
    """Return the factor of the loss that the loop leaves in the gradients."""
    if hasattr(scale, "scale"):  # torch's GradScaler and mindspore.amp's scalers take it out again
        return 1.0
    if hasattr(scale, "get_loss_scale"):  # MindSpore's manager that keeps it leaves that to the optimizer
        return 1.0 if scale.get_drop_overflow_update() else number(scale.get_loss_scale())
    return number(scale)


def read_scaler(scale: Any) -> LossScaler | None:
    """Return the scaler that a loop divides out of gradients; None for a number or an idle scaler."""
    if hasattr(scale, "get_growth_factor"):  # torch's
        if not scale.is_enabled():
            return None
        grows, shrinks = scale.get_growth_factor(), scale.get_backoff_factor()
        return LossScaler(number(scale.get_scale()), grows, scale.get_growth_interval(), shrinks)
    if not hasattr(scale, "scale_value"):  # mindspore.amp's have it
        return None
    factor = number(getattr(scale, "scale_factor", 1.0))
    window = int(getattr(scale, "scale_window", 1))
    return LossScaler(number(scale.scale_value), factor, window, 1 / factor)


def options_of(script: Script, optimizers: float = 1.0) -> dict[str, Setting]:
    """Return the settings of the loop itself; `optimizers`: the divisor of the gradients in the optimizer."""
    scale, scaler = loop_scale(script.loss_scale), read_scaler(script.loss_scale)
    found: dict[str, Setting] = {
        # the loop clips gradients that are as many times too large as its scale
        "clip norm": None if script.clip_norm is None else number(float(script.clip_norm) / scale),
        "clip value": None if script.clip_value is None else number(float(script.clip_value) / scale),
        "gradients times": number(scale / optimizers),
        "precision": _precision(script.precision),
        "loss scaler": None if scaler is None else str(scaler),
        "averaged weights": _average(script.ema),
    }
    return found


def _precision(value: Any) -> str | None:
    """Return ``float16`` of a type and of MindSpore's "auto", text of a level; None for float32 and O0."""
    text = "" if value is None else str(value).rpartition(".")[2].lower()
    return {"": None, "o0": None, "float32": None, "half": "float16", "auto": "float16"}.get(text, text)


def _average(value: Any) -> Setting:
    if value is None or isinstance(value, (int, float)):
        return value
    return f"a {type(value).__name__}, whose decay is not read: give a number"


def refuse_optimizer(optimizer: Any, reference: str, known: Sequence[str]) -> ModelError:
    """E704 for an optimizer whose update is not known."""
    home, name = type(optimizer).__module__, type(optimizer).__qualname__
    return ModelError(
        "E704",
        f"expected an optimizer whose update is known ({', '.join(known)}), got "
        f"`{name if home.startswith('regraft_') else f'{home}.{name}'}`",
        place=reference,
        hint="give one of these, or compare one step of the nets without --recipe",
    )


def refuse_schedule(schedule: Any, reference: str) -> ModelError:
    """E704 for what is no schedule that depends on the number of the step alone."""
    return ModelError(
        "E704",
        "expected a schedule with step() that depends on the number of the step alone, got "
        f"`{type(schedule).__name__}`",
        place=reference,
        hint="regraft cannot follow a schedule that waits for a metric: leave it out",
    )


def _calls_of(schedule: Any) -> int | None:
    """Return how often to call ``step()`` of a schedule; None if that is open.

    A cosine turns up again after its length, and one cycle raises.
    """
    for name in ("total_steps", "T_max"):
        if hasattr(schedule, name):
            return int(getattr(schedule, name))
    parts = list(getattr(schedule, "_schedulers", ()))
    lengths = [_calls_of(part) for part in parts]
    before = getattr(schedule, "_milestones", None)
    if before and lengths:  # one after another
        return None if lengths[-1] is None else int(before[-1]) + lengths[-1]
    return min((length for length in lengths if length is not None), default=None)


def rates_of_groups(
    groups: Callable[[], Sequence[Any]], script: Script, steps: int, reference: str
) -> list[tuple[float, ...]]:
    """Return the learning rate of each group at each step, by advancing a schedule that is used up by it.

    Where the script does not say how many steps it makes, those up to the schedule's end.
    """
    step = getattr(script.schedule, "step", None)
    if script.schedule is not None and (
        step is None or "Plateau" in type(script.schedule).__name__ or isinstance(script.schedule, type)
    ):
        raise refuse_schedule(script.schedule, reference)
    calls = _calls_of(script.schedule)
    if script.steps is None and calls is not None:
        steps = min(steps, max(calls, 1) * script.steps_per_rate)
    found: list[list[float]] = [[] for _ in groups()]
    for at in range(steps):
        for rates, group in zip(found, groups(), strict=True):
            rates.append(number(group["lr"]))
        if step is not None and (at + 1) % script.steps_per_rate == 0 and at + 1 < steps:
            step()
    return [tuple(rates) for rates in found]
