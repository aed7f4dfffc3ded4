"""Runs a ``.mindir`` file in MindSpore itself, as ``nn.GraphCell(mindspore.load(file))``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from ...frontends.mindspore_cell.saved.running import net_of
from ...ir import Graph, Operator
from ..compare import kind_of
from .mindspore_cells import refusal
from .mindspore_values import array_of, flatten_results, set_value
from .onnx_runner import OnnxRunner
from .runs import Run


class MindIRRunner:
    """Runs a file in MindSpore, and single module calls as the graph that was read of it.

    Args:
        graph: the file, loaded with `trust` and not rewritten.

    Raises:
        ModelError: when MindSpore is missing, or refuses the file.
    """

    def __init__(self, graph: Graph) -> None:
        import mindspore

        self._graph = graph
        self._net = net_of(Path(str(graph.origin.model)))
        self._names = [name for name, _ in graph.outputs]
        self.runtime = f"MindSpore {mindspore.__version__} (the file, in graph mode)"

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the file; see `Runner`."""
        from mindspore import Tensor

        tensors = [Tensor(np.array(inputs[node.name], copy=True)) for node in self._graph.input_nodes()]
        try:
            arrays = [array_of(found) for found in flatten_results(self._net(*tensors))]
        except Exception as error:  # MindSpore's compiler and kernels may raise anything
            raise refusal("run", error, str(self._graph.origin.model)) from error
        same = len(arrays) == len(self._names)
        names = self._names if same else [f"output{at}" for at in range(len(arrays))]
        lowered = self._lowered.run(inputs) if calls else Run([])
        return Run(list(zip(names, arrays, strict=True)), lowered.calls, lowered.store)

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one call of the graph that was read, because MindSpore runs the file as a whole."""
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
        if call:  # which runs in the graph that was read
            with self._lowered.altered(change, call, only):
                yield
            return
        wanted = {p.declared for p in self._graph.parameters() if only in ("", p.name)}
        kept = [(p, array_of(p)) for p in self._net.get_parameters() if p.name in wanted]
        kept = [(p, value) for p, value in kept if kind_of(value) in "fc"]
        try:
            for parameter, value in kept:
                set_value(parameter, change(value))
            yield
        finally:
            for parameter, value in kept:
                set_value(parameter, value)

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

    def slack(self, operators: Sequence[Operator]) -> int:
        """Return the units in the last place that MindSpore's arithmetic may cost; see `Runner`."""
        from .mindspore_runner import slack_of

        return slack_of(operators)

    def close(self) -> None:
        """Free what was loaded."""
        if "_lowered" in vars(self):
            self._lowered.close()
