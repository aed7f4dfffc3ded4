"""Finds where operators' results jump, such as Round at halves, and the inputs that lead exactly there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Graph
from ..nodes import Constant, Input, Operator, Value
from .bends import find_bends, find_input_dependent

COMPARISONS = frozenset(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])

_WHOLE = tuple(float(k) for k in range(-8, 9))

_HALVES = tuple(k + 0.5 for k in range(-8, 8))

_MOST = 16
"""Numbers of one constant, and points of one input, that are looked at."""

_FACTORS = frozenset(["Add", "Div", "Mul", "Sub"])

_KEEPING = frozenset(
    ["Cast", "CastLike", "Ceil", "Clip", "Floor", "Max", "Min", "ReduceMax", "ReduceMin", "Relu"]
)
"""Operators that give some of the numbers which enter them, besides those that move elements."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A place at which an operator's result jumps.

    Attributes:
        node: key of the operator.
        value: the value that decides.
        other: a value that it is compared with; None where it is compared with numbers alone.
        points: the numbers at which it jumps; some of them, of endlessly many.
        step: distance of endlessly many points, of which 0 or, for `half`, half of it is one; else 0.
        half: whether the points lie in the middle.
        searched: whether each element is compared with all elements of `other`.
    """

    node: int
    value: Value
    other: Value | None
    points: tuple[float, ...]
    step: float = 0.0
    half: bool = False
    searched: bool = False


def find_jumps(graph: Graph) -> list[Jump]:
    """Return the jumps that depend on the values of a graph's inputs; nested graphs are not entered."""
    decided = find_input_dependent(graph)
    return [jump for node in graph.operators() if node.key in decided for jump in _jumps_of(graph, node)]


def _jumps_of(graph: Graph, node: Operator) -> Iterator[Jump]:
    operands, kind = graph.operands(node.key), node.qualified_name
    value = operands[0] if operands else None
    type_ = None if value is None else graph.type_of(value)
    if value is None or type_ is None or type_.dtype in ("bool", "string"):
        return
    other = operands[1] if len(operands) > 1 else None
    if kind in COMPARISONS and other is not None:
        own, numbers = numbers_of(graph, value), numbers_of(graph, other)
        if numbers is not None:
            yield Jump(node.key, value, other, numbers)
        elif own is not None:
            yield Jump(node.key, other, value, own)
        else:
            yield Jump(node.key, value, other, ())
    elif kind == "regraft.SearchSorted" and other is not None:
        yield Jump(node.key, other, value, numbers_of(graph, value) or (), searched=True)
    elif kind in ("Div", "Mod") and other is not None and (kind == "Mod" or "int" in type_.dtype):
        numbers = numbers_of(graph, other) or ()
        points = tuple(k * n for n in numbers for k in _WHOLE)
        step = numbers[0] if len(numbers) == 1 else 0.0
        yield Jump(node.key, value, other, points, step)
    elif kind == "Sign":
        yield Jump(node.key, value, None, (0.0,))
    elif "float" not in type_.dtype:
        return
    elif kind in ("Ceil", "Floor") or (kind == "Cast" and _is_integer(node)):
        yield Jump(node.key, value, None, _WHOLE, 1.0)
    elif kind == "Round":
        yield Jump(node.key, value, None, _HALVES, 1.0, half=True)
    elif kind == "Shrink":
        yield Jump(node.key, value, None, (-node.float("lambd"), node.float("lambd")))
    elif kind == "ThresholdedRelu":
        yield Jump(node.key, value, None, (node.float("alpha"),))


def _is_integer(node: Operator) -> bool:
    return bool(node.types) and node.types[0] is not None and "int" in node.types[0].dtype


def points_of_inputs(graph: Graph) -> dict[str, tuple[float, ...]]:
    """Return name of an input -> numbers that lead operators exactly to their jumps and bends.

    They are followed backwards through what moves elements and through arithmetic with constants.
    """
    found: dict[str, dict[float, None]] = {}
    starts = [(jump.value, jump.points) for jump in find_jumps(graph)]
    starts += [(bend.value, bend.points) for bend in find_bends(graph) if bend.minus is None]
    for value, points in starts:
        for name, numbers in _lead_back(graph, value, points):
            found.setdefault(name, {}).update(dict.fromkeys(numbers))
    return {name: tuple(sorted(numbers, key=abs)[: 4 * _MOST]) for name, numbers in found.items()}


def _lead_back(graph: Graph, start: Value, points: Sequence[float]) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield inputs, and the numbers of them that make a value these points."""
    stack, seen = [(start, tuple(points))], {start}
    while stack:
        value, wanted = stack.pop()
        node = graph.node(value.node)
        if isinstance(node, Input):
            yield node.name, wanted
        if not isinstance(node, Operator) or not wanted:
            continue
        for operand, numbers in _before(graph, node, wanted):
            finite = tuple(dict.fromkeys(n for n in numbers if abs(n) < _UNBOUNDED))[: 4 * _MOST]
            if operand not in seen:
                seen.add(operand)
                stack.append((operand, finite))


_UNBOUNDED = 1e30


def _before(graph: Graph, node: Operator, points: Sequence[float]) -> Iterator[tuple[Value, list[float]]]:
    """Yield operands, and the numbers of them that make an operator's result these points."""
    operands, kind = [v for v in graph.operands(node.key) if v is not None], node.op_type
    if node.domain or not operands:
        return
    first = operands[0]
    if kind == "Concat" or kind in ("Max", "Min"):
        yield from ((v, list(points)) for v in operands)
    elif kind == "Where":
        yield from ((v, list(points)) for v in operands[1:])
    elif node.traits.moving or node.traits.selecting or kind in _KEEPING:
        yield first, list(points)
    elif kind == "Neg":
        yield first, [-p for p in points]
    elif kind == "Abs":
        yield first, [sign * p for p in points if p >= 0 for sign in (1, -1)]
    elif kind == "Sqrt":
        yield first, [p * p for p in points if p >= 0]
    elif kind == "Round":
        yield first, list(points)
    elif kind in _FACTORS and len(operands) == 2:
        for slot, other in ((0, 1), (1, 0)):
            numbers = numbers_of(graph, operands[other])
            if numbers is not None:
                found = [_without(kind, p, n, slot) for n in numbers for p in points]
                yield operands[slot], [n for n in found if n is not None]
                return


def _without(kind: str, point: float, number: float, slot: int) -> float | None:
    """Return what float32 has and arithmetic with a number makes exactly the point of; None without one.

    Args:
        kind: the operator.
        point: its result.
        number: its other operand.
        slot: where the wanted operand stands.
    """
    found: float
    if kind == "Add":
        found = point - number
    elif kind == "Sub":
        found = number - point if slot else point + number
    elif kind == "Mul":
        found = point / number if number else np.nan
    else:
        found = np.nan if slot or not number else point * number
    with np.errstate(over="ignore"):
        found = float(np.float32(found))
    made = {"Add": found + number, "Mul": found * number, "Div": found / (number or 1.0)}
    result = made.get(kind, number - found if slot else found - number)
    return found if result == point else None


def numbers_of(graph: Graph, value: Value) -> tuple[float, ...] | None:
    """Return the first distinct numbers of a constant, also of one that is cast or moved; else None."""
    node = graph.node(value.node)
    while isinstance(node, Operator) and (node.traits.moving or node.op_type == "Cast") and not node.domain:
        operand = graph.operands(node.key)[0]
        if operand is None:
            return None
        value, node = operand, graph.node(operand.node)
    if not isinstance(node, Constant):
        return None
    array = graph.constant_value(value)
    if array is None or array.dtype.kind not in "biufV" or array.size > _LARGEST:
        return None
    numbers = np.unique(array.astype(np.float64))
    return tuple(float(n) for n in numbers[np.isfinite(numbers)][:_MOST])


_LARGEST = 4096
"""Elements of a constant above which its numbers are no points that anybody wrote down."""
