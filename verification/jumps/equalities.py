"""Measures what equality and rounding of computed values decide: the graph runs again, rounded otherwise.

`scores == max_pool(scores)` chooses the largest of a window. Where scores differ by units in the last place
alone, as those of a softmax of nearly equal logits do, rounding within the softmax chooses, which no change
of inputs or weights shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from ...ir import Builder, Constant, Graph, Operator, Parameter, RegraftError, Value
from ..compare import EPSILON, MULTIPLE
from ..probes import Probe, copy_to_probe
from ..proof import upstream
from ..report import OutputRow
from ..runners.onnx_runner import OnnxRunner
from ..runners.runs import Run
from .excuses import excuse_failed

_UNITS = 4
"""Units in the last place within which rounding is what parts two values."""

_RUNS = 3
"""Runs with values that are rounded otherwise."""

_MORE = 12
"""Runs of a net that quantises, whose layers spread one value that is rounded otherwise."""

_SHARE = 200
"""One in so many elements of an output may be a step of its scale off."""


class Equalities:
    """The values of a graph that are compared for equality with what is computed of them, or quantised.

    Args:
        graph: the source's graph; it is not changed.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._compared: dict[Value, int] = {}
        self._quantised: dict[Value, tuple[int, Value | None]] = {}
        for node in graph.operators():
            value = _compared(graph, node)
            if value is not None:
                self._compared.setdefault(value, node.key)
            value, scale = _quantised(graph, node)
            if value is not None:
                self._quantised.setdefault(value, (node.key, scale))

    def deciding(self, inputs: Mapping[str, np.ndarray], apart: Mapping[str, np.ndarray]) -> str:
        """Describe an operator by which rounding moves outputs as far, and as often; empty without one.

        Args:
            inputs: arrays by input name.
            apart: output name -> how far its elements are apart, 0 for those within the tolerance.
        """
        if not (self._compared or self._quantised) or not apart:
            return ""
        if all(self._is_a_step(name, off) for name, off in apart.items()):
            return self._graph.describe(self._last_quantised[next(iter(apart))][0])
        probe = Probe(self._graph, self._looked_at)
        try:
            arrays = list(probe.run(inputs))
            compared = dict(zip(self._compared, arrays, strict=False))
            close = {v: a for v, a in compared.items() if _has_close_values(a)}
            of_steps = arrays[len(compared) :]
            for v, a, steps in zip(self._quantised, of_steps[::2], of_steps[1::2], strict=True):
                largest = float(np.abs(a).max(initial=0.0))
                in_steps = float(np.abs(steps).max(initial=0.0)) / largest if largest else 0.0
                if _has_ties(steps, _rounding_of_bias(self._graph, v) * in_steps):
                    close[v] = a
            if not close:
                return ""
            before = dict(probe.runner().run(inputs, calls=False).outputs)
            moved: dict[str, list[np.ndarray]] = {name: [] for name in apart}
            spreads = any(v in self._quantised for v in close)  # a tie is left on one side only
            for seed in range(_MORE if spreads else _RUNS):
                after = dict(self._rounded_otherwise(close, seed).run(inputs, calls=False).outputs)
                for name, found in moved.items():
                    found.append(np.abs(after[name].astype(np.float64) - before[name]))
                    moved[name] = [np.max(found, axis=0)] if spreads else found
                if spreads and seed >= _RUNS - 1 and self._explain(moved, apart):
                    break
        except (RegraftError, KeyError, ValueError):
            return ""
        finally:
            probe.close()
        if self._explain(moved, apart):
            first = next(iter(close))
            known = self._compared.get(first)
            return self._graph.describe(self._quantised[first][0] if known is None else known)
        return ""

    @property
    def has_quantised(self) -> bool:
        """Whether the net rounds values that it computes."""
        return bool(self._quantised)

    def excuse_rounded(
        self, inputs: Mapping[str, np.ndarray], source: Run, target: Run, rows: list[OutputRow]
    ) -> list[OutputRow]:
        """Return rows of a case that counts: of nets alone that quantise, rounding may decide there too."""
        return self.excuse_decided(inputs, source, target, rows) if self.has_quantised else rows

    def excuse_decided(
        self, inputs: Mapping[str, np.ndarray], source: Run, target: Run, rows: list[OutputRow]
    ) -> list[OutputRow]:
        """Return rows of which those prove nothing that rounding moves as far as the target is off."""
        if all(row.passed for row in rows):
            return rows
        near = self.deciding(inputs, find_apart(rows, source, target))
        why = f"rounding decides values that {near} compares or rounds"
        return excuse_failed(rows, why) if near else rows

    @cached_property
    def _last_quantised(self) -> dict[str, tuple[int, float]]:
        """By name of an output that was quantised last of all: the operator, and the length of a step."""
        found: dict[str, tuple[int, float]] = {}
        for name, value in self._graph.outputs:
            node = self._graph.node(value.node)
            while isinstance(node, Operator) and node.traits.moving:
                first = self._graph.operands(node.key)[0]
                assert first is not None
                node = self._graph.node(first.node)
            if not isinstance(node, Operator) or node.qualified_name != "DequantizeLinear":
                continue
            codes, scale, *_ = self._graph.operands(node.key)
            held = None if scale is None else self._graph.node(scale.node)
            if codes is None or not isinstance(held, (Constant, Parameter)) or held.data.shape:
                continue
            found[name] = codes.node, float(held.data.numpy())
        return found

    def _is_a_step(self, name: str, off: np.ndarray) -> bool:
        """Whether few elements of an output are a step of its scale off: kernels round to either side."""
        if name not in self._last_quantised:
            return False
        step = self._last_quantised[name][1]
        return float(off.max()) <= step * 1.001 and np.count_nonzero(off) <= off.size // _SHARE

    @staticmethod
    def _explain(moved: Mapping[str, list[np.ndarray]], apart: Mapping[str, np.ndarray]) -> bool:
        return all(_moves_as_far(moved[name], off) for name, off in apart.items())

    def _looked_at(self, b: Builder) -> Iterator[tuple[str, Value]]:
        """Yield the values that are compared, those that are quantised, and these in steps."""
        for value in self._compared:
            yield f"compared {value.node}", value
        for value, (_, scale) in self._quantised.items():
            yield f"quantised {value.node}", value
            yield f"steps of {value.node}", value if scale is None else b.op("Div", value, scale)

    def _rounded_otherwise(self, values: Mapping[Value, np.ndarray], seed: int) -> OnnxRunner:
        """Return a runner of the graph in which values are a unit in the last place off, or none."""
        copy, random = copy_to_probe(self._graph), np.random.default_rng(seed)
        b = Builder(copy)
        for value, array in values.items():
            unit = EPSILON[str(array.dtype)]
            if value in self._compared:
                signs = random.integers(-1, 2, array.shape)
                other = b.op("Mul", value, b.constant((1 + unit * signs).astype(array.dtype)))
            else:  # the sum behind it is as far off as its largest terms
                off = _UNITS * unit * float(np.abs(array).max(initial=0.0))
                off = max(off, _rounding_of_bias(self._graph, value))
                signs = random.integers(-1, 2, array.shape) if seed > 1 else 1 - 2 * seed
                other = b.op("Add", value, b.constant((off * np.asarray(signs)).astype(array.dtype)))
            copy.replace_uses(value, other, except_in=[other.node])
        return OnnxRunner(copy, optimised=False)


def find_apart(rows: Sequence[OutputRow], source: Run, target: Run) -> dict[str, np.ndarray]:
    """Return, by output that failed, how far elements are apart; nothing where one has no such number."""
    pairs = {name: (a, b) for (name, a), (_, b) in zip(source.outputs, target.outputs, strict=False)}
    found: dict[str, np.ndarray] = {}
    for row in rows:
        a, b = pairs.get(row.name, (None, None))
        if row.passed:
            continue
        if (
            a is None
            or b is None
            or a.shape != b.shape
            or not np.isfinite([row.max_abs, row.tolerance]).all()
        ):
            return {}
        off = np.abs(a.astype(np.float64) - b)
        found[row.name] = np.where(off > row.tolerance, off, 0.0)
    return {} if any(not off.any() for off in found.values()) else found


def _compared(graph: Graph, node: Operator) -> Value | None:
    """Return the operand of an Equal of which the other one is computed; None without one."""
    if node.op_type != "Equal" or node.domain:
        return None
    a, b = graph.operands(node.key)
    for value, other in ((a, b), (b, a)):
        if value is None or other is None or not isinstance(graph.node(value.node), Operator):
            continue
        type_ = graph.type_of(value)
        if (
            type_ is not None
            and type_.dtype in ("float32", "float64")
            and value.node in upstream(graph, other, set())
        ):
            return value
    return None


def _quantised(graph: Graph, node: Operator) -> tuple[Value | None, Value | None]:
    """Return a value that an operator rounds, and the length of a step where that is not 1."""
    if node.domain or node.op_type not in ("QuantizeLinear", "Round"):
        return None, None
    value, *others = graph.operands(node.key)
    type_ = None if value is None else graph.type_of(value)
    if type_ is None or type_.dtype != "float32":
        return None, None
    if node.op_type == "Round":
        return value, None
    scale = others[0]
    known = None if scale is None else graph.type_of(scale)
    return (value, scale) if known is not None and known.shape == () else (None, None)


def _rounding_of_bias(graph: Graph, value: Value) -> float:
    """Return how far kernels may round the bias of a layer on integers: half a unit of the sum of products.

    Args:
        graph: the graph.
        value: what the layer gives, or a function of it, before it is quantised.
    """
    node = graph.node(value.node)
    while isinstance(node, Operator) and node.op_type in ("Relu", "Clip"):
        first = graph.operands(node.key)[0]
        assert first is not None
        node = graph.node(first.node)
    if not isinstance(node, Operator) or node.op_type not in ("Conv", "ConvTranspose", "Gemm", "Linear"):
        return 0.0
    unit = 0.5
    for operand in graph.operands(node.key)[:2]:
        given = None if operand is None else graph.node(operand.node)
        if not isinstance(given, Operator) or given.qualified_name != "DequantizeLinear":
            return 0.0
        scale = graph.operands(given.key)[1]
        held = None if scale is None else graph.node(scale.node)
        if not isinstance(held, (Constant, Parameter)) or held.data.load is None:
            return 0.0
        unit *= float(held.data.numpy().max(initial=0.0))
    return unit


def _has_ties(steps: np.ndarray, slack: float) -> bool:
    """Whether some values lie in the middle between two integers but for a few units in the last place.

    Args:
        steps: the values, in steps.
        slack: the part of a step by which they may lie elsewhere, if that is more.
    """
    found = steps[np.isfinite(steps)]
    off = np.abs(found - np.floor(found) - 0.5)
    units = _UNITS * EPSILON[str(steps.dtype)] * float(np.abs(found).max(initial=1.0))
    return bool((off <= max(units, slack)).any())


def _has_close_values(array: np.ndarray) -> bool:
    """Whether some values differ by a few units in the last place, which only rounding explains."""
    found = np.unique(array[np.isfinite(array)])
    gaps = np.diff(found)
    return bool((gaps <= _UNITS * EPSILON[str(array.dtype)] * np.abs(found[1:])).any())


def _moves_as_far(moved: list[np.ndarray], off: np.ndarray) -> bool:
    """Whether rounding moves an output as far as it is off, and in each run as many elements."""
    least = float(off[off > 0].min())
    counts = [int(np.count_nonzero(m >= least / MULTIPLE)) for m in moved]
    far = max(float(m.max(initial=0.0)) for m in moved)
    return min(counts) * MULTIPLE >= np.count_nonzero(off) and float(off.max()) <= MULTIPLE * far
