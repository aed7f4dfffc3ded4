"""One training step of both sides, compared on seeded inputs until a kink of a function does not decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from ...ir import Graph, ModelError
from ..cases import case_of
from ..compare import kind_of
from ..inputs import bindings, make_inputs
from ..report import OutputRow, TrainingRow
from ..runners.runs import Run
from ..sides import Sides
from ..two_nets.pairing import Pairing
from .comparing import TrainingComparison, as_run
from .kinks import near_kink
from .pairs import in_parts_of
from .step import GradientSizes, Step, Trainer, root_mean_square

_DRAWS = 3
"""Number of seeded inputs for a training step before differing gradients are a fault."""


@dataclass(frozen=True, slots=True)
class TrainingAttempt:
    """One training step compared.

    Attributes:
        outputs: in training mode.
        rows: of every parameter and statistic.
        notes: what a reader should know.
        gradients: how large the source's gradients are, and the target's under its own names.
    """

    outputs: list[OutputRow]
    rows: list[TrainingRow]
    notes: list[str]
    gradients: tuple[GradientSizes, GradientSizes]

    @property
    def passed(self) -> bool:
        """Whether outputs, gradients, statistics and values after the step all agree."""
        return all(row.passed is not False for row in [*self.outputs, *self.rows])


def train(
    sides: Sides, inputs: Mapping[str, np.ndarray] | None, seed: int, target: Pairing | Path
) -> TrainingAttempt:
    """Compare one training step; both sides are left as they were.

    A rectifier or a maximum within float32's rounding of its kink may take different sides in the two models;
    gradients then differ though the functions are equal. That happens on some inputs only, a fault on all:
    other seeded inputs are tried if outputs agree, gradients do not, and a function is that near its kink.
    """
    first = _step(sides, inputs, seed, target)
    if first.passed or inputs is not None or not all(row.passed for row in first.outputs):
        return first
    drawn = make_inputs(sides.graph, bindings(sides.graph, None), seed)
    kink = near_kink(sides.graph, drawn, sides.ulps)
    for number in range(1, _DRAWS) if kink is not None else ():
        another = seed + 101 * number
        given = _drawn_beside(sides.graph, drawn, another)
        attempt = _step(sides, given, another, target)
        if attempt.passed:
            off = ", ".join(r.parameter for r in first.rows if not r.passed)
            attempt.notes.append(
                f"draw {number + 1} of the inputs: on the first, {off} differed, which on another it does "
                f"not: there a value lay within rounding of a kink, at {kink}"
            )
            return attempt
    return first


def _drawn_beside(graph: Graph, first: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Draw real numbers again; of integers, such as indices, there are as many of each as in the first draw.

    A row of a table that trains otherwise is in both draws or in none.
    """
    again = make_inputs(graph, bindings(graph, None), seed)
    real = any(kind_of(array) in "fc" for array in first.values())
    random = np.random.default_rng(seed)
    for name, array in first.items():
        if kind_of(array) not in "fc":
            again[name] = array if real else random.permutation(array.reshape(-1)).reshape(array.shape)
    return again


def _step(
    sides: Sides, inputs: Mapping[str, np.ndarray] | None, seed: int, target: Pairing | Path
) -> TrainingAttempt:
    """Make one training step on both sides, and in float64 if possible."""
    sizes = bindings(sides.graph, inputs)
    first = make_inputs(sides.graph, sizes, seed) if inputs is None else dict(inputs)
    source, other = (cast(Trainer, r).step(first, seed) for r in (sides.source, sides.target))
    if isinstance(target, Path):
        _refuse_lost_dropouts(sides.graph, source)
    else:
        other = in_parts_of(other, target)
    notes = list(source.notes or other.notes)
    exact: Step | None = None
    if sides.exact is not None:
        try:
            exact = cast(Trainer, sides.exact).step(first, seed)
        except ModelError as error:
            notes.append(f"no float64 gradients to measure by: {error.message}")
    runs = (Run(source.outputs), Run(other.outputs))

    def again(given: Mapping[str, np.ndarray], _: bool) -> Run:
        return as_run(cast(Trainer, sides.source).step(given, seed))

    precise = None if exact is None else as_run(exact)
    rounding = sides.rounding_of_step(first, as_run(source), precise, again)
    outputs = sides.outputs(f"training, {case_of(sizes)}", *runs, rounding)
    rows = TrainingComparison(sides.graph, source, other, exact, sides.ulps, rounding.largest).rows(target)
    return TrainingAttempt(outputs, rows, notes, (_sizes(source), _sizes(other)))


def _sizes(step: Step) -> GradientSizes:
    found = {name: trained.gradient for name, trained in step.tensors.items()}
    return {name: root_mean_square(array) for name, array in found.items() if array is not None}


def _refuse_lost_dropouts(graph: Graph, source: Step) -> None:
    """Refuse a source that drops in training what its graph, and so the target, does not have."""
    dropping = [n for n in graph.operators() if n.traits.dropout]
    modules = [graph.modules.call(n.call).module for n in dropping if n.call is not None]
    kept = sum(not graph.modules.module(key).class_name.startswith("Dropout") for key in modules)
    if source.dropped > kept:
        raise ModelError(
            "E702",
            f"expected {source.dropped} calls of dropout functions in the graph, as in training, got {kept}: "
            "the target does not drop there",
            hint="give them training=self.training, which no other code may read; or use nn.Dropout",
        )
