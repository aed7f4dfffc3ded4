"""The record of one training step: outputs in training mode, values and gradient of every parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

LEARNING_RATE = 0.01
"""Learning rate of the plain SGD step."""

GradientSizes = Mapping[str, float]
"""Parameter -> the root mean square of its gradient, where it has one."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One parameter or buffer before, in and after the step.

    Attributes:
        before: its values before the forward.
        forward: its values after the forward, when running statistics have been updated.
        after: its values after the optimiser's step.
        gradient: gradient of the loss; None if the framework gives none.
        trainable: whether the framework computes a gradient for it.
    """

    before: np.ndarray
    forward: np.ndarray
    after: np.ndarray
    gradient: np.ndarray | None
    trainable: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One training step.

    Attributes:
        outputs: (name, array) of the forward in training mode, in order.
        tensors: name of a parameter or buffer -> what became of it, in the module tree's order.
        notes: what was changed for the step, or cannot be known.
        dropped: number of calls of dropout functions, other than by layers, that did nothing for it.
    """

    outputs: list[tuple[str, np.ndarray]]
    tensors: dict[str, Trained]
    notes: list[str] = field(default_factory=list)
    dropped: int = 0


class Trainer(Protocol):
    """A runner that can train."""

    def step(self, inputs: Mapping[str, np.ndarray], seed: int, ranks: Sequence[int] = ()) -> Step:
        """Make one step of plain SGD on the loss of `output_weights`; the model is left as it was.

        Args:
            inputs: arrays by name.
            seed: of the loss's weights.
            ranks: number of each output in the loss; none where they have it in their own order.
        """
        ...


def output_weights(shape: tuple[int, ...], seed: int, index: int) -> np.ndarray:
    """Draw the float64 normal weights of output `index` in the loss, which is their weighted sum."""
    return np.random.default_rng([seed, index, *shape]).standard_normal(shape)


def root_mean_square(values: np.ndarray) -> float:
    """Return the root mean square of values; 0 if there are none."""
    return float(np.sqrt(np.mean(np.square(values.astype(np.float64))))) if values.size else 0.0
