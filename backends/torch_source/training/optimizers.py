"""The optimizer in train.py: torch's own where it computes the same, otherwise a class in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ....ir import BackendError
from ....ir.recipe import BEFORE, COUPLED, DECAY, DECOUPLED, EPSILON_PLACE, INSIDE, KIND, Recipe, UpdateRule

Settings = Mapping[str, object]
Arguments = dict[str, object]
"""Argument of an optimizer, or of one of its groups -> its value."""


@dataclass(frozen=True, slots=True)
class WrittenOptimizer:
    """An optimizer as train.py has it.

    Attributes:
        name: what is called with groups and their arguments.
        groups: the arguments of each group but its learning rate.
        source: the class where it is the file's own; empty for torch's.
    """

    name: str
    groups: Sequence[Arguments] = field(default_factory=list[Arguments])
    source: str = ""


def written_optimizer(recipe: Recipe, rules: Sequence[UpdateRule]) -> WrittenOptimizer:
    """Return the optimizer for groups with these rules.

    Raises:
        BackendError: for what neither torch nor a class of train.py computes (E602).
    """
    kind, first = rules[0].kind, rules[0].settings
    decoupled = any(rule.settings.get(KIND) == DECOUPLED for rule in rules)
    mixed = decoupled and any(rule.settings.get(KIND) == COUPLED for rule in rules)
    name = _NAMES[kind](first, decoupled) if kind in _NAMES else ""
    same = all(r.kind == kind and _NAMES[kind](r.settings, decoupled) == name for r in rules if name)
    if not name or not same or mixed or any(r.settings.get("centralised gradients") for r in rules):
        raise BackendError(
            "E602",
            "expected one of torch's SGD, Adam, AdamW, RMSprop and Adagrad or of MindSpore's nn.Adam and "
            f"nn.AdamWeightDecay for all groups, got `{recipe.optimizer}`",
            place=recipe.reference,
            hint="write the optimizer by hand, as a class of torch.optim.Optimizer",
        )
    groups = [_ARGUMENTS[kind](rule.settings) | _decay(rule) for rule in rules]
    if name != "Adam":
        return WrittenOptimizer(name, groups)
    for arguments, rule in zip(groups, rules, strict=True):
        arguments |= {"corrected": rule.settings["bias correction"], "decoupled": decoupled}
        arguments |= {"nesterov": True} if rule.settings["nesterov"] else {}
    return WrittenOptimizer(name, groups, _ADAM)


def _decay(rule: UpdateRule) -> Arguments:
    found: Arguments = {"weight_decay": rule.settings[DECAY]}
    return found | ({"maximize": True} if rule.settings.get("maximize") else {})


def _name_sgd(_: Settings, decoupled: bool) -> str:
    return "" if decoupled else "torch.optim.SGD"


def _name_adam(settings: Settings, decoupled: bool) -> str:
    plain = settings["bias correction"] and settings[EPSILON_PLACE] != BEFORE and not settings["nesterov"]
    if plain:
        return "torch.optim.AdamW" if decoupled else "torch.optim.Adam"
    return "" if settings.get("maximize") else "Adam"


def _name_rmsprop(settings: Settings, decoupled: bool) -> str:
    other = settings[INSIDE] or settings["mean square starts at"] or decoupled
    return "" if other else "torch.optim.RMSprop"


def _name_adagrad(settings: Settings, decoupled: bool) -> str:
    return "" if settings[INSIDE] or decoupled else "torch.optim.Adagrad"


_NAMES: Mapping[str, Callable[[Settings, bool], str]] = {
    "SGD": _name_sgd,
    "Adam": _name_adam,
    "RMSprop": _name_rmsprop,
    "Adagrad": _name_adagrad,
}
"""Kind of update -> what names the class for it; empty for none."""


def _sgd(settings: Settings) -> Arguments:
    given = {name: settings[name] for name in ("dampening", "nesterov") if settings.get(name)}
    return {"momentum": settings["momentum"], **given}


def _adam(settings: Settings) -> Arguments:
    amsgrad = {"amsgrad": True} if settings["amsgrad"] else {}
    return {"betas": (settings["beta1"], settings["beta2"]), "eps": settings["epsilon"], **amsgrad}


def _rmsprop(settings: Settings) -> Arguments:
    found = {"alpha": settings["alpha"], "eps": settings["epsilon"], "momentum": settings["momentum"]}
    return found | ({"centered": True} if settings["centered"] else {})


def _adagrad(settings: Settings) -> Arguments:
    return {
        "lr_decay": settings["rate decay"],
        "eps": settings["epsilon"],
        "initial_accumulator_value": settings["sum of squares starts at"],
    }


_ARGUMENTS: Mapping[str, Callable[[Settings], Arguments]] = {
    "SGD": _sgd,
    "Adam": _adam,
    "RMSprop": _rmsprop,
    "Adagrad": _adagrad,
}

_ADAM = '''
class Adam(torch.optim.Optimizer):
    """Adam as MindSpore computes it.

    Where the moments are corrected (nn.Adam), epsilon is added to the root before that; nn.AdamWeightDecay
    corrects nothing.
    """

    UPDATE = "mindspore.nn.Adam"

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        nesterov=False,
        corrected=True,
        decoupled=False,
        amsgrad=False,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"nesterov": nesterov, "corrected": corrected}
        super().__init__(params, {**defaults, "decoupled": decoupled, "amsgrad": amsgrad})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for value in group["params"]:
                if value.grad is not None:
                    self.update(value, value.grad, **{k: v for k, v in group.items() if k != "params"})

    def update(
        self, value, gradient, lr, betas, eps, weight_decay, nesterov, corrected, decoupled, amsgrad, **_
    ):
        state, (beta1, beta2) = self.state[value], betas
        if not state:
            state |= {"step": 0, "mean": torch.zeros_like(value), "square": torch.zeros_like(value)}
        if decoupled:
            value.mul_(1 - lr * weight_decay)
        else:
            gradient = gradient + weight_decay * value
        state["step"] += 1
        mean = state["mean"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        square = state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if nesterov:
            mean = beta1 * mean + (1 - beta1) * gradient
        if amsgrad:
            square = state["largest"] = torch.maximum(state.get("largest", square), square).clone()
        if corrected:
            lr *= (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        value.addcdiv_(mean, square.sqrt() + eps, value=-lr)
'''
