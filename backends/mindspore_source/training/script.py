"""The text of train.py, from a recipe that was read: loss, groups, optimizer, learning rates and one step."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import BackendError
from ....ir.recipe import DECAY, KIND, Recipe, UpdateRule
from ...source.formatting import format_source
from ...source.training.averages import require_decay
from ...source.training.comments import escaped
from ...source.training.groups import count_text, group_tests, groups_of
from ...source.training.loss import loss_function
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
    require_decay(recipe)
    groups = groups_of(recipe, trainable)
    _require_like_groups([rule for rule, _ in groups], recipe.reference)
    optimizer = written_optimizer(recipe, [rule for rule, _ in groups])
    scheduled = any(len(set(rule.rates)) > 1 for rule, _ in groups)
    averaged = recipe.options["averaged weights"] is not None
    parts = [
        _HEAD.format(
            reference=escaped(reference), names=", ".join(inputs), averaged=_AVERAGED if averaged else ""
        ),
        loss_function(recipe.loss, "MindSpore", lambda values: f"Tensor({values}, ms.float32)"),
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


def _require_like_groups(rules: Sequence[UpdateRule], reference: str) -> None:
    """Refuse groups that differ in more than MindSpore's optimizers let them."""
    same = [{k: v for k, v in r.settings.items() if k not in (DECAY, KIND)} for r in rules]
    kinds = {r.settings[KIND] for r in rules if KIND in r.settings}
    if any(s != same[0] for s in same) or len({r.kind for r in rules}) > 1 or len(kinds) > 1:
        raise BackendError(
            "E602",
            "expected groups that differ in learning rate and weight decay, got groups that differ in more",
            place=reference,
            hint="MindSpore's optimizers apply every other setting to all groups",
        )


def _optimizer_function(
    optimizer: WrittenOptimizer, groups: Sequence[tuple[UpdateRule, list[str]]], trainable: Sequence[str]
) -> str:
    first = groups[0][0]
    lines = ["", "def make_optimizer(net):", "    parameters = net.trainable_params()"]
    rows: list[str] = []
    tests = group_tests([names for _, names in groups], trainable, "p.name")
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
