"""Finds inputs that reach every region of the source's piecewise functions: draws, then modules alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ..ir import Builder, Graph, ModelError, RegraftError, Value
from ..ir.analysis.bends import Bend, find_bends
from .compare import kind_of
from .probes import Probe
from .runners.runs import CallRecord

_MARGIN = 1e-2
"""Distance beyond a boundary at which a value shows the region; relative to the boundary, at least to 1."""

WHOLE = (100.0, 1000.0)
"""Factors for the inputs of the whole model, for regions that no module alone reaches."""

FACTORS = (10.0, -10.0, 100.0, -100.0, 1000.0, -1000.0)
"""Factors for the inputs of a module alone, tried in order until every region was seen."""

BendRegion = tuple[int, int]
"""Number of a bend, and of one of its regions."""


class Bending:
    """The bends of a graph, and their regions that no input has reached so far.

    The graph runs in ONNX Runtime, with the least and the largest value at each bend as further outputs.

    Args:
        graph: a source graph; it is not changed.

    Attributes:
        bends: the bends.
        unseen: the regions that no inputs so far have led into.
    """

    def __init__(self, graph: Graph) -> None:
        self.bends = find_bends(graph)
        self.unseen: set[BendRegion] = {
            (i, r) for i, bend in enumerate(self.bends) for r in range(len(bend.regions))
        }
        self._graph = graph
        self._probe = Probe(graph, self._of_bends)
        self._has_run = False

    def note(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Cross off the regions that inputs reach; returns whether any of them was unseen."""
        return self._note(inputs, range(len(self.bends)))

    def note_branches(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Cross off only branches of Where, as infinite inputs reach all regions of other bends."""
        numbers = [n for n, b in enumerate(self.bends) if self._graph.operator(b.node).op_type == "Where"]
        return any((n, r) in self.unseen for n in numbers for r in (0, 1)) and self._note(inputs, numbers)

    def amplify_inputs(self, first: Mapping[str, np.ndarray]) -> dict[float, dict[str, np.ndarray]]:
        """Return inputs multiplied, by the factors at which they reach regions that nothing else did."""
        found: dict[float, dict[str, np.ndarray]] = {}
        for factor in WHOLE if self.unseen else ():
            inputs = {name: multiply_floats(array, factor) for name, array in first.items()}
            if self.note(inputs):
                found[factor] = inputs
        return found

    def _note(self, inputs: Mapping[str, np.ndarray], numbers: Sequence[int] | range) -> bool:
        if not self.unseen:
            return False
        try:
            extremes = self._probe.run(inputs)
        except RegraftError:  # the graph may not run as a whole, and inputs may be none of its own
            return False
        self._has_run = True
        return self._cross_off(numbers, [extremes[2 * n + side] for n in numbers for side in (0, 1)])

    def _of_bends(self, b: Builder) -> Iterator[tuple[str, Value]]:
        for number, bend in enumerate(self.bends):
            for name, value in zip(("least", "most"), _extremes(b, bend), strict=True):
                yield f"{name} {number}", value

    def _cross_off(self, numbers: Sequence[int] | range, extremes: Sequence[np.ndarray]) -> bool:
        before = len(self.unseen)
        for at, number in enumerate(numbers):
            low, high = (float(array) for array in extremes[2 * at : 2 * at + 2])
            self.unseen -= {(number, r) for r in _regions(self.bends[number].points, low, high)}
        return len(self.unseen) < before

    def calls(self) -> dict[str, list[int]]:
        """Return name of a module call -> numbers of its own bends with unseen regions; "" for no call."""
        if not self._has_run:
            return {}
        names = self._graph.modules.call_names()
        found: dict[str, list[int]] = {}
        for number in sorted({number for number, _ in self.unseen}):
            call = self._graph.operator(self.bends[number].node).call
            found.setdefault("" if call is None else names[call], []).append(number)
        return found

    def amplify(
        self, call: str, numbers: Sequence[int], record: CallRecord
    ) -> Iterator[tuple[float, list[np.ndarray], set[BendRegion]]]:
        """Yield factors and multiplied inputs of one call that reach unseen regions, with those regions.

        Args:
            call: the call's name.
            numbers: numbers of its bends.
            record: what entered it in the source.
        """
        try:
            run = self._make_probe(call, numbers, record)
        except RegraftError:  # the probe is for coverage: what it cannot see stays unseen
            return
        for factor in FACTORS:
            if run is None or not any(number in numbers for number, _ in self.unseen):
                return
            inputs = [multiply_floats(array, factor) for array in record.inputs]
            try:
                extremes = run(inputs)
            except ModelError:
                continue
            before = set(self.unseen)
            if self._cross_off(numbers, extremes):
                yield factor, inputs, before - self.unseen

    def _make_probe(
        self, call: str, numbers: Sequence[int], record: CallRecord
    ) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]] | None:
        """Return a function from a call's inputs to the extremes at its bends; None if inputs do not pair."""
        runner = self._probe.runner()
        entering = runner.calls[call]["inputs"] if call in runner.calls else []
        order = _pair_shapes([runner.dims(name) for name in entering], record.inputs)
        if not order:
            return None
        part = runner.part(entering, [f"{name} {number}" for number in numbers for name in ("least", "most")])
        return lambda inputs: part([inputs[i] for i in order])

    def restore(self, regions: set[BendRegion]) -> None:
        """Mark regions as unseen again, because the inputs that reached them proved nothing."""
        self.unseen |= regions

    def remark(self) -> list[str]:
        """Describe the unseen regions: ``head.act`` never saw a value above 6."""
        if any(self.bends[at].regions[region] for at, region in self.unseen) and not self._has_run:
            return ["which values reached functions that bend: the graph does not run by itself"]
        found: dict[str, list[str]] = {}
        names = self._graph.modules.call_names()
        several = set(names.values())
        for at, region in sorted(self.unseen):
            bend = self.bends[at]
            if not bend.regions[region]:
                continue
            call = self._graph.operator(bend.node).call
            path, _, number = ("" if call is None else names[call]).rpartition("#")
            place = f"`{path}`" if path else f"the model's own {self._graph.operator(bend.node).op_type}"
            place += f" in call {number}" if path and f"{path}#2" in several else ""
            found.setdefault(bend.regions[region], []).append(place)
        return [
            f"{_list_places(list(dict.fromkeys(places)))} never saw {what}" for what, places in found.items()
        ]


def _extremes(b: Builder, bend: Bend) -> tuple[Value, Value]:
    value = b.op("Cast", bend.value, to=1)
    if bend.minus is not None:
        value = b.op("Sub", value, b.op("Cast", bend.minus, to=1))
    return b.op("ReduceMin", value, keepdims=0), b.op("ReduceMax", value, keepdims=0)


def _regions(points: Sequence[float], low: float, high: float) -> Iterator[int]:
    """Yield the regions that values from `low` to `high` reach."""
    edges = [-np.inf, *points, np.inf]
    for region, (start, end) in enumerate(itertools.pairwise(edges)):
        inner = (start + end) / 2 if np.isfinite(start) and np.isfinite(end) else None
        above = start + _MARGIN * max(1.0, abs(start)) if np.isfinite(start) else -np.inf
        below = end - _MARGIN * max(1.0, abs(end)) if np.isfinite(end) else np.inf
        if above > below and inner is not None:
            above = below = inner
        if high >= above and low <= below:
            yield region


def _pair_shapes(wanted: Sequence[Sequence[int | None]], offered: Sequence[np.ndarray]) -> list[int] | None:
    """Return, for every shape (None: unknown size), the index of the next fitting array; None without one."""
    free, order = list(range(len(offered))), list[int]()
    for dims in wanted:
        fitting = [
            i
            for i in free
            if len(dims) == offered[i].ndim
            and all(d in (None, size) for d, size in zip(dims, offered[i].shape, strict=True))
        ]
        if not fitting:
            return None
        order.append(fitting[0])
        free.remove(fitting[0])
    return order


def multiply_floats(array: np.ndarray, factor: float) -> np.ndarray:
    """Return an array multiplied by a factor; integers and booleans unchanged."""
    if kind_of(array) != "f":
        return array
    with np.errstate(over="ignore"):  # of numbers such as float32's least, which masks have
        return (array.astype(np.float32) * factor).astype(array.dtype)


def _list_places(places: list[str]) -> str:
    shown = ", ".join(places[:2])
    return shown if len(places) < 3 else f"{shown} and {len(places) - 2} more"
