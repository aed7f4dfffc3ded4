"""The result of following a training script for some steps, and the interface of runners that can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ...frontends.training_script import RecipeFunction
from ...ir.recipe import Recipe, UpdateRule
from ..causes.tape import Tape

Nest = Any
"""Labels of a batch: an array, or a dict or tuple of such."""

Batch = tuple[Mapping[str, np.ndarray], Nest]
"""Inputs by name, and labels."""

Labels = Callable[[np.random.Generator, tuple[int, ...]], Nest]
"""Makes the labels of a batch, from the shape of the net's first output."""


def in_nest(labels: Nest, convert: Callable[[np.ndarray], Any]) -> Nest:
    """Return labels with each of their arrays converted; a list is an array."""
    if isinstance(labels, Mapping):
        return {key: in_nest(part, convert) for key, part in labels.items()}
    if isinstance(labels, tuple) and any(isinstance(part, (np.ndarray, Mapping, tuple)) for part in labels):
        return tuple(in_nest(part, convert) for part in labels)
    return convert(np.asarray(labels))


@dataclass(frozen=True, slots=True)
class Reading:
    """A training script, read.

    Attributes:
        recipe: what it builds.
        shape: of the net's first output.
        loss: the loss of an output and labels, as a number; None for a net with more outputs than one.
        labels: the script's own way to make labels, where it gives one.
        steps: how many steps the training makes, where it says so.
        tape: the calls that the loss makes of an output and labels; None for what nobody can record.
        data: the function that gives the batches, ``FILE.py:FUNCTION``; empty where the script states none.
    """

    recipe: Recipe
    shape: tuple[int, ...]
    loss: Callable[[np.ndarray, Nest], float] | None
    labels: Labels | None
    steps: int | None = None
    tape: Callable[[np.ndarray, Nest], Tape | None] = lambda *_: None
    data: str = ""


@dataclass(slots=True)
class Trajectory:
    """Some steps of training.

    Attributes:
        start: parameter or statistic -> its values before the first step.
        losses: of each step.
        values: number of steps made -> values by name, for the steps that were asked for.
    """

    start: dict[str, np.ndarray]
    losses: list[float] = field(default_factory=list)
    values: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)


class Learner(Protocol):
    """A runner that follows a training script; the model is left as it was."""

    def read_recipe(
        self, function: RecipeFunction, reference: str, inputs: Mapping[str, np.ndarray], steps: int
    ) -> Reading:
        """Read a script; `steps`: for how many to read the learning rate."""
        ...

    def follow(
        self,
        function: RecipeFunction,
        reference: str,
        batches: Sequence[Batch],
        record: frozenset[int],
        rules: Mapping[str, UpdateRule] | None = None,
        precision: str | None = None,
    ) -> Trajectory:
        """Train on the batches.

        Args:
            function: the recipe function.
            reference: where it is.
            batches: one a step.
            record: after which steps to keep values.
            rules: what updates parameters, by name, in place of the script's optimizer.
            precision: "float16" for mixed precision, as the framework has it; None for none.
        """
        ...
