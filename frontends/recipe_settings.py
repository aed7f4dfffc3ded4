"""Optimizers, schedules and loops as every framework's reader states them, and errors for what none reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..frameworks.optimizers import Optimizer
from ..ir import ModelError
from ..ir.recipe import RATE_PLACE, LossScaler, Setting, UpdateRule
from .training_script import Script


def array_of(value: Any) -> np.ndarray:
    """Return the elements of a number, tensor or Parameter."""
    for name in ("detach", "asnumpy", "numpy"):
        if hasattr(value, name):
            value = getattr(value, name)()
    return np.asarray(value)


def number(value: Any) -> float:
    """Return a Python float of a number, tensor or Parameter, without the digits that float32 adds."""
    return float(f"{float(array_of(value).reshape(-1)[0]):.7g}")


def update_rule(
    known: Optimizer,
    value_of: Callable[[str], Any],
    rates: tuple[float, ...],
    decay: float | None = None,
) -> UpdateRule:
    """Return the rule of an optimizer, or of a group of its parameters.

    Args:
        known: its class.
        value_of: returns the value of an argument of the class; None for one that it does not have.
        rates: the learning rates.
        decay: the weight decay; None for that of its argument.
    """
    own = number(value_of("weight_decay") or 0.0) if decay is None else decay
    settings = known.read(value_of, number, own)
    if len(set(rates)) < 2:
        settings.pop(RATE_PLACE, None)  # without effect
    return UpdateRule(known.kind, settings, rates)


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
        start, grows = number(scale.get_scale()), scale.get_growth_factor()
        if grows == 1.0:
            return LossScaler(start)
        return LossScaler(start, grows, scale.get_growth_interval(), scale.get_backoff_factor())
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
