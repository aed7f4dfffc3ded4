"""Writes train.py beside an emitted net, from the training script of its source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from ...backends import find_target
from ...frontends.training_script import RecipeFunction, function_of
from ...ir import Graph, ModelError
from ..inputs import bindings, make_inputs
from ..runners.registry import written_net
from ..runners.select_runner import own_runner, refuse_training
from ..training.pairs import paired
from .comparing import RATES, told
from .trajectories import Learner


def write_script(graph: Graph, folder: Path, recipe: str | RecipeFunction, to: str) -> Path:
    """Write ``train.py`` into an emitted folder, and return its path.

    Args:
        graph: the source's graph, before any pass.
        folder: with ``model.py``, its checkpoint and ``renames.json``.
        recipe: the source's training script; it is run.
        to: name of the target that the folder was written for.

    Raises:
        UsageError: when the source cannot be trained.
        ModelError: when the script cannot be read (E102, E704).
        BackendError: for what cannot be written (E602).
    """
    script = find_target(to).load("training.script")
    refuse_training(graph, folder, own=False)
    function, reference = function_of(recipe)
    runner, net = own_runner(graph), written_net(folder)
    try:
        learner = cast(Learner, runner)
        first = make_inputs(graph, bindings(graph))
        reading = told(learner.read_recipe(function, reference, first, RATES))
        rates = [rule.rates for rule in reading.recipe.rules.values() if len(rule.rates) >= RATES]
        changing = [found for found in rates if len(set(found[-2:])) > 1]
        if changing and reading.steps is None:
            raise ModelError(
                "E704",
                "expected a recipe with the number of its `steps`, because the learning rate still changes "
                f"after {RATES}",
                place=reference,
                hint='return `"steps": …` from it too',
            )
        source = list(learner.follow(function, reference, [], frozenset()).start)
        rules = {}
        for pair in paired(graph, source, net.parameters, folder):
            held = [reading.recipe.rules[n] for n in pair.sources if n in reading.recipe.rules]
            if not held:
                continue
            if pair.target not in net.parameters:
                raise ModelError(
                    "E704",
                    f"expected `{pair.sources[0]}`, which the optimizer holds, in the emitted net, got none",
                    place=reference,
                    hint="no module calls it: leave it out of the optimizer",
                )
            rules[pair.target] = held[0]
        trainable = [name for name, is_trained in net.parameters.items() if is_trained]
        text = script.training_source(
            replace(reading.recipe, rules=rules), trainable, net.inputs, Path(reference).name
        )
    finally:
        runner.close()
    path = folder / script.SCRIPT
    path.write_text(text, encoding="utf-8")
    return path
