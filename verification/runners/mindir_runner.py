"""Runs a ``.mindir`` file in MindSpore itself, as ``nn.GraphCell(mindspore.load(file))``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...frontends.mindspore_cell.saved.running import net_of
from ...ir import Graph, Operator
from ..compare import kind_of
from .mindspore_cells import refusal
from .mindspore_values import array_of, flatten_results, set_value
from .runs import Run
from .whole_runner import WholeRunner


class MindIRRunner(WholeRunner):
    """Runs a file in MindSpore, and single module calls as the graph that was read of it.

    Args:
        graph: the file, loaded with `trust` and not rewritten.

    Raises:
        ModelError: when MindSpore is missing, or refuses the file.
    """

    def __init__(self, graph: Graph) -> None:
        import mindspore

        super().__init__(graph)
        self._net = net_of(Path(str(graph.origin.model)))
        self.runtime = f"MindSpore {mindspore.__version__} (the file, graph mode)"

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the file; see `Runner`."""
        from mindspore import Tensor

        tensors = [Tensor(np.array(inputs[node.name], copy=True)) for node in self._graph.input_nodes()]
        try:
            arrays = [array_of(found) for found in flatten_results(self._net(*tensors))]
        except Exception as error:  # MindSpore's compiler and kernels may raise anything
            raise refusal("run", error, str(self._graph.origin.model)) from error
        lowered = self._lowered.run(inputs) if calls else Run([])
        return Run(self._named(arrays), lowered.calls, lowered.store)

    @contextmanager
    def _altered_file(self, change: Callable[[np.ndarray], np.ndarray], only: str) -> Iterator[None]:
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

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:
        """Return the units in the last place that MindSpore's arithmetic may cost; see `Runner`."""
        from .mindspore_runner import ulp_tolerance_of

        return ulp_tolerance_of(operators)


def file_runner(graph: Graph) -> MindIRRunner:
    """Return a runner of the file; see `registry`."""
    return MindIRRunner(graph)
