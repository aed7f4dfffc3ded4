"""The text of train.py, from a recipe that was read: loss, groups, optimizer, learning rates and one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from keyword import iskeyword

from ...ir import BackendError
from ...ir.recipe import BEFORE, DECAY, DECOUPLED, EPSILON_PLACE, KIND, LossRule, Recipe, Setting, UpdateRule
from .text.program import format_source

SCRIPT = "train.py"

_RUNS = 12
"""Stretches of one learning rate up to which a schedule is written as stretches."""

_FIRST = 12
"""Names of parameters up to which a group is written as a list of them."""


def training_source(recipe: Recipe, trainable: Sequence[str], inputs: Sequence[str], reference: str) -> str:
    """The text of train.py.

    Args:
        recipe: what a training script builds, with the emitted net's names of parameters.
        trainable: names of the emitted net's trainable parameters, in order.
        inputs: names of the net's inputs.
        reference: the training script, for a comment.

    Raises:
        BackendError: for what cannot be written (E602).
    """
    _refuse_options(recipe)
    groups = _groups(recipe, trainable)
    own = groups[0][0].kind == "Adam" and not _is_mindspores(groups[0][0])
    scheduled = any(len(set(rule.rates)) > 1 for rule, _ in groups)
    parts = [
        _HEAD.format(reference=_escaped(reference), names=", ".join(inputs)),
        _loss_function(recipe.loss),
        _RATES if scheduled else "",
        _ADAM if own else "",
        _optimizer_function(groups, trainable),
        _recipe_function(recipe),
        _step(recipe, inputs),
    ]
    return format_source("\n\n".join(part for part in parts if part))


_HEAD = '''"""Trains the net of model.py as `{reference}` trains its source.

In a program:

    import mindspore as ms
    from model import build
    from train import TrainStep

    step = TrainStep(build())  # in PyNative or graph mode
    for {names}, labels in batches:
        loss = step({names}, labels)
    ms.save_checkpoint(step, "last.ckpt")  # with the optimizer's state, so that training can go on:
    ms.load_param_into_net(step, ms.load_checkpoint("last.ckpt"), strict_load=True)
"""

import mindspore as ms
from mindspore import Tensor, nn, ops
'''

_RATES = '''
class Rates(nn.learning_rate_schedule.LearningRateSchedule):
    """The learning rate of each step: (rate, steps), or (first rate, last rate, steps) on a line."""

    def __init__(self, *stretches):
        super().__init__()
        rates = []
        for *ends, steps in stretches:
            first, last = ends[0], ends[-1]
            rates += [first + (last - first) * at / max(steps - 1, 1) for at in range(steps)]
        self.rates = Tensor(rates, ms.float32)
        self.last = len(rates) - 1

    def construct(self, step):
        return ops.gather(self.rates, ops.minimum(step, self.last), 0)
'''

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


def _escaped(text: str) -> str:
    """A text that may hold quotes and new lines, as it stands in a docstring or a comment."""
    return repr(text)[1:-1].replace('"', '\\"')


def _refuse_options(recipe: Recipe) -> None:
    for name, nothing in (("precision", None), ("averaged weights", None), ("gradients times", 1.0)):
        if recipe.options[name] != nothing:
            raise BackendError(
                "E602",
                f"expected a recipe without `{name}`, got {recipe.options[name]}: train.py has no such thing",
                place=recipe.reference,
                hint="leave it out of the recipe, and add it to train.py by hand",
            )


# -- loss ----------------------------------------------------------------------------------------------

_LOSSES = {
    "squared error": "MSELoss",
    "absolute error": "L1Loss",
    "smooth absolute error": "SmoothL1Loss",
    "Huber's loss": "HuberLoss",
    "binary cross entropy": "BCELoss",
    "binary cross entropy of logits": "BCEWithLogitsLoss",
    "cross entropy": "CrossEntropyLoss",
    "negative log likelihood": "NLLLoss",
}

_ARGUMENTS = {
    "label smoothing": ("label_smoothing", 0.0),
    "ignore_index": ("ignore_index", -100),
    "class weights": ("weight", None),
    "weights": ("weight", None),
    "weights of positives": ("pos_weight", None),
    "beta": ("beta", 1.0),
    "delta": ("delta", 1.0),
}
"""Setting -> the argument, and MindSpore's default."""


def _loss_function(loss: LossRule) -> str:
    settings = dict(loss.settings)
    known = loss.kind in _LOSSES and settings.get("times", 1.0) == 1.0
    if not known or settings.get("class axis", 1) != 1 or settings.get("labels", "indices") != "indices":
        raise BackendError(
            "E602",
            f"expected a loss that MindSpore has ({', '.join(sorted(_LOSSES))}), got `{loss.written}`"
            + (f", {loss.kind} with {settings}" if loss.kind else ", a function that its values do not tell"),
            hint="give one of the framework's losses as the recipe's `loss`",
        )
    reduction = "mean" if settings.pop("reduction") == "mean" else "sum"
    arguments = [f'reduction="{reduction}"']
    for name, (argument, default) in _ARGUMENTS.items():
        value = settings.get(name, default)
        if value != default:
            text = f"Tensor({value}, ms.float32)" if isinstance(value, str) else repr(value)
            arguments.append(f"{argument}={text}")
    told = f"  # `{_escaped(loss.written)}`, told from its values" if loss.measured else ""
    return f"\ndef make_loss():\n    return nn.{_LOSSES[loss.kind]}({', '.join(arguments)}){told}\n"


# -- optimizer -----------------------------------------------------------------------------------------


def _groups(recipe: Recipe, trainable: Sequence[str]) -> list[tuple[UpdateRule, list[str]]]:
    """Parameters of one rule together, in the net's order."""
    found: dict[tuple[object, ...], tuple[UpdateRule, list[str]]] = {}
    for name in trainable:
        rule = recipe.rules.get(name)
        if rule is not None:
            key = (rule.kind, tuple(sorted(rule.settings.items(), key=str)), rule.rates)
            found.setdefault(key, (rule, []))[1].append(name)
    groups = list(found.values())
    if not groups:
        raise BackendError("E602", "expected an optimizer of the net's parameters, got one of none of them")
    rules = [rule for rule, _ in groups]
    same = [{k: v for k, v in r.settings.items() if k not in (DECAY, KIND)} for r in rules]
    kinds = {r.settings[KIND] for r in rules if KIND in r.settings}
    if any(s != same[0] for s in same) or len({r.kind for r in rules}) > 1 or len(kinds) > 1:
        raise BackendError(
            "E602",
            "expected groups that differ in learning rate and weight decay, got groups that differ in more",
            place=recipe.reference,
            hint="MindSpore's optimizers have the other settings once for all",
        )
    settings = same[0]
    right = rules[0].kind == "SGD" or (
        rules[0].kind == "Adam"
        and settings["bias correction"]
        and (_is_mindspores(rules[0]) or not settings["nesterov"])
        and not (_is_mindspores(rules[0]) and DECOUPLED in kinds)
    )
    if not right or settings.get("maximize") or settings.get("centralised gradients"):
        raise BackendError(
            "E602",
            f"expected SGD, Adam or AdamW as torch has them, got `{recipe.optimizer}`",
            place=recipe.reference,
            hint="write the optimizer by hand: mindspore.experimental.optim has more of torch's",
        )
    return groups


def _is_mindspores(rule: UpdateRule) -> bool:
    """Whether a rule is that of `nn.Adam`."""
    return rule.kind == "Adam" and rule.settings[EPSILON_PLACE] == BEFORE


def _optimizer_function(groups: Sequence[tuple[UpdateRule, list[str]]], trainable: Sequence[str]) -> str:
    first = groups[0][0]
    lines = ["", "def make_optimizer(net):", "    parameters = net.trainable_params()"]
    rates = _rates(first.rates)
    rows: list[str] = []
    for at, ((rule, names), test) in enumerate(
        zip(groups, _tests([n for _, n in groups], trainable), strict=True)
    ):
        chosen = "parameters" if not test else f"[p for p in parameters if {test}]"
        if len(groups) > 1 or test:
            lines.append(f"    group{at} = {chosen}  # {_count(len(names))}")
            chosen = f"group{at}"
        row = f'"params": {chosen}, "weight_decay": {rule.settings[DECAY]!r}'
        if rule.rates != first.rates:
            row += f', "lr": {_rates(rule.rates)}'
        rows.append(f"{{{row}}}")
    # groups, also where there is one: otherwise MindSpore leaves gamma and beta out of the decay
    lines.append(f"    groups = [{', '.join(rows)}]")
    settings = first.settings
    if first.kind == "SGD":
        arguments = [f"momentum={settings['momentum']!r}"]
        arguments += [f"{n}={settings[n]!r}" for n in ("dampening", "nesterov") if settings.get(n)]
        lines.append(f"    return nn.SGD(groups, {rates}, {', '.join(arguments)})")
    elif _is_mindspores(first):
        arguments = [f"{name}={settings[name]!r}" for name in ("beta1", "beta2")]
        arguments.append(f"eps={settings['epsilon']!r}")
        arguments += [f"use_{n}=True" for n in ("nesterov", "amsgrad") if settings[n]]
        lines.append(f"    return nn.Adam(groups, {rates}, {', '.join(arguments)})")
    else:
        decoupled = any(rule.settings.get(KIND) == DECOUPLED for rule, _ in groups)
        lines.append(
            f"    return Adam(groups, {rates}, betas=({settings['beta1']!r}, {settings['beta2']!r}), "
            f"eps={settings['epsilon']!r}, decoupled={decoupled}, amsgrad={settings['amsgrad']})"
        )
    return "\n".join(lines) + "\n"


def _count(number: int) -> str:
    return f"{number} parameter{'s' if number > 1 else ''}"


def _tests(groups: Sequence[Sequence[str]], trainable: Sequence[str]) -> list[str]:
    """What tells the parameters of each group from all others, as an expression of `p`; empty for all."""
    found: list[str] = []
    for names in groups:
        if set(names) == set(trainable):
            found.append("")
            continue
        others = set(trainable) - set(names)
        found.append(next(_expressions(names, others)))
    return found


def _expressions(names: Sequence[str], others: set[str]) -> Iterator[str]:
    for end in (True, False):
        mine, theirs = ({_part(n, end=end) for n in side} for side in (names, others))
        if not mine & theirs:
            parts = ", ".join(f'"{p}"' for p in sorted(mine))
            split = 'p.name.rpartition(".")[2]' if end else 'p.name.partition(".")[0]'
            yield f"{split} in ({parts}{',' * (len(mine) == 1)})"
    yield (
        f"p.name in {list(names)!r}"
        if len(names) <= len(others) or len(names) <= _FIRST
        else (f"p.name not in {sorted(others)!r}")
    )


def _part(name: str, *, end: bool) -> str:
    return name.rpartition(".")[2] if end else name.partition(".")[0]


def _rates(rates: Sequence[float]) -> str:
    """A learning rate, or a schedule in stretches; the last one stays."""
    if len(set(rates)) == 1:
        return repr(rates[0])
    stretches = list(_stretches(rates))
    if len(stretches) > _RUNS:
        return f"Rates(*[(rate, 1) for rate in {[*rates]!r}])"
    return f"Rates({', '.join(map(repr, stretches))})"


def _stretches(rates: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Runs of one rate, and of rates on a line."""
    runs = [(rate, len(list(same))) for rate, same in groupby(rates)]
    at = 0
    while at < len(runs):
        end = at
        while end < len(runs) and runs[end][1] == 1 and _on_a_line([r for r, _ in runs[at : end + 1]]):
            end += 1
        if end - at > 2:
            yield (runs[at][0], runs[end - 1][0], end - at)
            at = end
        else:
            yield runs[at]
            at += 1


def _on_a_line(rates: Sequence[float]) -> bool:
    if len(rates) < 3:
        return True
    slope = (rates[-1] - rates[0]) / (len(rates) - 1)
    scale = max(map(abs, rates)) * 1e-6
    return all(abs(rates[0] + slope * at - rate) <= scale for at, rate in enumerate(rates))


# -- step ----------------------------------------------------------------------------------------------


def _recipe_function(recipe: Recipe) -> str:
    options: Mapping[str, Setting] = recipe.options
    extra = ""
    for name in ("clip norm", "clip value"):
        if options[name] is not None:
            extra += f', "{name.replace(" ", "_")}": {options[name]!r}'
    return (
        "\ndef recipe(net):\n"
        '    """What `regraft verify --recipe` compares with the original."""\n'
        f'    return {{"loss": make_loss(), "optimizer": make_optimizer(net){extra}}}\n'
    )


def _step(recipe: Recipe, inputs: Sequence[str]) -> str:
    names = ", ".join(name + "_" * (name in ("labels", "self") or iskeyword(name)) for name in inputs)
    clips: list[str] = []
    if recipe.options["clip norm"] is not None:
        clips.append(f"gradients = ops.clip_by_global_norm(gradients, {recipe.options['clip norm']!r})")
    if recipe.options["clip value"] is not None:
        bound = recipe.options["clip value"]
        clips.append(f"gradients = ops.clip_by_value(gradients, -{bound!r}, {bound!r})")
    clipped = "".join(f"        {line}\n" for line in clips)
    return f'''
class TrainStep(nn.Cell):
    """One step of training, in PyNative and graph mode: the loss of a batch, its gradients, the update."""

    def __init__(self, net):
        super().__init__(auto_prefix=False)
        self.net = net.set_train()
        self.loss = make_loss()
        self.optimizer = make_optimizer(net)
        self.gradients_of = ms.value_and_grad(self.forward, None, self.optimizer.parameters)

    def forward(self, {names}, labels):
        return self.loss(self.net({names}), labels)

    def construct(self, {names}, labels):
        loss, gradients = self.gradients_of({names}, labels)
{clipped}        self.optimizer(gradients)
        return loss
'''
