"""Finds where values come close to a point at which a function jumps, or has a pole.

There rounding decides, or is multiplied: what differs on one draw and not on another of its kind may be that.
Without such a point it is a fault that only some inputs show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from ...ir import Builder, Graph, Operator, RegraftError, Value
from ...ir.analysis.jumps import COMPARISONS
from ..probes import Probe
from ..proof import upstream

_JUMPS = COMPARISONS | {"Cast", "Ceil", "Floor", "Mod", "Round", "Sign"}
"""ONNX operators whose results jump."""

POLES = frozenset(["Acos", "Acosh", "Asin", "Atanh", "Div", "Log", "Reciprocal", "Sqrt", "Tan"])
"""Functions whose slope has no bound."""

NEAR_JUMP = 1e-4
"""Distance from a jump, relative to the largest value, that rounding may cross: some 800 units."""

_NEAR_POLE = 1e-2
"""Distance from a pole, relative to the largest value, within which rounding grows a hundredfold."""


class Singularities:
    """The jumps and poles of a graph's operators.

    Args:
        graph: the source's graph; it is not changed.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = {n.key: n for n in graph.operators() if not n.domain and _takes_floats(graph, n)}
        self._probe = Probe(graph, self._distances)

    def near(
        self, inputs: Mapping[str, np.ndarray], outputs: Collection[str], but: Collection[int] = ()
    ) -> str:
        """Describe an operator before some outputs whose operand comes close; empty if there is none.

        Args:
            inputs: arrays by input name.
            outputs: names of the outputs.
            but: keys of operators that are not looked at.
        """
        values = [value for name, value in self._graph.outputs if name in outputs]
        before = {key for value in values for key in upstream(self._graph, value, set())} & set(self._nodes)
        before -= set(but)
        if not before:
            return ""
        try:
            found = [float(array) for array in self._probe.run(inputs)]
        except RegraftError:  # the graph may not run by itself: then nothing shows that there is one
            return ""
        for (key, node), distance in zip(self._nodes.items(), found, strict=True):
            if key in before and distance <= (NEAR_JUMP if node.op_type in _JUMPS else _NEAR_POLE):
                return self._graph.describe(key)
        return ""

    def _distances(self, b: Builder) -> Iterator[tuple[str, Value]]:
        for key, node in self._nodes.items():
            yield f"distance {key}", _distance(b, b.graph, node)


def _takes_floats(graph: Graph, node: Operator) -> bool:
    if node.op_type not in _JUMPS | POLES:
        return False
    if node.op_type == "Cast" and (
        not node.types
        or node.types[0] is None
        or "float" in node.types[0].dtype
        or node.types[0].dtype == "bool"
    ):
        return False
    types = [None if v is None else graph.type_of(v) for v in graph.operands(node.key)]
    return bool(types) and all(t is not None and "float" in t.dtype for t in types)


def _distance(b: Builder, graph: Graph, node: Operator) -> Value:
    """Return how close an operand comes to a jump or pole, relative to the largest value."""
    operands = [b.op("Cast", v, to=1) for v in graph.operands(node.key) if v is not None]
    value = operands[-1] if node.op_type == "Div" else operands[0]
    if node.op_type in COMPARISONS:
        off = b.op("Sub", value, operands[1])
    elif node.op_type in ("Cast", "Ceil", "Floor"):
        off = b.op("Sub", value, b.op("Round", value))
    elif node.op_type == "Round":
        half = b.op("Add", value, b.constant(np.float32(0.5)))
        off = b.op("Sub", half, b.op("Round", half))
    elif node.op_type == "Mod":
        turns = b.op("Div", value, operands[1])
        off = b.op("Sub", turns, b.op("Round", turns))
    elif node.op_type == "Tan":
        off = b.op("Cos", value)
    elif node.op_type in ("Acos", "Acosh", "Asin", "Atanh"):
        off = b.op("Sub", b.op("Abs", value), b.constant(np.float32(1)))
    else:
        off = value
    least = b.op("ReduceMin", b.op("Abs", off), keepdims=0)
    largest = b.op("ReduceMax", b.op("Abs", value), keepdims=0)
    return b.op("Div", least, b.op("Max", largest, b.constant(np.float32(1e-30))))
