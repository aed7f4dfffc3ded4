"""Settings of a training script as every framework's reader states them, and errors for what none reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import ModelError
from ..ir.recipe import AFTER, COUPLED, DECAY, EPSILON_PLACE, KIND, LossRule, Setting
from .training_script import Script

_REDUCTIONS = ("mean", "sum")


def number(value: Any) -> float:
    """A Python float of a number, tensor or Parameter, without the digits that float32 adds."""
    found = value
    for name in ("detach", "asnumpy", "numpy"):
        if hasattr(found, name):
            found = getattr(found, name)()
    return float(f"{float(np.asarray(found).reshape(-1)[0]):.7g}")


def sgd(momentum: float, dampening: float, *, nesterov: bool, decay: float) -> dict[str, Setting]:
    """Settings of a step along the gradient or its running sum."""
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
    """Settings of Adam and its kin."""
    found: dict[str, Setting] = {"beta1": betas[0], "beta2": betas[1], "epsilon": epsilon}
    found |= {"amsgrad": amsgrad, "bias correction": corrected, "nesterov": nesterov}
    if corrected:
        found[EPSILON_PLACE] = place
    return found | dict(decay)


def decayed(decay: float, kind: str) -> dict[str, Setting]:
    """Weight decay; its kind only where there is some."""
    return {DECAY: decay, KIND: kind} if decay else {DECAY: 0.0}


def options_of(script: Script, gradients: float) -> dict[str, Setting]:
    """What the loop itself does; `gradients`: what the optimizer is given, times the true gradient."""
    found: dict[str, Setting] = {
        "clip norm": None if script.clip_norm is None else float(script.clip_norm),
        "clip value": None if script.clip_value is None else float(script.clip_value),
        "gradients times": float(f"{gradients:.7g}"),
        "precision": _precision(script.precision),
        "averaged weights": _average(script.ema),
    }
    return found


def _precision(value: Any) -> str | None:
    """``float16`` of a type, text of a level; None for float32 and O0."""
    text = "" if value is None else str(value).rpartition(".")[2].lower()
    return {"": None, "o0": None, "float32": None, "half": "float16"}.get(text, text)


def _average(value: Any) -> Setting:
    if value is None or isinstance(value, (int, float)):
        return value
    return f"a {type(value).__name__}, whose decay is not read: give a number"


def reduced(kind: str, reduction: str, written: str, **settings: Setting) -> LossRule:
    """A loss with its reduction; "none" trains on the sum, as a gradient is that of all elements together."""
    how = reduction if reduction in _REDUCTIONS else "none, so the gradients are the sum's"
    return LossRule(kind, {"reduction": how, **settings}, written)


def cross_entropy(
    reduction: str,
    written: str,
    *,
    smoothing: float = 0.0,
    ignored: int | None = -100,
    weights: Any = None,
    labels: str = "indices",
) -> LossRule:
    """Softmax and cross entropy in one."""
    return reduced(
        "cross entropy",
        reduction,
        written,
        **{
            "label smoothing": smoothing,
            "ignore_index": ignored,
            "class weights": weights_text(weights),
            "labels": labels,
        },
    )


def weights_text(weights: Any) -> str | None:
    """The weights of classes, short; None where all count alike."""
    if weights is None:
        return None
    found = weights
    for name in ("detach", "asnumpy", "numpy"):
        if hasattr(found, name):
            found = getattr(found, name)()
    values = [f"{float(v):.6g}" for v in np.asarray(found).reshape(-1)]
    return f"[{', '.join(values[:8])}{', …' if len(values) > 8 else ''}]"


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
        hint="one that waits for a metric cannot be followed without one: leave it out",
    )


def rates_of_groups(
    groups: Callable[[], Sequence[Any]], script: Script, steps: int, reference: str
) -> list[tuple[float, ...]]:
    """The learning rate of each group at each step, by advancing a schedule that is used up by it."""
    step = getattr(script.schedule, "step", None)
    if script.schedule is not None and (
        step is None or "Plateau" in type(script.schedule).__name__ or isinstance(script.schedule, type)
    ):
        raise refuse_schedule(script.schedule, reference)
    found: list[list[float]] = [[] for _ in groups()]
    per = 1 if script.schedule_every == "step" else int(script.steps_per_epoch or 1)
    for at in range(steps):
        for rates, group in zip(found, groups(), strict=True):
            rates.append(number(group["lr"]))
        if step is not None and (at + 1) % per == 0:
            step()
    return [tuple(rates) for rates in found]
