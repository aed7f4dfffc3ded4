"""The optimizers of frameworks: the update that each class makes, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir.recipe import (
    ABSENT,
    AFTER,
    BEFORE,
    COUPLED,
    DECAY,
    DECOUPLED,
    EACH,
    EPSILON_PLACE,
    INSIDE,
    KIND,
    LARGEST,
    RATE_PLACE,
    Setting,
)

_START, _SUM = "mean square starts at", "sum of squares starts at"
_CORRECTED = "bias correction"

_DEFAULTS = (
    "dampening",
    "nesterov",
    "amsgrad",
    "centered",
    "maximize",
    "use_nesterov",
    "use_amsgrad",
    "lr_decay",
)
"""Arguments that say nothing where they are 0 or False."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A class of optimizers.

    Attributes:
        kind: of its update, as in `UpdateRule`.
        arguments: argument -> the setting that it states, or those that its numbers state in turn.
        fixed: setting -> the value that no argument changes.
        decays: the kind of its weight decay, or the argument that makes it `DECOUPLED`; empty without decay.
    """

    kind: str
    arguments: Mapping[str, str | tuple[str, ...]]
    fixed: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    decays: str = COUPLED

    def read(
        self, value_of: Callable[[str], Any], number: Callable[[Any], float], decay: float
    ) -> dict[str, Setting]:
        """Return the settings of an optimizer, without those of no effect.

        Args:
            value_of: returns the value of an argument; None for one that it does not have.
            number: makes a Python number of one of the framework's.
            decay: its weight decay.
        """
        found: dict[str, Setting] = dict(self.fixed)
        for argument, names in self.arguments.items():
            value = value_of(argument)
            if not isinstance(names, str):
                found |= {name: number(each) for name, each in zip(names, value, strict=True)}
            elif value is not None:
                found[names] = value if isinstance(value, bool) else number(value)
        found[DECAY] = decay
        if self.decays not in ("", COUPLED, DECOUPLED):
            found[KIND] = DECOUPLED if value_of(self.decays) else COUPLED
        elif self.decays:
            found[KIND] = self.decays
        return without_idle(found)

    def write(self, settings: Mapping[str, Setting]) -> dict[str, object] | None:
        """Return the arguments for settings, those of weight decay too; None where it has not all of them."""
        left = {**ABSENT, **settings}
        decay, kind = left.pop(DECAY), left.pop(KIND, None)
        if any(left.pop(name, value) != value for name, value in self.fixed.items()):
            return None
        found: dict[str, object] = {}
        for argument, names in self.arguments.items():
            if isinstance(names, str):
                value: object = left.pop(names, None)
            else:
                value = tuple(left.pop(name, None) for name in names)
            if value is None and argument not in _DEFAULTS:
                return None
            if value or argument not in _DEFAULTS:
                found[argument] = value
        if any(value != ABSENT.get(name) for name, value in left.items()):
            return None
        if not self.decays:
            return None if decay else found
        found["weight_decay"] = decay
        if kind is None or kind == self.decays:
            return found
        if self.decays in (COUPLED, DECOUPLED):
            return None
        return found | ({self.decays: True} if kind == DECOUPLED else {})


def without_idle(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return settings without those that have no effect beside the others."""
    idle = {name for name, value in ABSENT.items() if settings.get(name) == value}
    if not settings[DECAY]:
        idle.add(KIND)
    if not settings.get("momentum"):
        idle |= {"dampening", "nesterov", RATE_PLACE} if "momentum" in settings else set()
    if not settings.get(_CORRECTED, True):
        idle.add(EPSILON_PLACE)
    return {name: value for name, value in settings.items() if name not in idle}


def _torchs(
    kind: str,
    arguments: Mapping[str, str | tuple[str, ...]],
    fixed: Mapping[str, Setting] | None = None,
    decays: str = COUPLED,
) -> Optimizer:
    """Return a class of torch's, all of which can climb."""
    return Optimizer(kind, {**arguments, "maximize": "maximize"}, fixed or {}, decays)


def _same(*names: str) -> dict[str, str | tuple[str, ...]]:
    return {name: name for name in names}


_BETAS: dict[str, str | tuple[str, ...]] = {"betas": ("beta1", "beta2"), "eps": "epsilon"}
_ADAM: dict[str, Setting] = {_CORRECTED: True, "nesterov": False, EPSILON_PLACE: AFTER}
_RMSPROP = {**_same("alpha", "momentum", "centered"), "eps": "epsilon"}
_FLAG = "decoupled_weight_decay"

TORCH = {
    "SGD": _torchs("SGD", _same("momentum", "dampening", "nesterov")),
    "Adam": _torchs("Adam", {**_BETAS, **_same("amsgrad")}, _ADAM, _FLAG),
    "AdamW": _torchs("Adam", {**_BETAS, **_same("amsgrad")}, _ADAM, DECOUPLED),
    "RMSprop": _torchs("RMSprop", _RMSPROP, {INSIDE: False, _START: 0.0, RATE_PLACE: False}),
    "Adagrad": _torchs(
        "Adagrad",
        {"lr_decay": "rate decay", "eps": "epsilon", "initial_accumulator_value": _SUM},
        {INSIDE: False},
    ),
    "Adadelta": _torchs("Adadelta", {**_same("rho"), "eps": "epsilon"}),
    "Adamax": _torchs("Adamax", _BETAS, {EPSILON_PLACE: EACH}),
    "NAdam": _torchs("NAdam", {**_BETAS, "momentum_decay": "momentum decay"}, decays=_FLAG),
    "RAdam": _torchs("RAdam", _BETAS, decays=_FLAG),
    "Rprop": _torchs(
        "Rprop", {"etas": ("shrinks", "grows"), "step_sizes": ("least step", "largest step")}, decays=""
    ),
    "ASGD": _torchs("ASGD", _same("lambd", "alpha", "t0")),
}
"""Classes of torch.optim, and of mindspore.mint.optim with the same arguments."""

EXPERIMENTAL = {
    **TORCH,
    # it runs the kernel of nn.Adam, without AMSGrad
    "Adam": Optimizer("Adam", _BETAS, {**_ADAM, "amsgrad": False, EPSILON_PLACE: BEFORE}),
}
"""Classes of mindspore.experimental.optim."""

_BETA: dict[str, str | tuple[str, ...]] = {**_same("beta1", "beta2"), "eps": "epsilon"}


def _without_maximize(name: str) -> Optimizer:
    """Return one of torch's classes, as a framework has it whose classes only descend."""
    arguments = {k: v for k, v in TORCH[name].arguments.items() if k != "maximize"}
    return replace(TORCH[name], arguments=arguments)


MINDSPORE = {
    "SGD": _without_maximize("SGD"),
    # on the CPU its kernel gives the same with and without use_nesterov (2.10)
    "Momentum": Optimizer("SGD", _same("momentum"), {"dampening": 0.0, "nesterov": False}),
    "Adam": Optimizer(
        "Adam",
        {**_BETA, "use_amsgrad": "amsgrad", "use_nesterov": "nesterov"},
        {_CORRECTED: True, EPSILON_PLACE: BEFORE},
    ),
    "AdamWeightDecay": Optimizer(
        "Adam", _BETA, {_CORRECTED: False, "amsgrad": False, "nesterov": False}, DECOUPLED
    ),
    "RMSProp": Optimizer(
        "RMSprop",
        {"decay": "alpha", "epsilon": "epsilon", **_same("momentum", "centered")},
        {INSIDE: True, _START: 1.0, RATE_PLACE: True},
    ),
    # its kernel on the CPU adds 1e-8 to the sum of squares, and no argument changes that (2.10)
    "Adagrad": Optimizer("Adagrad", {"accum": _SUM}, {"rate decay": 0.0, "epsilon": 1e-8, INSIDE: True}),
    "Adadelta": Optimizer("Adadelta", {**_same("rho"), "epsilon": "epsilon"}),
    "AdaMax": Optimizer("Adamax", _BETA, {EPSILON_PLACE: LARGEST}),
    "Rprop": _without_maximize("Rprop"),
    "ASGD": _without_maximize("ASGD"),
}
"""Classes of mindspore.nn; their weight decay stands in groups."""

WRITTEN_FOR_MINDSPORE = {
    "torch.optim.Adam": replace(_without_maximize("Adam"), decays="decoupled"),
    "torch.optim.RMSprop": _without_maximize("RMSprop"),
    "torch.optim.Adagrad": Optimizer(
        "Adagrad", {"lr_decay": "rate decay", "eps": "epsilon", "start": _SUM}, {INSIDE: False}
    ),
}
"""`UPDATE` of a class in a MindSpore train.py, torch's class whose update it makes -> its arguments."""

WRITTEN_FOR_TORCH = {
    "mindspore.nn.Adam": Optimizer(
        "Adam",
        {**_BETAS, **_same("nesterov", "amsgrad"), "corrected": _CORRECTED},
        {EPSILON_PLACE: BEFORE},
        "decoupled",
    ),
    "mindspore.nn.RMSProp": Optimizer("RMSprop", _RMSPROP, MINDSPORE["RMSProp"].fixed),
    "mindspore.nn.Adagrad": Optimizer(
        "Adagrad",
        {"eps": "epsilon", "initial_accumulator_value": _SUM},
        {"rate decay": 0.0, INSIDE: True},
    ),
    "mindspore.nn.AdaMax": Optimizer("Adamax", _BETAS, MINDSPORE["AdaMax"].fixed),
}
"""The same of a class in a PyTorch train.py."""
