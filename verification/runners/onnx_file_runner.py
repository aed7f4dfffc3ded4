"""Runs the ONNX model that was read in ONNX Runtime; its module calls as the graph that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx

from ...ir import Graph, Operator
from .onnx_runner import OnnxRunner
from .runs import Run


class OnnxFileRunner:
    """An ONNX model as its author wrote it, without ONNX Runtime's optimisations.

    Args:
        graph: the model, loaded and not rewritten.

    Raises:
        ModelError: when ONNX Runtime refuses the model.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        model = graph.origin.model
        assert isinstance(model, (onnx.ModelProto, Path))
        declared = {p.declared for p in graph.parameters() if "float" in p.data.dtype}
        self._file = OnnxRunner(model, optimised=False, weights=declared)
        self._names = [name for name, _ in graph.outputs]
        self.runtime = (
            f"{self._file.runtime.removesuffix(' (no optimisations)')} (the file, no optimisations)"
        )

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the model; see `Runner`."""
        given = {node.name: inputs[node.name] for node in self._graph.input_nodes()}
        found = self._file.run(given, calls=False)
        named = list(zip(self._names, (array for _, array in found.outputs), strict=True))
        lowered = self._lowered.run(given) if calls else Run([])
        return Run(named, lowered.calls, lowered.store)

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one call of the graph that was read: a file has no modules."""
        return self._lowered.run_module(call, inputs)

    def run_with(self, inputs: Mapping[str, np.ndarray], call: str, outputs: Sequence[np.ndarray]) -> Run:
        """Run the graph that was read with other values in place of a call's."""
        return self._lowered.run_with(inputs, call, outputs)

    @cached_property
    def _lowered(self) -> OnnxRunner:
        return OnnxRunner(self._graph, optimised=False)

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """Change every floating-point parameter in a with block; see `Runner`."""
        if call:
            with self._lowered.altered(change, call, only):
                yield
            return
        with self._file.altered(change, only=self._declared(only)):
            yield

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
        for declared, outputs in self._file.run_varied(inputs, list(known), change):
            yield from ((name, outputs) for name in known[declared])

    def _declared(self, name: str) -> str:
        return next((p.declared for p in self._graph.parameters() if p.name == name), name)

    def slack(self, operators: Sequence[Operator]) -> int:
        """Return the units in the last place that ONNX Runtime's arithmetic may cost; see `Runner`."""
        return self._file.slack(operators)

    def close(self) -> None:
        """Free the sessions."""
        self._file.close()
        if "_lowered" in vars(self):
            self._lowered.close()
