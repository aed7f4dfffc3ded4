"""The text of train.py, from a recipe that was read: loss, groups, optimizer, learning rates and one step."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.recipe import Recipe, UpdateRule
from ...source.formatting import format_source
from ...source.training.averages import require_decay
from ...source.training.comments import escaped
from ...source.training.groups import count_text, group_tests, groups_of
from ...source.training.loss import loss_function
from ...source.training.rates import schedule_text
from .optimizers import Arguments, WrittenOptimizer, written_optimizer
from .step import recipe_source, step_source

SCRIPT = "train.py"


def training_source(recipe: Recipe, trainable: Sequence[str], inputs: Sequence[str], reference: str) -> str:
    """Return the text of train.py.

    Args:
        recipe: what a training script builds, with the emitted net's names of parameters.
        trainable: names of the emitted net's trainable parameters, in order.
        inputs: names of the net's inputs.
        reference: the training script, for a comment.

    Raises:
        BackendError: for what cannot be written (E602).
    """
    require_decay(recipe)
    groups = groups_of(recipe, trainable)
    rules = [rule for rule, _ in groups]
    optimizer = written_optimizer(recipe, rules)
    scheduled = any(len(set(rule.rates)) > 1 for rule in rules)
    parts = [
        _HEAD.format(reference=escaped(reference), names=", ".join(inputs)),
        loss_function(recipe.loss, "PyTorch", tensor_source, own=recipe.framework == "torch"),
        optimizer.source,
        _optimizer_function(optimizer, groups, trainable, scheduled=scheduled),
        _schedule_function(rules) if scheduled else "",
        step_source(recipe, inputs, scheduled=scheduled),
        recipe_source(recipe, scheduled=scheduled),
    ]
    return format_source("\n\n".join(part for part in parts if part))


def tensor_source(values: str) -> str:
    """Return a float32 tensor of a list; of whole numbers alone, torch would make integers."""
    return f"torch.tensor({values}{'' if '.' in values or 'e' in values else ', dtype=torch.float32'})"


_HEAD = '''"""Train the net of model.py as `{reference}` trains its source.

In a program:

    import torch
    from model import build
    from train import Training

    training = Training(build(device="cuda"))
    for {names}, labels in batches:
        loss = training.step({names}, labels)
    torch.save(training.state_dict(), "last.pth")  # with the optimizer's state; to resume:
    training.load_state_dict(torch.load("last.pth", weights_only=True))
"""

import torch
from torch import nn
'''


def _optimizer_function(
    optimizer: WrittenOptimizer,
    groups: Sequence[tuple[UpdateRule, list[str]]],
    trainable: Sequence[str],
    *,
    scheduled: bool,
) -> str:
    """Return the function that makes the optimizer; a schedule multiplies a rate of 1."""
    given = [dict(arguments) for arguments in optimizer.groups]
    for arguments, (rule, _) in zip(given, groups, strict=True):
        arguments["lr"] = 1.0 if scheduled else rule.rates[0]
    same = {k: v for k, v in given[0].items() if all(k in each and each[k] == v for each in given)}
    lines = ["", "def make_optimizer(net):"]
    lines.append("    named = [(n, p) for n, p in net.named_parameters() if p.requires_grad]")
    rows: list[str] = []
    tests = group_tests([names for _, names in groups], trainable, "n")
    for at, ((_, names), test, arguments) in enumerate(zip(groups, tests, given, strict=True)):
        chosen = f"[p for n, p in named if {test}]" if test else "[p for _, p in named]"
        name = "parameters" if len(groups) == 1 else f"group{at}"
        lines.append(f"    {name} = {chosen}  # {count_text(len(names))}")
        own = {k: v for k, v in arguments.items() if k not in same}
        rows.append(f'{{"params": group{at}{"".join(f", {k!r}: {v!r}" for k, v in own.items())}}}')
    held = "parameters" if len(rows) == 1 else "groups"
    lines += [] if len(rows) == 1 else [f"    groups = [{', '.join(rows)}]"]
    lines.append(f"    return {optimizer.name}({', '.join([held, *_keywords(same)])})")
    return "\n".join(lines) + "\n"


def _keywords(arguments: Arguments) -> list[str]:
    order = sorted(arguments, key=lambda name: name != "lr")
    return [f"{name}={arguments[name]!r}" for name in order]


def _schedule_function(rules: Sequence[UpdateRule]) -> str:
    stretches = ", ".join(schedule_text(rule.rates, "rates") for rule in rules)
    return _SCHEDULE.format(stretches=f"[{stretches}]" if len(rules) > 1 else stretches)


_SCHEDULE = '''
def rates(*stretches):
    """Return the learning rate by step: (rate, steps) is constant, (first, last, steps) is linear."""
    found = []
    for *ends, steps in stretches:
        first, last = ends[0], ends[-1]
        found += [first + (last - first) * at / max(steps - 1, 1) for at in range(steps)]
    return lambda step: found[min(step, len(found) - 1)]


def make_schedule(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, {stretches})
'''
