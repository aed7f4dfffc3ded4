"""Runs a symbol in MXNet itself, through a Python that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...backends.onnx_model.boundaries import call_boundaries
from ...ir import Graph, Input, ModelError, Operator, UsageError, Value
from ..runners.runs import CallRecord, Run
from ..runners.whole_runner import WholeRunner
from .process import Process

TIMEOUT = 600.0
"""Seconds that one run may take."""

_ENVIRONMENT = {
    # its default backend fuses a convolution into what follows it even where others read it too
    "MXNET_SUBGRAPH_BACKEND": "NONE",
}

_SCRIPT = Path(__file__).with_name("mxnet_process.py")


class MXNetRunner(WholeRunner):
    """Runs the files of a symbol in MXNet, which reads them itself.

    Args:
        graph: the symbol, loaded and not rewritten.
        python: an interpreter that has MXNet.
        timeout: seconds that an answer may take.

    Attributes:
        nodes: in a run with calls, what every node gave whose output is a value of the graph: (name, number
            of the output) -> array.
        operators: name of such a node -> MXNet's operator.

    Raises:
        UsageError: for a graph of another framework, and where there is no such interpreter (E001).
        ModelError: when MXNet is not there, or cannot read the files (E702).
    """

    def __init__(self, graph: Graph, python: str | Path, *, timeout: float = TIMEOUT) -> None:
        origin = graph.origin
        if origin.framework != "mxnet" or not isinstance(origin.model, (str, Path)):
            raise UsageError(
                "E001",
                f"expected an MXNet symbol as the source, got {origin.reference or 'a graph'}",
                hint="--oracle runs MXNet symbols in MXNet; any other source runs in its own framework "
                "without it",
            )
        super().__init__(graph)
        self._boundaries = call_boundaries(graph)
        self._filled: dict[str, str] = {}
        self._number = 0
        self.nodes: dict[tuple[str, int], np.ndarray] = {}
        self._process = Process(python, _SCRIPT, timeout=timeout, environment=_ENVIRONMENT)
        try:
            found = self._process.ask(
                {
                    "symbol": str(Path(origin.model).resolve()),
                    "params": ""
                    if origin.parameters is None
                    else str(Path(str(origin.parameters)).resolve()),
                }
            )
        except ModelError:
            self._process.close()
            raise
        shown = {(name, output): op for name, output, op in found["values"]}
        self._landmarks = {
            key: value
            for key, value in origin.landmarks.items()
            if key in shown and not isinstance(graph.node(value.node), Input)
        }
        self.operators = {name: op for (name, _), op in shown.items()}
        self.runtime = f"MXNet {found['version']}"

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the symbol; see `Runner`."""
        self._number += 1
        folder = self._process.folder / f"run{self._number}"
        folder.mkdir()
        wanted = list(self._landmarks) if calls else []
        question = {
            "inputs": self._save(folder, inputs),
            "filled": self._filled,
            "values": wanted,
            "folder": str(folder),
        }
        count = self._process.ask(question)["count"]
        arrays = [self._load(folder / f"{i}.npy") for i in range(int(count))]
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        outputs = arrays[len(wanted) :]
        if calls:
            self.nodes = dict(zip(wanted, arrays, strict=False))
        return Run(self._named(outputs), self._calls(inputs) if calls else {})

    def _save(self, folder: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
        files: dict[str, str] = {}
        for number, (name, array) in enumerate(arrays.items()):
            files[name] = str(folder / f"in{number}.npy")
            np.save(files[name], array, allow_pickle=False)
        return files

    def _load(self, file: Path) -> np.ndarray:
        try:
            return np.load(file, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ModelError("E702", f"expected an array from MXNet, got `{file.name}`: {error}") from error

    def _calls(self, inputs: Mapping[str, np.ndarray]) -> dict[str, CallRecord]:
        """Return the module calls; a call is left out if MXNet does not show every value at its edges."""
        values: dict[Value, np.ndarray] = {}
        for key, value in self._landmarks.items():
            values.setdefault(value, self.nodes[key])
        for node in self._graph.input_nodes():
            values[Value(node.key)] = inputs[node.name]
        tree, names = self._graph.modules, self._graph.modules.call_names()
        records: dict[str, CallRecord] = {}
        for call, (entering, leaving) in self._boundaries.items():
            shown = all(v in values for v in [*entering, *leaving])
            records[names[call]] = CallRecord(
                tree.module(tree.call(call).module).class_name,
                [values[v] for v in entering] if shown else [],
                [values[v] for v in leaving] if shown else [],
            )
        return records

    def landmarks(self) -> dict[tuple[str, int], Value]:
        """Return the nodes that MXNet shows -> the value of the graph."""
        return dict(self._landmarks)

    @contextmanager
    def _altered_file(self, change: Callable[[np.ndarray], np.ndarray], only: str) -> Iterator[None]:
        for p in self._graph.parameters():
            if p.data.dtype.startswith("float") and only in ("", p.name):
                file = self._process.folder / f"filled{len(self._filled)}.npy"
                np.save(file, change(p.data.numpy()), allow_pickle=False)
                self._filled[p.declared] = str(file)
        try:
            yield
        finally:
            for file in map(Path, self._filled.values()):
                file.unlink()
            self._filled = {}

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:  # noqa: ARG002 - all of them are good to that
        """Return the units in the last place that MXNet's arithmetic may cost; see `Runner`."""
        return 64

    def close(self) -> None:
        """End the process."""
        self._process.close()
        super().close()
