"""keep-rows-apart: a softmax that may meet a row of -inf is one that MindSpore's CPU kernel gets right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....ir import Array, Graph, Operator, Parameter, Value
from ....ir.analysis.evaluation import evaluate
from ....passes.base import Change, Pass
from ....passes.places import Places
from ..operators import DOMAIN

_STEPS = 16
"""Maximum number of operators between a mask and the softmax, and between a buffer and the mask."""

_LARGEST = 1 << 22
"""Elements of a mask that is looked into."""

_KEEPING = frozenset(("Add", "Sub", "Mul", "Div", "Min", "Max", "Cast", "Identity", "Expand"))
"""Operators through which a mask of -inf goes on, whatever scores it is added to."""


@dataclass(frozen=True)
class KeepRowsApart(Pass):
    """Mark the softmaxes that may meet a row whose elements are all -inf.

    What it does:
        Makes a float32 Softmax over the last axis a `regraft.mindspore.Softmax` where a mask may hide a whole
        row of what it is given. That is written as a function of the file's own, which takes another way on
        CPU.

    Why:
        MindSpore's CPU kernel gives zeros for every row behind one of -inf, whose own result is NaN. A mask
        of lengths hides whole rows of what is padded.

    Leaves alone:
        A net that was MindSpore's. Masks that are known and hide no whole row, as causal ones; masks that are
        inputs, of numbers that are added. Any other axis or element type, whose kernels are right.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %m = input "m" : bool[N,4]
        ...   %0 = const -inf : f32[]
        ...   %1 = Where(%m, %x, %0) : f32[N,4]
        ...   %y = Softmax(%1) {axis=-1} : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in KeepRowsApart().run(graph):
        ...     print(change)
        MS122 a fully hidden row does not affect other rows on CPU - at `Softmax`
    """

    name: ClassVar[str] = "keep-rows-apart"
    codes: ClassVar[dict[str, str]] = {"MS122": "a fully hidden row does not affect other rows on CPU"}

    def run(self, graph: Graph) -> list[Change]:
        """Mark; see the class."""
        if graph.origin.framework == "mindspore":
            return []
        rows = _HiddenRows(graph)
        found = [n for n in graph.operators() if _is_over_rows(n) and rows.may_be(graph.operands(n.key)[0])]
        places = Places(graph)
        changes = [Change("MS122", self.codes["MS122"], places.of(graph, node.key)) for node in found]
        for node in found:
            node.domain = DOMAIN
        return changes


def _is_over_rows(node: Operator) -> bool:
    type_ = node.types[0]
    if node.qualified_name != "Softmax" or type_ is None or type_.shape is None:
        return False
    return type_.dtype == "float32" and node.int("axis") in (-1, len(type_.shape) - 1)


class _HiddenRows:
    """Whether rows of values of a graph may be -inf, from end to end.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.arrays: dict[Value, Array | None] = {}

    def may_be(self, value: Value | None, steps: int = _STEPS) -> bool:
        """Whether some row may be all -inf: a mask that was computed is taken for one that hides it."""
        if value is None or not steps:
            return False
        array = self._known(value)
        if array is not None:
            return _has_whole_row(array == -np.inf)
        node = self.graph.producer(value)
        if not isinstance(node, Operator):
            return False
        operands = self.graph.operands(node.key)
        if node.qualified_name == "Where":
            return self._may_choose(operands, steps)
        keeps = node.traits.moving or node.qualified_name in _KEEPING
        return keeps and any(self.may_be(operand, steps - 1) for operand in operands)

    def _may_choose(self, operands: list[Value | None], steps: int) -> bool:
        """Whether a Where may give a row of -inf."""
        condition, *branches = operands
        known = None if condition is None else self._known(condition)
        for branch, taken in zip(branches, (known, None if known is None else ~known), strict=True):
            array = None if branch is None else self._known(branch)
            if array is None:
                if self.may_be(branch, steps - 1):
                    return True
            elif (array == -np.inf).any() and (taken is None or _has_whole_row(taken)):
                return True
        return False

    def _known(self, value: Value, steps: int = _STEPS) -> Array | None:
        """Return the values of a constant or a buffer, and of what is computed of such alone in few steps."""
        if value not in self.arrays:
            self.arrays[value] = self._evaluate(value, steps)
        return self.arrays[value]

    def _evaluate(self, value: Value, steps: int) -> Array | None:
        node = self.graph.producer(value)
        if isinstance(node, Parameter) and node.is_buffer and node.data.load is not None:
            return node.data.numpy()
        if not isinstance(node, Operator) or not steps or node.domain or value.output or node.traits.random:
            return self.graph.constant_value(value)
        arrays: list[Array | None] = []
        for operand in self.graph.operands(node.key):
            known = None if operand is None else self._known(operand, steps - 1)
            if operand is not None and (known is None or known.size > _LARGEST):
                return None
            arrays.append(known)
        return evaluate(node, arrays) if any(a is not None for a in arrays) else None


def _has_whole_row(hidden: Array) -> bool:
    return bool(hidden.all(axis=-1).any() if hidden.ndim else hidden)
