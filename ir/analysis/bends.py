"""Finds where piecewise operators change their formula, such as Relu at 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..graph import Graph
from ..nodes import Constant, Input, Operator, Value


@dataclass(frozen=True, slots=True)
class Bend:
    """The points at which one piecewise operator changes its formula.

    Attributes:
        node: key of the operator.
        value: the value whose elements select the region.
        minus: a value to subtract from it first, or None.
        points: the boundaries of the regions, ascending.
        regions: descriptions of the regions, one more than there are points; "" if it need not be reached.
    """

    node: int
    value: Value
    minus: Value | None
    points: tuple[float, ...]
    regions: tuple[str, ...]


_Points = Callable[[Graph, Operator], Iterator[Bend]]


def _at(graph: Graph, node: Operator, *points: float) -> Iterator[Bend]:
    """Yield the bend of an operator that changes its formula where its first operand equals these numbers."""
    operands = graph.operands(node.key)
    value = operands[0] if operands and points else None  # an operator of random numbers has no operand
    if value is None:
        return
    points = tuple(sorted(set(points)))
    between = [f"a value from {a:g} to {b:g}" for a, b in itertools.pairwise(points)]
    regions = (f"a value below {points[0]:g}", *between, f"a value above {points[-1]:g}")
    yield Bend(node.key, value, None, points, regions)


def _relu(graph: Graph, node: Operator) -> Iterator[Bend]:
    """Yield the bends of Relu: at 0, and at 6, where ReLU6, easily confused with it, differs."""
    yield from _at(graph, node, 0)
    for bend in _at(graph, node, 6):
        yield replace(bend, regions=("", ""))


def _clip(graph: Graph, node: Operator) -> Iterator[Bend]:
    bounds = [_number(graph, value) for value in graph.operands(node.key)[1:3]]
    yield from _at(graph, node, *[b for b in bounds if b is not None and abs(b) < _UNBOUNDED])


def _hard_sigmoid(graph: Graph, node: Operator) -> Iterator[Bend]:
    alpha, beta = node.float("alpha"), node.float("beta")
    if alpha:
        yield from _at(graph, node, -beta / alpha, (1 - beta) / alpha)


def _extremum(graph: Graph, node: Operator) -> Iterator[Bend]:
    """Yield the bend of a Max or Min of two operands: where the other operand becomes the result."""
    operands = [value for value in graph.operands(node.key) if value is not None]
    if len(operands) != 2:
        return
    first, second = operands
    name = "larger" if node.op_type == "Max" else "smaller"
    for value, other in ((first, second), (second, first)):
        bound = _number(graph, other)
        if bound is not None:
            regions = (f"a value below {bound:g}", f"a value above {bound:g}")
            yield Bend(node.key, value, None, (bound,), regions)
            return
    low, high = f"its second operand the {name}", f"its first operand the {name}"
    yield Bend(node.key, first, second, (0.0,), (low, high) if node.op_type == "Max" else (high, low))


def _where(graph: Graph, node: Operator) -> Iterator[Bend]:
    condition = graph.operands(node.key)[0]
    if condition is not None:
        regions = ("the second branch of a Where", "the first branch of a Where")
        yield Bend(node.key, condition, None, (0.5,), regions)


_UNBOUNDED = 1e30
"""Bounds beyond this are none: exporters write the largest number of a type for infinity."""

_BY_OPERANDS: dict[str, _Points] = {
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "Max": _extremum,
    "Min": _extremum,
    "Relu": _relu,
    "Shrink": lambda graph, node: _at(graph, node, -node.float("lambd"), node.float("lambd")),
    "ThresholdedRelu": lambda graph, node: _at(graph, node, node.float("alpha")),
    "Where": _where,
}
"""ONNX operator -> its bends, if attributes or operands determine them; fixed bends are traits."""


def find_bends(graph: Graph) -> list[Bend]:
    """Return the bends that depend on the values of a graph's inputs; nested graphs are not entered."""
    decided = find_input_dependent(graph)
    return [
        bend
        for node in graph.operators()
        for bend in _bends_of(graph, node)
        if bend.value.node in decided or (bend.minus is not None and bend.minus.node in decided)
    ]


def _bends_of(graph: Graph, node: Operator) -> Iterator[Bend]:
    found = None if node.domain else _BY_OPERANDS.get(node.op_type)
    return _at(graph, node, *node.traits.bends) if found is None else found(graph, node)


def find_input_dependent(graph: Graph) -> set[int]:
    """Return the keys of the nodes that depend on the values of inputs, not only on their shapes."""
    found: set[int] = set()
    for node in graph.nodes():
        if isinstance(node, Input):
            found.add(node.key)
        elif isinstance(node, Operator) and not node.traits.measuring:
            used = [*graph.operands(node.key), *graph.captured(node.key)]
            if any(value is not None and value.node in found for value in used):
                found.add(node.key)
    return found


def _number(graph: Graph, value: Value | None) -> float | None:
    """Return the number that a constant of one element holds; None for any other value."""
    if value is None or not isinstance(graph.node(value.node), Constant):
        return None
    array = graph.constant_value(value)
    return None if array is None or array.size != 1 else float(array.reshape(-1)[0])
