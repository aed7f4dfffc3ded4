"""A model that its own runtime runs as a whole: module calls run as the graph that was read of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property

import numpy as np

from ...ir import Graph
from .onnx_runner import OnnxRunner
from .runs import Run


class WholeRunner(ABC):
    """Base of the runners of files, whose runtimes show no modules.

    Args:
        graph: the file, loaded and not rewritten.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names = [name for name, _ in graph.outputs]

    @abstractmethod
    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the file; see `Runner`."""

    @abstractmethod
    def _altered_file(
        self, change: Callable[[np.ndarray], np.ndarray], only: str
    ) -> AbstractContextManager[None]:
        """Change the file's floating-point parameters in a with block: all, or that of one name."""

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one call of the graph that was read, because the runtime runs the file as a whole."""
        return self._lowered.run_module(call, inputs)

    def run_with(self, inputs: Mapping[str, np.ndarray], given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the graph that was read with other values in place of some calls'."""
        return self._lowered.run_with(inputs, given)

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """Change every floating-point parameter in a with block; see `Runner`."""
        changed = self._lowered.altered(change, call, only) if call else self._altered_file(change, only)
        with changed:
            yield

    def run_varied(
        self,
        inputs: Mapping[str, np.ndarray],
        names: Sequence[str],
        change: Callable[[np.ndarray], np.ndarray],
    ) -> Iterator[tuple[str, list[np.ndarray]]]:
        """Yield (name, outputs) with each of some parameters changed, one after the other."""
        for name in names:
            with self.altered(change, only=name):
                yield name, [array for _, array in self.run(inputs, calls=False).outputs]

    def close(self) -> None:
        """Free what was loaded."""
        if "_lowered" in vars(self):
            self._lowered.close()

    @cached_property
    def _lowered(self) -> OnnxRunner:
        return OnnxRunner(self._graph, optimised=False)

    def _named(self, arrays: Sequence[np.ndarray]) -> list[tuple[str, np.ndarray]]:
        """Return outputs with the graph's names, or numbered ones where there are not as many."""
        same = len(arrays) == len(self._names)
        names = self._names if same else [f"output{at}" for at in range(len(arrays))]
        return list(zip(names, arrays, strict=True))
