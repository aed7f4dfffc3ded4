"""Measures what equality of computed values decides: they are rounded otherwise, and the graph runs again.

`scores == max_pool(scores)` chooses the largest of a window. Where scores differ by units in the last place
alone, as those of a softmax of nearly equal logits do, rounding within the softmax chooses, which no change
of inputs or weights shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...ir import Builder, Graph, Operator, RegraftError, Value
from ..compare import EPSILON, MULTIPLE
from ..probes import Probe, copy_to_probe
from ..proof import upstream
from ..report import OutputRow
from ..runners.onnx_runner import OnnxRunner
from ..runners.runs import Run

_UNITS = 4
"""Units in the last place within which rounding is what parts two values."""

_RUNS = 3
"""Runs with values that are rounded otherwise."""


class Equalities:
    """The values of a graph that are compared for equality with what is computed of them.

    Args:
        graph: the source's graph; it is not changed.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._compared: dict[Value, int] = {}
        for node in graph.operators():
            value = _compared(graph, node)
            if value is not None:
                self._compared.setdefault(value, node.key)

    def deciding(self, inputs: Mapping[str, np.ndarray], apart: Mapping[str, np.ndarray]) -> str:
        """Describe a comparison by which rounding moves outputs as far, and as often; empty without one.

        Args:
            inputs: arrays by input name.
            apart: output name -> how far its elements are apart, 0 for those within the tolerance.
        """
        if not self._compared or not apart:
            return ""
        probe = Probe(self._graph, lambda _: ((f"compared {v.node}", v) for v in self._compared))
        try:
            arrays = dict(zip(self._compared, probe.run(inputs), strict=True))
            close = {v: a for v, a in arrays.items() if _has_close_values(a)}
            if not close:
                return ""
            before = dict(probe.runner().run(inputs, calls=False).outputs)
            moved: dict[str, list[np.ndarray]] = {name: [] for name in apart}
            for seed in range(_RUNS):
                after = dict(self._rounded_otherwise(close, seed).run(inputs, calls=False).outputs)
                for name, found in moved.items():
                    found.append(np.abs(after[name].astype(np.float64) - before[name]))
        except (RegraftError, KeyError, ValueError):
            return ""
        finally:
            probe.close()
        if all(_moves_as_far(moved[name], off) for name, off in apart.items()):
            return self._graph.describe(self._compared[next(iter(close))])
        return ""

    def _rounded_otherwise(self, values: Mapping[Value, np.ndarray], seed: int) -> OnnxRunner:
        """Return a runner of the graph in which values are a unit in the last place off, or none."""
        copy, random = copy_to_probe(self._graph), np.random.default_rng(seed)
        b = Builder(copy)
        for value, array in values.items():
            unit = EPSILON[str(array.dtype)]
            factor = (1 + unit * random.integers(-1, 2, array.shape)).astype(array.dtype)
            other = b.op("Mul", value, b.constant(factor))
            copy.replace_uses(value, other, except_in=[other.node])
        return OnnxRunner(copy, optimised=False)


def find_apart(rows: Sequence[OutputRow], source: Run, target: Run) -> dict[str, np.ndarray]:
    """Return, by output that failed, how far elements are apart; nothing where one has no such number."""
    sides = [dict(run.outputs) for run in (source, target)]
    found: dict[str, np.ndarray] = {}
    for row in rows:
        a, b = (side.get(row.name) for side in sides)
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
