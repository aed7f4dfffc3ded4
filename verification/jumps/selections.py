"""Measures what rounding selects: elements by their values, where values differ by rounding alone.

A detector keeps boxes by their scores, best first. Where two scores are a few units in the last place apart,
or one is as close to a threshold, another runtime exchanges two rows of the result, or has one more. That is
no fault where the source's own graph gives the target's whole result, and gives the source's once it selects
by the source's own values, which are its own but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...ir import Builder, Graph, Operator, TensorType, Value
from ..compare import EPSILON, kind_of
from ..probes import copy_to_probe
from ..report import OutputRow
from ..runners.onnx_runner import OnnxRunner
from ..runners.runs import Run, Runner, Selecting

_UNITS = 256
"""Units in the last place of the largest value, within which rounding is what parts two values."""

_ROUNDS = 8
"""Runs in which values that depend on what others select are found."""

_ORDERS = frozenset({"ArgMax", "ArgMin", "NonMaxSuppression", "TopK"})
_COMPARES = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_FINDS = frozenset({"Compress", "NonMaxSuppression", "NonZero"})


class Selections:
    """The floating-point values by which a graph selects elements: of orders, and of thresholds.

    Args:
        graph: the source's graph; it is not changed.
        runner: the source's runner.
    """

    def __init__(self, graph: Graph, runner: Runner) -> None:
        self._graph, self._runner = graph, runner
        self._values: list[Value] = []
        operators = graph.operators()
        finds = any(node.op_type in _FINDS for node in operators)
        for node in operators:
            if node.domain or not (node.op_type in _ORDERS or (finds and node.op_type in _COMPARES)):
                continue
            for value in graph.operands(node.key)[: _read(node)]:
                if value is not None and value not in self._values and _is_computed(graph, value):
                    self._values.append(value)

    def judge(
        self, rows: list[OutputRow], inputs: Mapping[str, np.ndarray], source: Run, target: Run
    ) -> list[OutputRow]:
        """Return rows in which what rounding selects is no fault.

        Args:
            rows: of the outputs, in order.
            inputs: arrays by input name.
            source: what the source gave.
            target: what the target gave.
        """
        from ..streaming.deciding import costs_less_in_pieces

        if not self._values or all(row.passed for row in rows) or not isinstance(self._runner, Selecting):
            return rows
        if costs_less_in_pieces(self._graph):
            return rows
        sides = [[array for _, array in run.outputs] for run in (source, target)]
        if any(len(side) != len(rows) for side in sides) or any(map(_are_other_kinds, *sides)):
            return rows
        try:
            units = self._units_apart(inputs, *sides)
        except Exception:  # the source's code, and the graph on values of another run, may raise any
            return rows
        if units is None:
            return rows
        why = (
            "rounding decides what is selected: both sides select alike by values that are at most "
            f"{units} units in the last place apart"
        )
        off = units * EPSILON["float32"]
        return [
            row
            if row.passed
            else replace(
                row, passed=True, reason=why, max_abs=off * float(np.abs(array).max(initial=0.0)), max_rel=off
            )
            for row, array in zip(rows, sides[0], strict=True)
        ]

    def _units_apart(
        self, inputs: Mapping[str, np.ndarray], source: Sequence[np.ndarray], target: Sequence[np.ndarray]
    ) -> int | None:
        """Return how far apart values are of which one graph makes both outputs; None where it does not."""
        assert isinstance(self._runner, Selecting)
        runner = self._make_replaceable()
        own = len(self._graph.outputs)
        given = {**inputs}
        for number, value in enumerate(self._values):
            given |= _replacement(number, np.zeros((), self._graph.known_type(value).dtype), is_used=False)
        try:
            arrays = [array for _, array in runner.run(given, calls=False).outputs]
            if not (all(map(_are_close, arrays[:own], target)) or self._gives_when_fused(inputs, target)):
                return None
            theirs = self._runner.selected_values(inputs)
            chosen: dict[int, np.ndarray] = {}
            for _ in range(_ROUNDS):
                before = len(chosen)
                for number, array in enumerate(arrays[own:]):
                    match = next((a for a in theirs if _units(a, array) <= _UNITS), None)
                    if number not in chosen and match is not None:
                        chosen[number] = match.reshape(array.shape)
                        given |= _replacement(number, chosen[number], is_used=True)
                arrays = [array for _, array in runner.run(given, calls=False).outputs]
                if len(chosen) == before:
                    break
            units = max((_units(chosen[n], arrays[own + n]) for n in chosen), default=np.inf)
            is_equal = all(map(_are_close, arrays[:own], source))
        finally:
            runner.close()
        return int(np.ceil(units)) if is_equal and units <= _UNITS else None

    def _gives_when_fused(self, inputs: Mapping[str, np.ndarray], target: Sequence[np.ndarray]) -> bool:
        """Whether the graph gives the target's outputs with operators fused, which rounds otherwise."""
        runner = OnnxRunner(copy_to_probe(self._graph))
        try:
            found = [array for _, array in runner.run(inputs, calls=False).outputs]
        finally:
            runner.close()
        return all(map(_are_close, found, target))

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


def _replacement(number: int, array: np.ndarray, *, is_used: bool) -> dict[str, np.ndarray]:
    return {f"is used {number}": np.array(is_used), f"selected by {number}": array}


def _read(node: Operator) -> int:
    """Return how many of an operator's operands are values that it selects by."""
    return 1 if node.op_type in ("ArgMax", "ArgMin", "TopK") else 2


def _is_computed(graph: Graph, value: Value) -> bool:
    type_ = graph.type_of(value)
    floats = type_ is not None and type_.shape is not None and type_.dtype in ("float32", "float64")
    return floats and isinstance(graph.node(value.node), Operator) and graph.constant_value(value) is None


def _are_other_kinds(a: np.ndarray, b: np.ndarray) -> bool:
    return kind_of(a) != kind_of(b) or a.ndim != b.ndim


def _units(a: np.ndarray, b: np.ndarray) -> float:
    """Return how far apart two arrays are, in units of the largest; infinite where shapes do not agree."""
    if a.dtype != b.dtype or [n for n in a.shape if n != 1] != [n for n in b.shape if n != 1]:
        return np.inf
    a, b = a.reshape(b.shape).astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    largest = float(np.abs(b[finite]).max(initial=0.0))
    apart = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return apart / (largest * EPSILON["float32"]) if apart else 0.0


def _are_close(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether two results are one but for rounding."""
    if kind_of(wanted) in "fc":
        return _units(found, wanted) <= _UNITS
    return found.shape == wanted.shape and bool((found == wanted).all())
