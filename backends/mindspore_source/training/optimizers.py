"""The optimizer in train.py: MindSpore's own where it computes the same, otherwise a class in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....frameworks.optimizers import MINDSPORE, WRITTEN_FOR_MINDSPORE
from ....ir import BackendError
from ....ir.recipe import DECAY, KIND, Recipe, UpdateRule


@dataclass(frozen=True, slots=True)
class WrittenOptimizer:
    """An optimizer as train.py has it.

    Attributes:
        name: what is called with groups and learning rate.
        arguments: the further ones; the weight decay stands in groups.
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
    kind, settings = rules[0].kind, dict(rules[0].settings)
    decaying = next((rule.settings for rule in rules if rule.settings[DECAY]), None)
    if decaying is not None:
        settings |= {DECAY: decaying[DECAY], KIND: decaying[KIND]}
    known = {f"nn.{name}": (each, "") for name, each in MINDSPORE.items()}
    known |= {n.rpartition(".")[2]: (each, _CLASSES[n]) for n, each in WRITTEN_FOR_MINDSPORE.items()}
    for name, (optimizer, source) in known.items():
        arguments = optimizer.write(settings) if optimizer.kind == kind else None
        if arguments is not None:
            stated = [f"{k}={v!r}" for k, v in arguments.items() if k != "weight_decay"]
            return WrittenOptimizer(name, stated, source)
    raise BackendError(
        "E602",
        f"expected SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Rprop or ASGD as torch has them, or one of "
        f"MindSpore's {', '.join(MINDSPORE)}, got `{recipe.optimizer}`",
        place=recipe.reference,
        hint="write the optimizer by hand: mindspore.experimental.optim has more of torch's",
    )


_ADAM = '''
class Adam(nn.Optimizer):
    """Adam as PyTorch computes it: both moments are corrected before epsilon is added.

    nn.Adam adds it before, and nn.AdamWeightDecay corrects nothing.
    """

    UPDATE = "torch.optim.Adam"

    def __init__(self, groups, learning_rate, betas, eps, decoupled=False, amsgrad=False):
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

    def __init__(self, groups, learning_rate, alpha, eps, momentum, centered=False):
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

    def __init__(self, groups, learning_rate, eps, start, lr_decay=0.0):
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

_CLASSES = {
    "torch.optim.Adam": _ADAM,
    "torch.optim.RMSprop": _RMSPROP,
    "torch.optim.Adagrad": _ADAGRAD,
}
"""Name of torch's class -> the source of one that computes the same."""
