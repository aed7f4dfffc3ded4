"""The optimizer in train.py: MindSpore's own where it computes the same, otherwise a class in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....ir import BackendError
from ....ir.recipe import BEFORE, DECOUPLED, EPSILON_PLACE, INSIDE, KIND, Recipe, Setting, UpdateRule


@dataclass(frozen=True, slots=True)
class WrittenOptimizer:
    """An optimizer as train.py has it.

    Attributes:
        name: what is called with groups and learning rate.
        arguments: the further ones.
        source: the class where it is the file's own; empty for MindSpore's.
    """

    name: str
    arguments: Sequence[str]
    source: str = ""


def written_optimizer(recipe: Recipe, rules: Sequence[UpdateRule]) -> WrittenOptimizer:
    """Return the optimizer with the settings that all groups share.

    Raises:
        BackendError: for what neither MindSpore nor a class of train.py computes (E602).
    """
    settings = rules[0].settings
    decoupled = any(rule.settings.get(KIND) == DECOUPLED for rule in rules)
    write = _WRITERS.get(rules[0].kind)
    found = None if write is None else write(settings, decoupled)
    if found is None or settings.get("maximize") or settings.get("centralised gradients"):
        raise BackendError(
            "E602",
            f"expected SGD, Adam, AdamW, RMSprop or Adagrad as torch has them, got `{recipe.optimizer}`",
            place=recipe.reference,
            hint="write the optimizer by hand: mindspore.experimental.optim has more of torch's",
        )
    return found


Settings = Mapping[str, Setting]


def _sgd(settings: Settings, _: bool) -> WrittenOptimizer:
    arguments = [f"momentum={settings['momentum']!r}"]
    arguments += [f"{name}={settings[name]!r}" for name in ("dampening", "nesterov") if settings.get(name)]
    return WrittenOptimizer("nn.SGD", arguments)


def _adam(settings: Settings, decoupled: bool) -> WrittenOptimizer | None:
    if not settings["bias correction"]:
        return None
    if settings[EPSILON_PLACE] == BEFORE:
        arguments = [f"{name}={settings[name]!r}" for name in ("beta1", "beta2")]
        arguments.append(f"eps={settings['epsilon']!r}")
        arguments += [f"use_{name}=True" for name in ("nesterov", "amsgrad") if settings[name]]
        return None if decoupled else WrittenOptimizer("nn.Adam", arguments)
    arguments = [
        f"betas=({settings['beta1']!r}, {settings['beta2']!r})",
        f"eps={settings['epsilon']!r}",
        f"decoupled={decoupled}",
        f"amsgrad={settings['amsgrad']}",
    ]
    return None if settings["nesterov"] else WrittenOptimizer("Adam", arguments, _ADAM)


def _rmsprop(settings: Settings, _: bool) -> WrittenOptimizer | None:
    inside, start = settings[INSIDE], settings["mean square starts at"]
    rest = [f"momentum={settings['momentum']!r}", f"centered={settings['centered']}"]
    alpha, epsilon = repr(settings["alpha"]), repr(settings["epsilon"])
    if inside and start == 1.0:
        return WrittenOptimizer("nn.RMSProp", [f"decay={alpha}", f"epsilon={epsilon}", *rest])
    if inside or start:
        return None
    return WrittenOptimizer("RMSprop", [f"alpha={alpha}", f"eps={epsilon}", *rest], _RMSPROP)


def _adagrad(settings: Settings, _: bool) -> WrittenOptimizer | None:
    start, slower, epsilon = (
        settings[name] for name in ("sum of squares starts at", "rate decay", "epsilon")
    )
    if settings[INSIDE]:  # nn.Adagrad's own, which no argument changes
        return None if slower else WrittenOptimizer("nn.Adagrad", [f"accum={start!r}"])
    arguments = [f"lr_decay={slower!r}", f"eps={epsilon!r}", f"start={start!r}"]
    return WrittenOptimizer("Adagrad", arguments, _ADAGRAD)


_WRITERS = {"SGD": _sgd, "Adam": _adam, "RMSprop": _rmsprop, "Adagrad": _adagrad}

_ADAM = '''
class Adam(nn.Optimizer):
    """Adam as PyTorch computes it: both moments are corrected before epsilon is added.

    nn.Adam adds it before, and nn.AdamWeightDecay corrects nothing.
    """

    UPDATE = "torch.optim.Adam"

    def __init__(self, groups, learning_rate, betas, eps, decoupled, amsgrad=False):
        super().__init__(learning_rate, groups)
        self.betas, self.eps, self.decoupled, self.amsgrad = betas, eps, decoupled, amsgrad
        self.moment1 = self.parameters.clone(prefix="moment1", init="zeros")
        self.moment2 = self.parameters.clone(prefix="moment2", init="zeros")
        if amsgrad:
            self.vhat = self.parameters.clone(prefix="vhat", init="zeros")

    @ms.jit
    def construct(self, gradients):
        beta1, beta2 = self.betas
        rates, decays = self.get_lr(), self.get_weight_decay()
        self.assignadd(self.global_step, self.global_step_increase_tensor)
        step = self.global_step.astype(ms.float32).reshape(())
        correction1 = 1 - ops.pow(Tensor(beta1, ms.float32), step)
        correction2 = ops.sqrt(1 - ops.pow(Tensor(beta2, ms.float32), step))
        for i in range(len(gradients)):
            rate = rates[i] if self.is_group_lr else rates
            value, gradient = self.parameters[i], gradients[i]
            if self.decay_flags[i]:
                if self.decoupled:
                    value = value * (1 - rate * decays[i])
                else:
                    gradient = gradient + decays[i] * value
            moment1 = beta1 * self.moment1[i] + (1 - beta1) * gradient
            moment2 = beta2 * self.moment2[i] + (1 - beta2) * gradient * gradient
            ops.assign(self.moment1[i], moment1)
            ops.assign(self.moment2[i], moment2)
            if self.amsgrad:
                moment2 = ops.maximum(self.vhat[i], moment2)
                ops.assign(self.vhat[i], moment2)
            change = moment1 / correction1 / (ops.sqrt(moment2) / correction2 + self.eps)
            ops.assign(self.parameters[i], value - rate * change)
        return True
'''

_RMSPROP = '''
class RMSprop(nn.Optimizer):
    """RMSprop as PyTorch computes it: the mean square starts at 0, and epsilon is added to its root.

    nn.RMSProp's starts at 1, and epsilon is added inside the root.
    """

    UPDATE = "torch.optim.RMSprop"

    def __init__(self, groups, learning_rate, alpha, eps, momentum, centered):
        super().__init__(learning_rate, groups)
        self.alpha, self.eps = alpha, eps
        self.momentum, self.centered = momentum, centered
        self.mean_square = self.parameters.clone(prefix="mean_square", init="zeros")
        if centered:
            self.mean_grad = self.parameters.clone(prefix="mean_grad", init="zeros")
        if momentum:
            self.moment = self.parameters.clone(prefix="moment", init="zeros")

    @ms.jit
    def construct(self, gradients):
        alpha = self.alpha
        rates, decays = self.get_lr(), self.get_weight_decay()
        self.assignadd(self.global_step, self.global_step_increase_tensor)
        for i in range(len(gradients)):
            rate = rates[i] if self.is_group_lr else rates
            value, gradient = self.parameters[i], gradients[i]
            if self.decay_flags[i]:
                gradient = gradient + decays[i] * value
            mean_square = alpha * self.mean_square[i] + (1 - alpha) * gradient * gradient
            ops.assign(self.mean_square[i], mean_square)
            if self.centered:
                mean_grad = alpha * self.mean_grad[i] + (1 - alpha) * gradient
                ops.assign(self.mean_grad[i], mean_grad)
                mean_square = mean_square - mean_grad * mean_grad
            change = gradient / (ops.sqrt(mean_square) + self.eps)
            if self.momentum:
                change = self.momentum * self.moment[i] + change
                ops.assign(self.moment[i], change)
            ops.assign(self.parameters[i], value - rate * change)
        return True
'''

_ADAGRAD = '''
class Adagrad(nn.Optimizer):
    """Adagrad as PyTorch computes it: epsilon is added to the root, and lr_decay slows every step down.

    nn.Adagrad has neither.
    """

    UPDATE = "torch.optim.Adagrad"

    def __init__(self, groups, learning_rate, lr_decay, eps, start):
        super().__init__(learning_rate, groups)
        self.lr_decay, self.eps, self.start = lr_decay, eps, start
        self.accum = self.parameters.clone(prefix="accum", init=start)

    @ms.jit
    def construct(self, gradients):
        rates, decays = self.get_lr(), self.get_weight_decay()
        slower = 1 + self.lr_decay * self.global_step.astype(ms.float32).reshape(())
        self.assignadd(self.global_step, self.global_step_increase_tensor)
        for i in range(len(gradients)):
            rate = rates[i] if self.is_group_lr else rates
            value, gradient = self.parameters[i], gradients[i]
            if self.decay_flags[i]:
                gradient = gradient + decays[i] * value
            accum = self.accum[i] + gradient * gradient
            ops.assign(self.accum[i], accum)
            change = gradient / (ops.sqrt(accum) + self.eps)
            ops.assign(self.parameters[i], value - rate / slower * change)
        return True
'''
