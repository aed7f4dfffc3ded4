"""Measures what rounding selects: elements by their values, where values differ by rounding alone.

A detector keeps boxes by their scores, best first. Where two scores are a few units in the last place apart,
or one is as close to a threshold, another runtime exchanges two rows of the result, or has one more. That is
no fault where the source's own graph gives the source's whole result once it selects by the source's values,
and the target's once it selects by the target's, and both are the graph's own values but for rounding. How
far rounding moves those is measured while the selection stays, so that no element has another place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from ...ir import Builder, Graph, Operator, TensorType, Value
from ..compare import EPSILON, IMPLAUSIBLE, kind_of
from ..conditioning import change_inputs, make_changes
from ..probes import copy_to_probe
from ..report import OutputRow
from ..runners.onnx_runner import OnnxRunner
from ..runners.onnx_selected import FINDS, selecting_operands
from ..runners.runs import Run, Runner, Selecting

_UNITS = 256
"""Units in the last place of the largest value, within which rounding parts two values however measured."""

_MULTIPLE = 16
"""Multiple of what one unit in each input and weight moves values by; sums of products moved by 8 times."""

_ROUNDS = 12
"""Runs in which values that depend on what others select are found."""

Arrays = Sequence[np.ndarray]


@dataclass(slots=True)
class _Followed:
    """A run of the graph that selects by given values.

    Attributes:
        given: the inputs, and the values to select by.
        chosen: number of a value -> the array to select by in its place.
        arrays: the outputs, then the values that the graph computed itself.
    """

    given: dict[str, np.ndarray]
    chosen: dict[int, np.ndarray] = field(default_factory=dict)
    arrays: list[np.ndarray] = field(default_factory=list)


class Selections:
    """The floating-point values by which a graph selects elements: of orders, thresholds and steps.

    Args:
        graph: the source's graph; it is not changed.
        source: the source's runner.
        target: the target's.
    """

    def __init__(self, graph: Graph, source: Runner, target: Runner) -> None:
        self._graph, self._source, self._target = graph, source, target
        self._values: list[Value] = []
        operators = graph.operators()
        finds = any(node.op_type in FINDS for node in operators)
        for node in operators:
            if node.domain:
                continue
            for value in graph.operands(node.key)[selecting_operands(node.op_type, finds=finds)]:
                if value is not None and value not in self._values and _is_computed(graph, value):
                    self._values.append(value)

    def judge(
        self, rows: list[OutputRow], inputs: Mapping[str, np.ndarray], source: Run, target: Run
    ) -> list[OutputRow]:
        """Return rows in which what rounding selects is no fault.

        Rows that others take the place of move as far as their values differ: a tolerance by how far rounding
        moves an output passes any rows then. So those that passed by one are judged as those that failed are.

        Args:
            rows: of the outputs, in order.
            inputs: arrays by input name.
            source: what the source gave.
            target: what the target gave.
        """
        from ..streaming.deciding import costs_less_in_pieces

        doubtful = {at for at, row in enumerate(rows) if not row.passed or row.max_rel > IMPLAUSIBLE}
        if not self._values or not doubtful or not isinstance(self._source, Selecting):
            return rows
        if costs_less_in_pieces(self._graph):
            return rows
        sides = [[array for _, array in run.outputs] for run in (source, target)]
        if any(len(side) != len(rows) for side in sides) or any(map(_are_other_kinds, *sides)):
            return rows
        try:
            units = self._units_apart(inputs, *sides)
        except Exception:  # the models' code, and the graph on values of another run, may raise any
            return rows
        if units is None:
            return rows
        why = (
            "rounding alone decides what is selected: both sides select alike by values that are at "
            f"most {units} units in the last place apart"
        )
        off = units * EPSILON["float32"]
        return [
            row if at not in doubtful else _make_equal(row, sides[0][at], off, why)
            for at, row in enumerate(rows)
        ]

    def _units_apart(self, inputs: Mapping[str, np.ndarray], source: Arrays, target: Arrays) -> int | None:
        """Return how far apart values are of which one graph makes both outputs; None where it does not."""
        assert isinstance(self._source, Selecting)
        runner, own = self._make_replaceable(), len(self._graph.outputs)
        try:
            plain = _Followed({**inputs})
            for number, value in enumerate(self._values):
                type_ = self._graph.known_type(value)
                plain.given |= _replacement(number, np.zeros((), type_.dtype), is_used=False)
            plain.arrays = [array for _, array in runner.run(plain.given, calls=False).outputs]
            followed = self._follow(runner, plain, self._source.selected_values(inputs))
            ways, tried = self._ways_of_target(runner, plain, inputs), list[_Followed]()

            def remembered() -> Iterator[_Followed]:
                for given in ways:
                    tried.append(given)
                    yield given

            def find(moved: Sequence[float]) -> _Followed | None:
                if not _gives(followed, source, moved):
                    return None
                every = chain(list(tried), remembered())
                return next((given for given in every if _gives(given, target, moved)), None)

            found = find([0.0] * len(followed.arrays))  # few units need no measurement, which takes most time
            found = found or find(self._measure(runner, inputs, followed))
            return None if found is None else int(np.ceil(max(_units_of(s, own) for s in (followed, found))))
        finally:
            runner.close()

    def _ways_of_target(
        self, runner: OnnxRunner, plain: _Followed, inputs: Mapping[str, np.ndarray]
    ) -> Iterator[_Followed]:
        """Yield runs of the graph that may select as the target does."""
        yield plain
        if isinstance(self._target, Selecting):
            yield self._follow(runner, plain, self._target.selected_values(inputs))
        fused = OnnxRunner(copy_to_probe(self._graph))
        try:
            yield _Followed({}, {}, [array for _, array in fused.run(inputs, calls=False).outputs])
        finally:
            fused.close()

    def _follow(self, runner: OnnxRunner, plain: _Followed, theirs: Arrays) -> _Followed:
        """Run the graph by the values of a side, the nearest of its own, as far as they can be found."""
        own = len(self._graph.outputs)
        found = _Followed(dict(plain.given), {}, plain.arrays)
        for _ in range(_ROUNDS):
            known = len(found.chosen)
            for number, array in enumerate(found.arrays[own:]):
                if number in found.chosen:
                    continue
                nearest = min(theirs, key=lambda a, array=array: _apart(a, array), default=array)
                if _apart(nearest, array) <= IMPLAUSIBLE:
                    found.chosen[number] = nearest.reshape(array.shape)
                    found.given |= _replacement(number, found.chosen[number], is_used=True)
            if len(found.chosen) == known:
                break
            found.arrays = [array for _, array in runner.run(found.given, calls=False).outputs]
        return found

    def _measure(
        self, runner: OnnxRunner, inputs: Mapping[str, np.ndarray], followed: _Followed
    ) -> list[float]:
        """Return how far one unit in each input and weight moves what the graph gives at most."""
        moved = [0.0] * len(followed.arrays)
        for change in make_changes(1):
            given = {**followed.given, **change_inputs(inputs, change)}
            with runner.altered(change):
                again = [array for _, array in runner.run(given, calls=False).outputs]
            for at, (a, b) in enumerate(zip(followed.arrays, again, strict=True)):
                if kind_of(a) in "fc":
                    moved[at] = max(moved[at], _apart(b, a))
        return moved

    def _make_replaceable(self) -> OnnxRunner:
        """Return a runner of the graph that selects by given values, with its own as further outputs."""
        copy = copy_to_probe(self._graph)
        b = Builder(copy)
        further: list[tuple[str, Value]] = []
        for number, value in enumerate(self._values):
            type_ = copy.known_type(value)
            is_used = copy.add_input(f"is used {number}", TensorType("bool", ()))
            other = copy.add_input(f"selected by {number}", TensorType(type_.dtype, None))
            found = b.op("Where", is_used, other, value)
            copy.replace_uses(value, found, except_in=[found.node])
            further.append((f"computed {number}", value))
        copy.outputs += further
        return OnnxRunner(copy, optimised=False)


def _make_equal(row: OutputRow, source: np.ndarray, off: float, why: str) -> OutputRow:
    """Return the row of an output that is a source's but for a share of its largest value."""
    found = replace(row, passed=True, reason=why, unproven="", noise=None)
    largest = float(np.abs(source).max(initial=0.0))
    return replace(found, max_abs=off * largest, max_rel=off, tolerance=IMPLAUSIBLE * largest)


def _replacement(number: int, array: np.ndarray, *, is_used: bool) -> dict[str, np.ndarray]:
    return {f"is used {number}": np.array(is_used), f"selected by {number}": array}


def _is_computed(graph: Graph, value: Value) -> bool:
    type_ = graph.type_of(value)
    floats = type_ is not None and type_.shape is not None and type_.dtype in ("float32", "float64")
    return floats and isinstance(graph.node(value.node), Operator) and graph.constant_value(value) is None


def _are_other_kinds(a: np.ndarray, b: np.ndarray) -> bool:
    return kind_of(a) != kind_of(b) or a.ndim != b.ndim


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """Return how far apart two arrays are, as a share of the largest; infinite where shapes do not agree."""
    if a.dtype != b.dtype or [n for n in a.shape if n != 1] != [n for n in b.shape if n != 1]:
        return np.inf
    a, b = a.reshape(b.shape).astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    largest = float(np.abs(b[finite]).max(initial=0.0))
    apart = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return apart / largest if apart and largest else apart and np.inf


def _bound(array: np.ndarray, moved: float) -> float:
    """Return how far rounding may part an array from another of it, as a share of the largest."""
    return min(max(_UNITS * EPSILON[array.dtype.name], _MULTIPLE * moved), IMPLAUSIBLE)


def _is_rounding(followed: _Followed, moved: Sequence[float], own: int) -> bool:
    """Whether the values that a run selected by are the graph's own but for rounding."""
    values = followed.arrays[own:]
    return all(
        _apart(array, values[n]) <= _bound(values[n], moved[own + n]) for n, array in followed.chosen.items()
    )


def _gives(followed: _Followed, outputs: Arrays, moved: Sequence[float]) -> bool:
    """Whether a run gives outputs by values that are the graph's own, both but for rounding."""
    own = len(outputs)
    close = all(map(_are_close, followed.arrays[:own], outputs, moved[:own]))
    return close and _is_rounding(followed, moved, own)


def _units_of(followed: _Followed, own: int) -> float:
    values = followed.arrays[own:]
    return max((_apart(a, values[n]) for n, a in followed.chosen.items()), default=0.0) / EPSILON["float32"]


def _are_close(found: np.ndarray, wanted: np.ndarray, moved: float) -> bool:
    """Whether two results are one but for rounding."""
    if kind_of(wanted) in "fc":
        return _apart(found, wanted) <= _bound(wanted, moved)
    return found.shape == wanted.shape and bool((found == wanted).all())
