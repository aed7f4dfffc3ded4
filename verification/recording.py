"""Records one call of every class of an emitted folder, as its source computes it, for tests beside it."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..backends.source.recorded_tests import TOLERANCE, RecordedCall, Recording
from ..ir import Graph, ModelError
from ..ir.nesting import is_flat
from .inputs import bindings, make_inputs
from .modules import match
from .runners.emitted_folder import EmittedCall, SourceRunner
from .runners.grouped_runner import GroupedRunner
from .runners.registry import source_runner
from .runners.runs import CallRecord, Runner
from .runners.select_runner import own_runner

LIMIT = 2 * 2**20
"""Most bytes of the tensors of one recorded call."""

_ELSEWHERE = 1e-2
"""Relative difference above which two values of equal nets are not the same value."""


def record_calls(source: Graph, folder: Path, *, grouped: Graph | None = None, seed: int = 0) -> Recording:
    """Run a source and the net emitted from it, and record one call of every class of the latter.

    The first call of each class is recorded. If one is larger than `LIMIT`, the batch shrinks to 1; if it is
    still larger, a later and smaller call of its class is taken.

    Args:
        source: a loaded model, as `verify` takes it, found equal to what is in the folder.
        folder: an emitted folder.
        grouped: the graph that was emitted, where a pass gave a flat source its modules.
        seed: seed of the inputs, as in `verify`.

    Raises:
        ModelError: when a side cannot be run (E702).
    """
    runner = own_runner(source) if grouped is None else GroupedRunner(source, grouped)
    try:
        target = source_runner(folder)
        try:
            return _Recorder(source, runner, target, seed).recording()
        finally:
            target.close()
    finally:
        runner.close()


class _Recorder:
    def __init__(self, graph: Graph, source: Runner, target: SourceRunner, seed: int) -> None:
        self._graph, self._source, self._target, self._seed = graph, source, target, seed
        self._made = source.made if isinstance(source, GroupedRunner) else frozenset()
        self._sizes = bindings(graph)
        self._too_large = False

    def recording(self) -> Recording:
        """Record at the example's sizes, or at batch 1 where they are too large and the models allow it."""
        calls, untested = self._record()
        leading = {node.type.shape[0] for node in self._graph.input_nodes() if node.type.shape}
        batch = {name: 1 for name, size in self._sizes.items() if name in leading and size > 1}
        if self._too_large and batch:
            given = self._sizes
            self._sizes = {**given, **batch}
            try:
                calls, untested = self._record()
            except ModelError:  # a model may need several examples: then the larger calls stay untested
                self._sizes = given
        return Recording(calls, self._origin(), untested)

    def _record(self) -> tuple[list[RecordedCall], dict[str, str]]:
        """Return (one call of every class that has one, class -> why it has none)."""
        inputs = make_inputs(self._graph, self._sizes, self._seed)
        source, target = self._source.run(inputs), self._target.run(inputs)
        root = CallRecord("", list(inputs.values()), [array for _, array in source.outputs])
        records = {"#1": root, **source.calls}
        self._too_large = False
        calls: list[RecordedCall] = []
        untested: dict[str, str] = {}
        for class_name, candidates in self._target.emitted_calls().items():
            reason = "nothing calls it by itself"
            for call in candidates:
                found = self._pair(call, target.calls[call.name], records.get(call.name))
                reason = found if isinstance(found, str) else _obstacle(found)
                if not reason and isinstance(found, CallRecord):
                    distance = _distance(found.outputs, self._target.run_module(call.name, found.inputs))
                    if distance <= _ELSEWHERE:
                        place = _place(call.name, made=call.name in self._made)
                        made = _make_recorded_call(class_name, call, found, place, distance)
                        nests = call.name == "#1" and not is_flat(self._graph.origin.results or "")
                        calls.append(replace(made, nests=nests))
                        break
                    reason = "a pass moved values across its edges"
                self._too_large |= "bytes" in reason
            if reason:
                untested[class_name] = reason
        return calls, untested

    def _pair(self, call: EmittedCall, target: CallRecord, source: CallRecord | None) -> CallRecord | str:
        """Return the source's values of a call in the emitted Cell's order, or why they do not pair."""
        if call.arguments is None:
            return "it is called with more than tensors"
        if source is None:
            return "no module of the source corresponds to it"
        entering = match(target.inputs, source.inputs) if target.inputs else []
        leaving = match(target.outputs, source.outputs)
        if entering is None or leaving is None:
            return "its tensors are not those of the source's module"
        return CallRecord(
            source.class_name, [source.inputs[i] for i in entering], [source.outputs[i] for i in leaving]
        )

    def _origin(self) -> str:
        """Describe the origin of the recorded values, for the tests' docstring."""
        sizes = ", ".join(f"{name}={size}" for name, size in sorted(self._sizes.items()))
        reference = self._graph.origin.reference
        return (
            f"The values were recorded from {f'`{reference}`' if reference else 'a graph'} in "
            f"{self._source.runtime}, with the weights of the checkpoint beside this file, on inputs drawn "
            f"with NumPy {np.__version__}, seed {self._seed}{f', {sizes}' if sizes else ''}; the target was "
            f"{self._target.runtime}, Python {sys.version_info.major}.{sys.version_info.minor}."
        )


def _place(call: str, *, made: bool) -> str:
    """Describe a call; `made` says that a pass made the module of the source's operators."""
    path, _, number = call.rpartition("#")
    if not path:
        return "the whole net"
    times = f", call {number}" if number != "1" else ""
    return f"the part of the source that is `{path}` here{times}" if made else f"the source's `{path}`{times}"


def _make_recorded_call(
    class_name: str, call: EmittedCall, record: CallRecord, place: str, distance: float
) -> RecordedCall:
    """Return a call with its values; `distance` is how far MindSpore's results are from them."""
    assert call.arguments is not None
    return RecordedCall(
        class_name,
        call.cell,
        f"{class_name}: {place}",
        call.arguments,
        record.inputs,
        record.outputs,
        TOLERANCE if distance <= TOLERANCE / 2 else _round_up(4 * distance),
    )


def _obstacle(record: CallRecord) -> str:
    """Explain why a call is not recorded; empty if it can be."""
    arrays = [*record.inputs, *record.outputs]
    held = sum(a.nbytes for a in arrays)
    if held > LIMIT:
        return f"its calls hold {held:,} bytes or more, and {LIMIT:,} are the limit for a recorded one"
    odd = next((a.dtype.name for a in arrays if a.dtype.kind not in "biufc"), "")
    return f"an .npz file cannot hold {odd}" if odd else ""


def _distance(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
    """Return the largest difference of floating-point outputs, measured as the tests do; 0 without any."""
    worst = 0.0
    for wanted, array in zip(expected, found, strict=True):
        if wanted.dtype.kind in "fc" and wanted.size:
            finite = np.isfinite(wanted)
            scale = np.abs(wanted[finite]).max(initial=1.0)
            worst = max(worst, float(np.abs(array[finite] - wanted[finite]).max(initial=0.0) / scale))
    return worst


def _round_up(value: float) -> float:
    """Round up to one significant digit."""
    unit = 10.0 ** math.floor(math.log10(value))
    return float(f"{math.ceil(value / unit) * unit:.0e}")
