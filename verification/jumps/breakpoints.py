"""Draws inputs at which functions jump: whole numbers, halves, thresholds that a graph states, equal ones.

Random numbers never are a half or a threshold, where rounding to even and rounding up, or `>` and `>=`, part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ...ir import Graph, Input, Operator, Value
from ...ir.analysis.jumps import find_jumps, points_of_inputs
from ..compare import kind_of
from ..inputs import is_index, make_inputs
from ..meaning import with_meaning

_GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.25, 0.75, 4.0, 0.125, 8.0)
_USUAL = tuple(sorted({sign * number for number in _GRID for sign in (1.0, -1.0)}))
"""Numbers that float has exactly, also those of small sums and products of them."""

_SMALL = tuple(range(-7, 8))

_BORDERS = {"int8": (-128, 127), "uint8": (0, 255)}
"""Element type -> the numbers beyond which its arithmetic turns round."""

_FEW_POINTS = 8
"""Points up to which numbers between them are drawn too."""

_SHARE = 0.75
"""Share of elements that are such numbers; the others are random, and show how far rounding moves results."""

_EQUAL = 3
"""One in so many elements of an input is that of an input before it, so that comparisons meet equal ones."""


class Breakpoints:
    """The numbers of a graph's inputs at which its functions jump.

    Args:
        graph: the source's graph.
        target: the target's graph, whose numbers count too; None where it has none.

    Attributes:
        any: whether there is a jump, or an input of integers that may be any.
    """

    def __init__(self, graph: Graph, target: Graph | None = None) -> None:
        self._graph = graph
        jumps, self._points = find_jumps(graph), points_of_inputs(graph)
        if target is not None:
            jumps = [*jumps, *find_jumps(target)]
            found = points_of_inputs(target)
            for own, theirs in zip(graph.input_nodes(), target.input_nodes(), strict=False):
                points = (*self._points.get(own.name, ()), *found.get(theirs.name, ()))
                self._points[own.name] = tuple(sorted(set(points), key=abs))
        self._meeting = any(jump.other is not None and not jump.points for jump in jumps)
        self.any = bool(jumps)
        self.any = self.any or any(
            "int" in node.type.dtype and self._numbers(node) is not None for node in graph.input_nodes()
        )
        self._stated = {number for points in self._points.values() for number in points}
        self._drawn: Mapping[str, np.ndarray] | None = None

    def draw(self, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray] | None:
        """Return inputs of which most elements are such numbers; None where no input can be.

        Args:
            sizes: symbol -> size.
            seed: the same seed gives the same inputs.
        """
        inputs, done = make_inputs(self._graph, sizes, seed), set[str]()
        random = np.random.default_rng([seed, len(inputs)])
        for node in self._graph.input_nodes():
            numbers = self._numbers(node)
            if numbers is None or node.name in self._graph.origin.ranges:
                continue
            own = inputs[node.name]
            inputs[node.name] = new = _mixed(own, numbers, random)
            alike = [a for name, a in inputs.items() if name in done and _are_alike(a, own)]
            if self._meeting and alike:
                new.reshape(-1)[1::_EQUAL] = alike[-1].reshape(-1)[1::_EQUAL]
            done.add(node.name)
        self._drawn = with_meaning(self._graph, inputs) if done else None
        return None if self._drawn is None else dict(self._drawn)

    def kept(self, inputs: Mapping[str, np.ndarray]) -> Sequence[float]:
        """Return the numbers of inputs that no rounding has made, which stay as they are to measure it."""
        return sorted({*self._stated, *(_USUAL if self.has_drawn(inputs) else ())})

    def has_drawn(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether inputs are those that were drawn here."""
        drawn = self._drawn or {}
        return bool(drawn) and all(
            name in inputs and np.array_equal(inputs[name], array) for name, array in drawn.items()
        )

    def _numbers(self, node: Input) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return the numbers at jumps and further ones for an input; None where they may have a meaning."""
        dtype, points = node.type.dtype, self._points.get(node.name, ())
        if "float" in dtype:
            between = [(a + b) / 2 for a, b in pairwise(sorted(points)) if len(points) <= _FEW_POINTS]
            return points, (*between, *_USUAL)
        if "int" not in dtype or is_index(self._graph, node) or not _is_counted_with(self._graph, node):
            return None
        low = 0 if dtype.startswith("u") else -np.inf
        whole = [p for p in points if p == int(p) and low <= p < 2**31]
        return [*_BORDERS.get(dtype, ()), *whole], [n for n in _SMALL if n >= low]


def _are_alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _mixed(
    array: np.ndarray, numbers: tuple[Sequence[float], Sequence[float]], random: np.random.Generator
) -> np.ndarray:
    """Return a new array with such numbers at most places, and at all of its first half.

    Those at jumps, the smallest first, take turns with the further ones.
    """
    stated, further = numbers
    flat = array.reshape(-1).copy()
    chosen = random.random(flat.size) < _SHARE if kind_of(array) == "f" else np.ones(flat.size, bool)
    chosen[: (flat.size + 1) // 2] = True
    found = np.empty(int(np.count_nonzero(chosen)))
    found[::2] = np.resize(np.array([*stated, *further], np.float64), found[::2].size)
    found[1::2] = np.resize(random.permutation(np.array(further, np.float64)), found[1::2].size)
    flat[chosen] = found.astype(array.dtype)
    return flat.reshape(array.shape)


_NO_INDEX = frozenset(["ReduceMax", "ReduceMin", "ReduceSum"])


_UNSAFE = frozenset(["BitShift", "Div", "Mod", "Pow"])
"""Operators whose second operand is no number below one: runtimes end the process at a division by 0."""


def _is_counted_with(graph: Graph, node: Input) -> bool:
    """Whether an input of integers meets arithmetic alone, so that it is no index, size or length."""
    stack, seen = [Value(node.key)], {Value(node.key)}
    while stack:
        value = stack.pop()
        for key, slot in graph.users(value):
            user = graph.node(key)
            if not isinstance(user, Operator):
                continue
            traits = user.traits
            moved = traits.moving and (slot == 0 or user.op_type == "Concat")
            if (
                (slot and user.op_type in _UNSAFE)
                or user.domain
                or not (traits.elementwise or moved or user.op_type in _NO_INDEX)
            ):
                return False
            type_ = user.types[0] if user.types else None
            result = Value(key)
            if type_ is not None and "int" in type_.dtype and result not in seen:
                seen.add(result)
                stack.append(result)
    return True
