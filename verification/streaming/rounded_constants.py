"""Allows for constants that a target holds in a narrow type and the source multiplies with as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir import Graph, walk_operators
from ..compare import Yardstick
from ..conditioning import Rounding
from ..runners.runs import CallRecord
from ..sides import OutputRounding
from .targets import PiecesTarget


def literals_of(graph: Graph) -> list[float]:
    """Return the numbers by which operators of a graph scale values: their attributes, 1/sqrt of a width."""
    found: set[float] = set()
    for _, node in walk_operators(graph):
        values = [node.attribute(name) for name in node.attributes]
        found.update(value for value in values if isinstance(value, float))
        shapes = [t.shape for v in graph.operands(node.key) if v is not None and (t := graph.type_of(v))]
        widths = {shape[-1] for shape in shapes if shape and isinstance(shape[-1], int)}
        found.update(width**-0.5 for width in widths if width > 0)
    return sorted(found)


class WithRoundedConstants(Rounding):
    """The effect of rounding in a run of a source, and of what the target rounded once for all.

    `x * 0.088` in bfloat16 multiplies with 0.088 and rounds the result; a file states 0.08789.

    Args:
        rounding: the former.
        target: the target, after its run.
        outputs: names of the target's outputs.
    """

    def __init__(self, rounding: Rounding, target: PiecesTarget, outputs: Sequence[str]) -> None:
        self._rounding, self._target = rounding, target
        self._names, self._edges = list(outputs), target.calls
        self._moved = dict(target.moved)

    def output(self, index: int) -> Yardstick:
        """Return the yardstick of an output of the model."""
        return add_move(self._rounding.output(index), self._names[index : index + 1], self._moved)

    def entering(self, call: str, index: int) -> Yardstick:
        """Return the yardstick of an input of a module call in the whole model."""
        return add_move(self._rounding.entering(call, index), self._of(call, "inputs"), self._moved)

    def boundary(self, call: str, index: int) -> Yardstick:
        """Return the yardstick of an output of a module call in the whole model."""
        return add_move(self._rounding.boundary(call, index), self._of(call, "outputs"), self._moved)

    def alone(self, call: str, record: CallRecord) -> Callable[[int], Yardstick]:
        """Return the yardsticks, by index, of the outputs of a call that the target has just run alone."""
        own, moved = self._rounding.alone(call, record), dict(self._target.moved)
        return lambda index: add_move(own(index), self._of(call, "outputs"), moved)

    def _of(self, call: str, side: str) -> Sequence[str]:
        return self._edges.get(call, {}).get(side, ())


@dataclass(frozen=True, slots=True)
class WithMoves:
    """The effect of rounding on outputs, and of what the target rounded once for all.

    Attributes:
        rounding: the former.
        names: names of the target's outputs.
        moved: how far constants may move each.
    """

    rounding: OutputRounding
    names: Sequence[str]
    moved: Mapping[str, float]

    def output(self, index: int) -> Yardstick:
        """Return the yardstick of an output."""
        return add_move(self.rounding.output(index), self.names[index : index + 1], self.moved)


def add_move(own: Yardstick, names: Sequence[str], moved: Mapping[str, float]) -> Yardstick:
    """Return a yardstick that allows as much more as constants may move values of some names."""
    return replace(own, absolute_tolerance=max((moved.get(name, 0.0) for name in names), default=0.0))
