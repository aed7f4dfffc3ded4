"""Runs a graph in ONNX Runtime with further values of it, or of what is computed of them, as outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ..ir import Builder, Graph, Value
from .runners.onnx_runner import OnnxRunner

Further = Callable[[Builder], Iterable[tuple[str, Value]]]
"""Builder of the copy of a graph -> the names and values of its further outputs."""


def copy_to_probe(graph: Graph) -> Graph:
    """Return a copy of a graph that leaves no updates and whose parameters have names of their own."""
    copy = graph.copy()
    copy.updates = {}
    for parameter in copy.parameters():  # a source may have several of one name
        parameter.name = f"parameter {parameter.key}"
    return copy


class Probe:
    """A graph with further outputs, which is built when it runs first.

    Args:
        graph: a graph; it is not changed.
        further: names and values of the further outputs.
    """

    def __init__(self, graph: Graph, further: Further) -> None:
        self._graph, self._further = graph, further
        self._made: OnnxRunner | None = None
        self._own = len(graph.outputs)  # outputs before the further ones

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return the further outputs, in order.

        Args:
            inputs: arrays by input name.

        Raises:
            RegraftError: where the graph does not run by itself, or the inputs are none of its own.
        """
        outputs = self.runner().run(inputs, calls=False).outputs
        return [array for _, array in outputs[self._own :]]

    def runner(self) -> OnnxRunner:
        """Return the runner of the graph with its further outputs; a large one runs in pieces up to these."""
        if self._made is None:
            from .streaming.deciding import budget, costs_less_in_pieces

            copy = copy_to_probe(self._graph)
            further = list(self._further(Builder(copy)))
            if costs_less_in_pieces(self._graph):
                from .streaming.graph_pieces import GraphPieces

                copy.outputs, self._own = further, 0
                copy.remove_dead()
                self._made = GraphPieces(copy, budget=budget())
            else:
                copy.outputs += further
                self._made = OnnxRunner(copy, optimised=False)
        return self._made

    def close(self) -> None:
        """Free the session."""
        if self._made is not None:
            self._made.close()
            self._made = None
