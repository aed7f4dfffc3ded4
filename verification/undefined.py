"""Finds operators that NaN enters whose documents leave open what they give of it.

A maximum, a sort, a clamp or an activation gives NaN of NaN in one framework and a number in another, or in
another kernel of the same; a cast of it to integers gives any number. IsNaN, Where, comparisons, arithmetic
and what moves values are defined: a difference behind these alone is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..ir import Builder, Graph, Operator, RegraftError, Value
from .compare import compare, kind_of
from .probes import Probe
from .proof import upstream
from .report import OutputRow
from .runners.runs import Run, Runner, Tracing
from .sides import OutputRounding

_NAMES = """
ArgMax ArgMin DynamicQuantizeLinear Erf GlobalMaxPool Hardmax Max MaxPool MaxRoiPool Min
NonMaxSuppression QuantizeLinear ReduceMax ReduceMin RoiAlign Sign TopK Unique
"""

_OPEN = frozenset(_NAMES.split())
"""ONNX operators that order numbers, or end somewhere; traits tell activations and recurrent layers."""

_WITHOUT_INFINITIES = frozenset(["Cast", "GridSample", "QuantizeLinear"])
"""Operators that turn a number into a place or an integer, for which infinities are undefined too."""

_SHOWN = 2
"""Number of operators that a remark names."""


class Undefined:
    """The operators of a source that leave open what they give of NaN.

    Args:
        graph: the source's graph; it is not changed.
        runner: the source's runner.

    Attributes:
        asking: the outputs behind operators that tell NaN or infinities from other numbers.
    """

    def __init__(self, graph: Graph, runner: Runner) -> None:
        self._graph, self._runner = graph, runner
        self._nodes = {node.key: node for node in graph.operators() if _is_open(graph, node)}
        self._probe = Probe(graph, self._flags)
        asked = {node.key for node in graph.operators() if _asks(graph, node)}
        self.asking = {
            n for n, v in graph.outputs if asked and not asked.isdisjoint(upstream(graph, v, set()))
        }

    def entering(self, inputs: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Return output -> operators before it that NaN enters, in words; without outputs that have none.

        Torch says itself what enters its operators; of other sources the graph says it in ONNX Runtime.
        """
        if not self._nodes:
            return {}
        if isinstance(self._runner, Tracing) and not self._runner.meets_open_operator(inputs):
            return {}
        entered = self._entered(inputs)
        if entered is not None and not entered and not isinstance(self._runner, Tracing):
            return {}
        found: dict[str, str] = {}
        for name, value in self._graph.outputs:
            before = [key for key in upstream(self._graph, value, set()) if key in self._nodes]
            known = [key for key in before if entered and key in entered] or before
            if known:
                more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
                found[name] = ", ".join(map(self._graph.describe, known[-_SHOWN:])) + more
        return found

    def _entered(self, inputs: Mapping[str, np.ndarray]) -> set[int] | None:
        """Return the operators that NaN enters in the graph; None where it does not run by itself."""
        try:
            flags = self._probe.run(inputs)
        except RegraftError:
            return None
        return {key for key, flag in zip(self._nodes, flags, strict=True) if bool(flag)}

    def _flags(self, b: Builder) -> Iterator[tuple[str, Value]]:
        for key, node in self._nodes.items():
            yield f"entered {key}", _flag(b, b.graph, node)


def _asks(graph: Graph, node: Operator) -> bool:
    """Whether an operator tells NaN or infinities from other numbers."""
    if node.qualified_name != "Equal":
        return node.qualified_name in ("IsInf", "IsNaN")
    a, b = graph.operands(node.key)
    numbers = [graph.constant_value(v) for v in (a, b)]
    return a == b or any(n is not None and kind_of(n) == "f" and bool(np.isinf(n).any()) for n in numbers)


def _is_open(graph: Graph, node: Operator) -> bool:
    """Whether an operator takes floats, and leaves open what it gives of NaN."""
    traits = node.traits
    if not any(_operands(graph, node)):
        return False
    if node.qualified_name == "Cast":
        return bool(node.types) and node.types[0] is not None and "int" in node.types[0].dtype
    named = node.op_type in _OPEN or node.op_type in _WITHOUT_INFINITIES
    return named or traits.activation or traits.recurrent


def _operands(graph: Graph, node: Operator) -> Iterator[Value]:
    """Yield the floating-point operands of an operator."""
    for value in graph.operands(node.key):
        type_ = None if value is None else graph.type_of(value)
        if value is not None and type_ is not None and "float" in type_.dtype:
            yield value


def _flag(b: Builder, graph: Graph, node: Operator) -> Value:
    """Return 1 where NaN is among an operator's operands, or an infinity where that is as open; else 0."""
    found: list[Value] = []
    for value in _operands(graph, node):
        wide = b.op("Cast", value, to=1)
        tests = ["IsNaN", "IsInf"] if node.op_type in _WITHOUT_INFINITIES else ["IsNaN"]
        for test in tests:
            number = b.op("Cast", b.op(test, wide), to=1)
            found.append(b.op("ReduceSum", number, keepdims=0))
    total = found[0]
    for value in found[1:]:
        total = b.op("Add", total, value)
    return total


def excuse_undefined(
    rows: list[OutputRow], runs: tuple[Run, Run], rounding: OutputRounding, entering: Mapping[str, str]
) -> list[OutputRow]:
    """Return rows in which differences behind operators that NaN enters are no faults.

    Where only elements differ that are NaN in the source, the others are compared; else the row proves
    nothing.

    Args:
        rows: one for each output of the source, then others.
        runs: what source and target gave.
        rounding: what rounding does in the source's run.
        entering: from `Undefined.entering`.
    """
    found = list(rows)
    for at, (row, (name, own)) in enumerate(zip(rows, runs[0].outputs, strict=False)):
        if row.passed or name not in entering or at >= len(runs[1].outputs):
            continue
        other = runs[1].outputs[at][1]
        if own.shape != other.shape or kind_of(own) != kind_of(other):
            continue
        why = f"NaN enters {entering[name]}, which leaves open what it gives"
        found[at] = replace(row, passed=True, reason=f"proves nothing: {why}", unproven=why)
        if kind_of(own) != "f":
            continue
        undefined = np.isnan(own)
        if undefined.any() and not undefined.all() and not np.isnan(other[~undefined]).any():
            zeros = np.zeros((), own.dtype)
            c = compare(
                np.where(undefined, zeros, own), np.where(undefined, zeros, other), rounding.output(at)
            )
            if c.passed:
                errors = (c.max_abs, c.max_rel, c.tolerance)
                found[at] = OutputRow(name, row.case, c.shape, *errors, True, f"but where {why}", c.noise)
    return found
