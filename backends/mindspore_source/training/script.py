"""The text of train.py, from a recipe that was read: loss, groups, optimizer, learning rates and one step."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import BackendError
from ....ir.recipe import DECAY, Recipe, UpdateRule
from ...source.formatting import format_source
from .comments import escaped
from .groups import count_text, group_tests, groups_of
from .loss import loss_function
from .optimizers import WrittenOptimizer, written_optimizer
from .rates import RATES, rates_text
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
    _refuse_averages(recipe)
    groups = groups_of(recipe, trainable)
    optimizer = written_optimizer(recipe, [rule for rule, _ in groups])
    scheduled = any(len(set(rule.rates)) > 1 for rule, _ in groups)
    averaged = recipe.options["averaged weights"] is not None
    parts = [
        _HEAD.format(
            reference=escaped(reference), names=", ".join(inputs), averaged=_AVERAGED if averaged else ""
        ),
        loss_function(recipe.loss),
        RATES if scheduled else "",
        optimizer.source,
        _optimizer_function(optimizer, groups, trainable),
        step_source(recipe, inputs),
        recipe_source(recipe),
    ]
    return format_source("\n\n".join(part for part in parts if part))


_HEAD = '''"""Train the net of model.py as `{reference}` trains its source.

In a program:

    import mindspore as ms
    from model import build
    from train import TrainStep

    step = TrainStep(build())  # in PyNative or graph mode
    for {names}, labels in batches:
        loss = step({names}, labels)
    ms.save_checkpoint(step, "last.ckpt")  # with the optimizer's state; to resume:
    ms.load_param_into_net(step, ms.load_checkpoint("last.ckpt"), strict_load=True)
{averaged}"""

import mindspore as ms
from mindspore import Tensor, nn, ops
'''

_AVERAGED = '    ms.save_checkpoint(step.averaged(), "averaged.ckpt")  # the averaged weights\n'


def _refuse_averages(recipe: Recipe) -> None:
    """Refuse averages whose decay is not known."""
    decay = recipe.options["averaged weights"]
    if decay is not None and not (isinstance(decay, (int, float)) and 0 <= decay < 1):
        raise BackendError(
            "E602",
            f"expected the decay of averaged weights, a number from 0 to 1, got {decay}",
            place=recipe.reference,
            hint='give `"ema": 0.999`: averages that start as the weights and follow them after every step',
        )


def _optimizer_function(
    optimizer: WrittenOptimizer, groups: Sequence[tuple[UpdateRule, list[str]]], trainable: Sequence[str]
) -> str:
    first = groups[0][0]
    lines = ["", "def make_optimizer(net):", "    parameters = net.trainable_params()"]
    rows: list[str] = []
    tests = group_tests([names for _, names in groups], trainable)
    for at, ((rule, names), test) in enumerate(zip(groups, tests, strict=True)):
        chosen = "parameters" if not test else f"[p for p in parameters if {test}]"
        if len(groups) > 1 or test:
            lines.append(f"    group{at} = {chosen}  # {count_text(len(names))}")
            chosen = f"group{at}"
        row = f'"params": {chosen}, "weight_decay": {rule.settings[DECAY]!r}'
        if rule.rates != first.rates:
            row += f', "lr": {rates_text(rule.rates)}'
        rows.append(f"{{{row}}}")
    # groups, also where there is one: otherwise MindSpore leaves gamma and beta out of the decay
    lines.append(f"    groups = [{', '.join(rows)}]")
    arguments = ["groups", f"learning_rate={rates_text(first.rates)}", *optimizer.arguments]
    lines.append(f"    return {optimizer.name}({', '.join(arguments)})")
    return "\n".join(lines) + "\n"
