"""Compares two training scripts: reads both, compares their settings, and follows both for some steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from ...frontends.training_script import function_of
from ...ir import Graph, ModelError
from ...ir.recipe import Recipe, UpdateRule
from ..conditioning import Change
from ..inputs import batch_symbols, bindings, make_inputs
from ..sides import Sides
from ..training.pairs import Pair, arrays_in_parts, joined_names, paired
from ..two_nets.pairing import Pairing
from .data import compare_recipe_data
from .following import Followed, moved
from .loss_causes import loss_causes
from .measured_loss import fitted, labels_for, measured_loss
from .report import RecipeReport, RecipeRow, TrajectoryReport
from .scripts import Recipes
from .settings import compare_settings, compare_values
from .trajectories import Batch, Labels, Learner, Nest, Reading, Trajectory

RATES = 2000
"""For how many steps learning rates are compared."""

_BATCH = 8
"""The smallest batch that is drawn where the batch is free: statistics of two samples are nearly signs."""

_DRAWS = 3
"""On how many seeds of data a trajectory may be tried before it is said to be left."""

_UNITS = 16
"""Units in the last place that weights are off by to see how far that leads."""

_MOST = 2_000_000_000
"""Bytes of values that are kept of all trajectories together."""


class RecipeComparison:
    """Two sides that train, and the script of each.

    Args:
        sides: the sides; both runners are `Learner`s.
        recipes: the scripts.
        other: what pairs parameters, as for one training step.
        seed: of data and labels.

    Raises:
        ModelError: when a script cannot be read (E102, E704).
    """

    def __init__(self, sides: Sides, recipes: Recipes, other: Pairing | Path, seed: int) -> None:
        self._sides, self._recipes, self._other, self._seed = sides, recipes, other, seed
        self._graph: Graph = sides.graph
        self._functions = [function_of(r) for r in (recipes.source, recipes.target)]
        self._runners = [cast(Learner, runner) for runner in (sides.source, sides.target)]
        self._sizes = _larger(self._graph)
        first = make_inputs(self._graph, self._sizes, seed)
        self._readings = [
            told(runner.read_recipe(*function, first, RATES))
            for runner, function in zip(self._runners, self._functions, strict=True)
        ]
        self.notes: list[str] = []
        self._precision = _common_precision([reading.recipe for reading in self._readings])

    def report(self, *, agree: bool, equal_weights: bool) -> RecipeReport:
        """Compare settings, and follow both where that can tell something.

        Args:
            agree: whether one plain training step of the nets does.
            equal_weights: whether both nets start from the same weights.
        """
        source, target = (r.recipe for r in self._readings)
        start = [self._follow_nothing(at).start for at in (0, 1)]
        pairs = paired(self._graph, start[0], self._in_parts(start[1]), self._other)
        held = [(pair.sources[0], pair.target) for pair in pairs if pair.target in start[1]]
        held += [] if isinstance(self._other, Path) else joined_names(start[0], start[1], self._other)
        rows = compare_settings(source, target, held)
        values = self._values()
        of_loss = {"loss", *source.loss.settings, *target.loss.settings}
        counting = any(row.counts and row.setting in of_loss for row in rows)
        if values is not None and (not counting or target.loss.measured):
            found = compare_values(*values, source.loss, target)
            causes = [] if found is None or found.setting == "loss_weights" else self._causes(found)
            if causes:  # a line and an argument, of which a function's values tell nothing
                rows = causes + [row for row in rows if row.setting not in of_loss or not row.counts]
            elif found is not None and not counting:
                rows.insert(0, found)
        self._note(source, target)
        trajectory = None
        if not equal_weights:
            self.notes.append("no steps were followed: the nets keep weights of their own that differ")
        elif not agree:
            self.notes.append("no steps were followed: the nets themselves differ in one step already")
        else:
            wrong = any(row.counts for row in rows)
            remarked = bool(rows) and not wrong
            trajectory = self._trajectory(pairs, held, tries=1 if wrong else _DRAWS, by_rule=remarked)
        of_data, notes = compare_recipe_data(*(reading.data for reading in self._readings))
        self.notes += notes
        return RecipeReport(_shown(source), _shown(target), [*rows, *of_data], trajectory, self.notes)

    def _note(self, source: Recipe, target: Recipe) -> None:
        for recipe in (source, target):
            self.notes += recipe.remarks
            if recipe.loss.measured:
                settings = ", ".join(f"{k} {v}" for k, v in recipe.loss.settings.items() if k != "class axis")
                self.notes.append(
                    f"`{recipe.loss.written}` was identified by its values: {recipe.loss.kind}, {settings}"
                )
        kinds = [self._labels_of(at) for at in (0, 1)]
        if kinds[0] != kinds[1]:
            self.notes.append(
                f"labels: {kinds[0]} for the source, {kinds[1]} for the target, cast from the same"
            )
        if self._precision is not None:
            self.notes.append(
                f"both sides computed in {self._precision} wherever their frameworks do by default, and "
                f"each rounds in its own way: the target may be four times as far from float64 as the source"
            )
        elif any(recipe.options["precision"] is not None for recipe in (source, target)):
            self.notes.append(
                "the precision is compared as a setting: the steps ran in float32 on both sides"
            )
        if any(recipe.options["averaged weights"] is not None for recipe in (source, target)):
            self.notes.append(
                "averaged weights are compared as a setting: the steps followed the weights alone"
            )
        self.notes.append(
            "the steps of the recipe ran on equal seeded data in one order, with every Dropout at 0"
            + ("" if all(r.data for r in self._readings) else "; shuffling and augmentation are not compared")
        )

    def _labels_of(self, at: int) -> str:
        recipe = self._readings[at].recipe
        if recipe.loss.settings.get("labels") == "one-hot":
            return "one-hot float32"
        indices = recipe.loss.kind in ("cross entropy", "negative log likelihood")
        return ("int64" if recipe.framework == "torch" else "int32") if indices else "float32"

    # -- losses ------------------------------------------------------------------------------------

    def _drawing(self) -> Labels | None:
        """Return the function that makes labels: the script's, or one for the kind of its loss."""
        for reading in self._readings:
            if reading.labels is not None:
                return reading.labels
        for reading in self._readings:
            draw = labels_for(reading.recipe.loss, reading.shape)
            if draw is not None:
                return lambda random, _, made=draw: made(random)
        return None

    def _samples(self, draw: Labels) -> Iterator[tuple[np.ndarray, list[Nest]]]:
        """Seeded outputs, each with labels as the source takes them, and as the target does."""
        for seed in range(3):
            random = np.random.default_rng([self._seed, seed])
            output = random.standard_normal(self._readings[0].shape).astype(np.float32)
            if self._readings[0].recipe.loss.kind == "binary cross entropy":
                output = 1 / (1 + np.exp(-output))
            labels = draw(random, output.shape)
            yield output, [fitted(labels, r.recipe.loss, output.shape) for r in self._readings]

    def _causes(self, differing: RecipeRow) -> list[RecipeRow]:
        """The calls by which the target's loss differs, with how much it does."""
        draw = self._drawing()
        samples = [] if draw is None else list(self._samples(draw))[:2]
        tapes = [
            tuple(r.tape(output, y) for r, y in zip(self._readings, labels, strict=True))
            for output, labels in samples
        ]
        causes = loss_causes([(mine, theirs) for mine, theirs in tapes])
        why = differing.why if "times" in differing.why else ""
        place = self._readings[1].recipe.place_of("loss")
        return [replace(row, why=row.why or why, place=row.place or place) for row in causes]

    def _values(self) -> tuple[list[float], list[float]] | None:
        """Return both losses on seeded outputs and labels; None where they cannot be had."""
        draw, losses = self._drawing(), [r.loss for r in self._readings if r.loss is not None]
        if draw is None or len(losses) < len(self._readings):
            return None
        found: tuple[list[float], list[float]] = ([], [])
        for output, labels in self._samples(draw):
            for values, reading, loss, given in zip(found, self._readings, losses, labels, strict=True):
                try:
                    values.append(loss(output, given))
                except ModelError:
                    raise
                except Exception as error:  # the user's loss may raise anything
                    raise ModelError(
                        "E704",
                        f"the loss raised {type(error).__name__}: {error}",
                        place=reading.recipe.reference,
                        hint="a recipe's `labels(random, shape)` makes the labels that its loss takes",
                    ) from error
        return found

    # -- steps -------------------------------------------------------------------------------------

    def _follow_nothing(self, at: int) -> Trajectory:
        """Return the values that a side starts from."""
        return self._runners[at].follow(*self._functions[at], [], frozenset())

    def _trajectory(
        self, pairs: Sequence[Pair], held: Sequence[tuple[str, str]], *, tries: int, by_rule: bool
    ) -> TrajectoryReport | None:
        draw = self._drawing()
        if draw is None:
            raise ModelError(
                "E704",
                "expected a loss whose kind of labels is known, got "
                f"`{self._readings[0].recipe.loss.written}`",
                place=self._readings[0].recipe.reference,
                hint="return `labels` from it too: a function of a NumPy generator and the output's shape",
            )
        shortest = [len(rule.rates) for r in self._readings for rule in r.recipe.rules.values()]
        steps = min([self._recipes.steps, *shortest])
        if steps < self._recipes.steps:
            self.notes.append(f"{steps} steps were followed: a list of learning rates has no more")
        attempts: list[TrajectoryReport] = []
        for seed in range(tries):
            attempts.append(self._attempt(pairs, held, draw, steps, self._seed + 101 * seed, by_rule=by_rule))
            if attempts[-1].left is None:
                break
        if attempts[-1].left is None and len(attempts) > 1:
            left = attempts[0].left
            assert left is not None
            self.notes.append(
                f"draw {len(attempts)} of the data: on the first, `{left.parameter}` left tolerance after "
                f"step {left.step}, on another nothing does: an activation sat at a kink of its function"
            )
        chosen = attempts[-1] if attempts[-1].left is None else attempts[0]
        if chosen.decided:
            self.notes.append(
                "from some step on, rounding alone decides these values, and they prove nothing: "
                + ", ".join(f"`{n}`" for n in chosen.decided[:6])
                + (f" and {len(chosen.decided) - 6} more" if len(chosen.decided) > 6 else "")
            )
        return chosen

    def _attempt(
        self,
        pairs: Sequence[Pair],
        held: Sequence[tuple[str, str]],
        draw: Labels,
        steps: int,
        seed: int,
        *,
        by_rule: bool,
    ) -> TrajectoryReport:
        given = [make_inputs(self._graph, self._sizes, seed + 7919 * (step + 1)) for step in range(steps)]
        drawn = [draw(np.random.default_rng([seed, step]), self._readings[0].shape) for step in range(steps)]
        batches: list[list[Batch]] = [
            [(i, fitted(y, r.recipe.loss, r.shape)) for i, y in zip(given, drawn, strict=True)]
            for r in self._readings
        ]
        record, lower = self._recorded(steps), self._precision
        source = self._runners[0].follow(*self._functions[0], batches[0], record, precision=lower)
        # where only the target is torch's, it is the one that can follow the other's rule
        by_rule_of_source = (
            by_rule and self._sides.exact is None and self._readings[1].recipe.framework == "torch"
        )
        rules = self._rules({theirs: mine for mine, theirs in held}, of=0) if by_rule_of_source else None
        target = self._runners[1].follow(*self._functions[1], batches[1], record, rules, lower)
        if not moved(target, self._readings[1].recipe.rules):
            self.notes.append(f"`{self._readings[1].recipe.optimizer}` moved no parameter of the target")
        with self._sides.source.altered(Change(0, _UNITS)):
            witness = self._runners[0].follow(*self._functions[0], batches[0], record, precision=lower)
        precise = self._exact(batches[0], record)
        exact = expected = precise or source
        rules = self._rules(dict(held), of=1) if by_rule and precise is not None else None
        if rules is not None:
            exactly = cast(Learner, self._sides.exact)
            expected = exactly.follow(*self._functions[0], batches[0], record, rules)
        values = {step: self._in_parts(found) for step, found in target.values.items()}
        target = replace(target, start=self._in_parts(target.start), values=values)
        return Followed(source, target, exact, expected, witness, is_exact=precise is not None).compare(pairs)

    def _in_parts(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the target's arrays, with what one side keeps whole as the source has it."""
        return arrays if isinstance(self._other, Path) else arrays_in_parts(arrays, self._other)

    def _exact(self, batches: Sequence[Batch], record: frozenset[int]) -> Trajectory | None:
        """Return the source's steps in float64; None where it has none."""
        if self._sides.exact is not None:
            try:
                return cast(Learner, self._sides.exact).follow(*self._functions[0], batches, record)
            except ModelError as error:
                note = f"no float64 to measure the steps by: {error.message}"
                if note not in self.notes:
                    self.notes.append(note)
        elif _NO_FLOAT64 not in self.notes:
            self.notes.append(_NO_FLOAT64)
        return None

    def _recorded(self, steps: int) -> frozenset[int]:
        """After which steps values are kept: all, or those that memory has room for."""
        size = sum(p.data.nbytes for p in self._graph.parameters())
        every = range(1, steps + 1)
        if 5 * size * steps <= _MOST:
            return frozenset(every)
        return frozenset(s for s in every if s & (s - 1) == 0 or s == steps)

    def _rules(self, names: Mapping[str, str], *, of: int) -> dict[str, UpdateRule]:
        """One side's update rules at the other's rates; `names`: the other's of a parameter -> its own."""
        rules, others = self._readings[of].recipe.rules, self._readings[1 - of].recipe.rules
        return {
            name: replace(rules[known], rates=others[name].rates)
            for name, known in names.items()
            if known in rules and name in others
        }


_NO_FLOAT64 = (
    "these steps have no float64 reference, because only torch runs whole nets in float64: the target is "
    f"compared with the source itself, and rounding is measured on a source with weights {_UNITS} units in "
    "the last place off"
)


def told(reading: Reading) -> Reading:
    """Return the recipe with a loss identified by its values, if no class states it."""
    loss = reading.recipe.loss
    if loss.kind or reading.loss is None:
        return reading
    found = measured_loss(reading.loss, reading.shape, loss.written) or loss
    return replace(reading, recipe=replace(reading.recipe, loss=found))


_LOWER = {"torch": ("float16", "bfloat16"), "mindspore": ("float16",)}
"""Types of mixed precision that a framework computes in on the CPU."""


def _common_precision(recipes: Sequence[Recipe]) -> str | None:
    """Return the mixed precision that both sides can be followed in; None for float32."""
    found = {recipe.options["precision"] for recipe in recipes}
    (precision, *others) = found
    if others or not all(precision in _LOWER[recipe.framework] for recipe in recipes):
        return None
    return str(precision)


def _larger(graph: Graph) -> dict[str, int]:
    """Sizes of the graph's symbols, the batch not too small."""
    sizes = bindings(graph)
    return {s: max(n, _BATCH) if s in batch_symbols(graph) else n for s, n in sizes.items()}


def _shown(recipe: Recipe) -> str:
    return f"{recipe.optimizer} with {recipe.loss.written}"
