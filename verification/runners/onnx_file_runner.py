"""Runs the ONNX model that was read in ONNX Runtime; its module calls as the graph that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import onnx

from ...ir import Graph, Operator
from .onnx_runner import OnnxRunner
from .runs import Run
from .whole_runner import WholeRunner


class OnnxFileRunner(WholeRunner):
    """An ONNX model as its author wrote it, without ONNX Runtime's optimisations.

    Args:
        graph: the model, loaded and not rewritten.

    Raises:
        ModelError: when ONNX Runtime refuses the model.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        model = graph.origin.model
        assert isinstance(model, (onnx.ModelProto, Path))
        declared = {p.declared for p in graph.parameters() if "float" in p.data.dtype}
        self._file = OnnxRunner(model, optimised=False, weights=declared)
        self.runtime = (
            f"{self._file.runtime.removesuffix(' (no optimisations)')} (the file, no optimisations)"
        )

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the model; see `Runner`."""
        given = {node.name: inputs[node.name] for node in self._graph.input_nodes()}
        found = self._file.run({**given, **self._graph.origin.constants}, calls=False)
        lowered = self._lowered.run(given) if calls else Run([])
        return Run(self._named([array for _, array in found.outputs]), lowered.calls, lowered.store)

    def _altered_file(
        self, change: Callable[[np.ndarray], np.ndarray], only: str
    ) -> AbstractContextManager[None]:
        return self._file.altered(change, only=self._declared(only))

    def run_varied(
        self,
        inputs: Mapping[str, np.ndarray],
        names: Sequence[str],
        change: Callable[[np.ndarray], np.ndarray],
    ) -> Iterator[tuple[str, list[np.ndarray]]]:
        """Yield (name, outputs) with each of some parameters changed alone."""
        known: dict[str, list[str]] = {}  # a tensor of the file may be several parameters
        for name in names:
            known.setdefault(self._declared(name), []).append(name)
        given = {**inputs, **self._graph.origin.constants}
        for declared, outputs in self._file.run_varied(given, list(known), change):
            yield from ((name, outputs) for name in known[declared])

    @property
    def fuses(self) -> bool:
        """Whether ONNX Runtime may fuse; see `Fusing`."""
        return self._file.fuses

    @property
    def rounds_coarsely(self) -> bool:
        """Whether the file quantises or computes in 16 bits; see `Fusing`."""
        return self._file.rounds_coarsely

    def fusing(self, on: bool) -> AbstractContextManager[None]:
        """Fuse operators of the file in a with block, or run them one by one there; see `Fusing`."""
        return self._file.fusing(on)

    def _declared(self, name: str) -> str:
        return next((p.declared for p in self._graph.parameters() if p.name == name), name)

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:
        """Return the units in the last place that ONNX Runtime's arithmetic may cost; see `Runner`."""
        return self._file.ulp_tolerance(operators)

    def close(self) -> None:
        """Free the sessions."""
        self._file.close()
        super().close()


def file_runner(graph: Graph) -> OnnxFileRunner:
    """Return a runner of the model; see `registry`."""
    return OnnxFileRunner(graph)
