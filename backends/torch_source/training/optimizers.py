"""The optimizer in train.py: torch's own where it computes the same, otherwise a class in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ....frameworks.optimizers import TORCH, WRITTEN_FOR_TORCH, Optimizer
from ....ir import BackendError
from ....ir.recipe import Recipe, UpdateRule

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
    """Return the optimizer for groups with these rules, by as few arguments as possible.

    Raises:
        BackendError: for what neither torch nor a class of train.py computes (E602).
    """
    found = min(_fitting(rules), key=_length, default=None)
    if found is None:
        others = ", ".join(name.removeprefix("mindspore.") for name in WRITTEN_FOR_TORCH)
        raise BackendError(
            "E602",
            f"expected one of torch's {', '.join(TORCH)} or of MindSpore's {others} and nn.AdamWeightDecay "
            f"for all groups, got `{recipe.optimizer}`",
            place=recipe.reference,
            hint="write the optimizer by hand, as a class of torch.optim.Optimizer",
        )
    return found


def _fitting(rules: Sequence[UpdateRule]) -> Iterator[WrittenOptimizer]:
    """Yield the optimizers that make the updates of these rules."""
    for name, known in TORCH.items():
        groups = _groups(known, rules)
        if groups is not None:
            yield WrittenOptimizer(f"torch.optim.{name}", groups)
    for update, known in WRITTEN_FOR_TORCH.items():
        groups = _groups(known, rules)
        if groups is not None:
            yield WrittenOptimizer(update.rpartition(".")[2], groups, _CLASSES[update])


def _groups(known: Optimizer, rules: Sequence[UpdateRule]) -> list[Arguments] | None:
    found = [known.write(rule.settings) if rule.kind == known.kind else None for rule in rules]
    return None if None in found else [each for each in found if each is not None]


def _length(optimizer: WrittenOptimizer) -> tuple[int, int]:
    return len(optimizer.source), sum(map(len, optimizer.groups))


_STEP = """
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for value in group["params"]:
                if value.grad is not None:
                    self.update(value, value.grad, **{k: v for k, v in group.items() if k != "params"})
"""

_ADAM = f'''
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
        defaults = {{"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}}
        defaults |= {{"nesterov": nesterov, "corrected": corrected}}
        super().__init__(params, {{**defaults, "decoupled": decoupled, "amsgrad": amsgrad}})
{_STEP}
    def update(
        self, value, gradient, lr, betas, eps, weight_decay, nesterov, corrected, decoupled, amsgrad, **_
    ):
        state, (beta1, beta2) = self.state[value], betas
        if not state:
            state |= {{"step": 0, "mean": torch.zeros_like(value), "square": torch.zeros_like(value)}}
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

_RMSPROP = f'''
class RMSProp(torch.optim.Optimizer):
    """RMSprop as MindSpore computes it.

    The mean square starts at 1, epsilon is added inside the root, and the momentum holds learning rates.
    """

    UPDATE = "mindspore.nn.RMSProp"

    def __init__(
        self, params, lr=0.1, alpha=0.9, eps=1e-10, momentum=0.0, centered=False, weight_decay=0.0
    ):
        defaults = {{"lr": lr, "alpha": alpha, "eps": eps, "momentum": momentum}}
        super().__init__(params, {{**defaults, "centered": centered, "weight_decay": weight_decay}})
{_STEP}
    def update(self, value, gradient, lr, alpha, eps, momentum, centered, weight_decay, **_):
        state, gradient = self.state[value], gradient + weight_decay * value
        if not state:
            state |= {{"square": torch.ones_like(value), "moment": torch.zeros_like(value)}}
            state |= {{"mean": torch.zeros_like(value)}} if centered else {{}}
        square = state["square"].mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        if centered:
            mean = state["mean"].mul_(alpha).add_(gradient, alpha=1 - alpha)
            square = square - mean * mean
        value.sub_(state["moment"].mul_(momentum).add_(lr * gradient / (square + eps).sqrt()))
'''

_ADAGRAD = f'''
class Adagrad(torch.optim.Optimizer):
    """Adagrad as MindSpore computes it: epsilon is added inside the root."""

    UPDATE = "mindspore.nn.Adagrad"

    def __init__(self, params, lr=1e-3, eps=1e-8, initial_accumulator_value=0.1, weight_decay=0.0):
        defaults = {{"lr": lr, "eps": eps, "initial_accumulator_value": initial_accumulator_value}}
        super().__init__(params, {{**defaults, "weight_decay": weight_decay}})
{_STEP}
    def update(self, value, gradient, lr, eps, initial_accumulator_value, weight_decay, **_):
        state, gradient = self.state[value], gradient + weight_decay * value
        if not state:
            state["sum"] = torch.full_like(value, initial_accumulator_value)
        total = state["sum"].addcmul_(gradient, gradient)
        value.addcdiv_(gradient, (total + eps).sqrt(), value=-lr)
'''

_ADAMAX = f'''
class AdaMax(torch.optim.Optimizer):
    """Adamax as MindSpore computes it: epsilon is added to the largest magnitude of gradients."""

    UPDATE = "mindspore.nn.AdaMax"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, {{"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}})
{_STEP}
    def update(self, value, gradient, lr, betas, eps, weight_decay, **_):
        state, (beta1, beta2) = self.state[value], betas
        gradient = gradient + weight_decay * value
        if not state:
            state |= {{"step": 0, "mean": torch.zeros_like(value), "largest": torch.zeros_like(value)}}
        state["step"] += 1
        mean = state["mean"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        largest = state["largest"] = torch.maximum(beta2 * state["largest"], gradient.abs())
        value.addcdiv_(mean, largest + eps, value=-lr / (1 - beta1 ** state["step"]))
'''

_CLASSES = {
    "mindspore.nn.Adam": _ADAM,
    "mindspore.nn.RMSProp": _RMSPROP,
    "mindspore.nn.Adagrad": _ADAGRAD,
    "mindspore.nn.AdaMax": _ADAMAX,
}
"""Name of MindSpore's class -> the source of one that computes the same."""
