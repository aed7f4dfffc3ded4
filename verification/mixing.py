"""Runs a batch in which every example is of another kind of draw, compared example by example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..ir import Graph
from .compare import Yardstick
from .conditioning import Rounding
from .inputs import KIND_OF_DRAW, batch_symbols, make_inputs
from .meaning import with_meaning
from .runners.runs import Run

KINDS = ("normal", *KIND_OF_DRAW)
"""The kinds of the examples, in order."""


def mixed_inputs(graph: Graph, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray] | None:
    """Draw a batch with one example of each kind; None if an input or output has no batch axis.

    Args:
        graph: the source's graph.
        sizes: symbol -> size; the batch's must be the number of kinds.
        seed: seed of the inputs.
    """
    batch = batch_symbols(graph)
    types = [node.type for node in graph.input_nodes()] + [graph.type_of(value) for _, value in graph.outputs]
    leading = [type_.shape[0] if type_ is not None and type_.shape else None for type_ in types]
    if len(batch) != 1 or any(dim not in batch for dim in leading):
        return None
    one = {**sizes, **dict.fromkeys(batch, 1)}
    drawn = [make_inputs(graph, one, seed, kind if kind in KIND_OF_DRAW else 0) for kind in KINDS]
    if any(array.shape[0] != 1 for each in drawn for array in each.values()):
        return None
    mixed = {node.name: np.concatenate([each[node.name] for each in drawn]) for node in graph.input_nodes()}
    return with_meaning(graph, mixed)


def example_of(run: Run, at: int) -> Run:
    """Return the outputs of one example of a batch."""
    return Run([(name, array[at : at + 1] if array.ndim else array) for name, array in run.outputs])


class ExampleRounding:
    """The effect of rounding on the outputs of one example of a batch.

    Args:
        rounding: the effect of rounding on the whole run.
        at: the example.
    """

    def __init__(self, rounding: Rounding, at: int) -> None:
        self._rounding, self._at = rounding, at

    def output(self, index: int) -> Yardstick:
        """Return the yardstick of an output; see `Rounding`."""
        by = self._rounding.output(index)
        exact, noise = by.exact, by.noise
        return replace(
            by,
            exact=None if exact is None else lambda: self._cut(exact()),
            noise=None if noise is None else lambda ulps: self._cut(noise(ulps)),
        )

    def _cut(self, array: np.ndarray | None) -> np.ndarray | None:
        return array if array is None or not array.ndim else array[self._at : self._at + 1]
