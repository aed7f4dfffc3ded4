"""Prints, dumps and summaries that are kept: each stands on a value of its Cell that is read later."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ir import Builder, Graph, Value
from ...arguments import is_list

KINDS = (
    "Print",
    "TensorDump",
    "TensorSummary",
    "ScalarSummary",
    "ImageSummary",
    "HistogramSummary",
    "Assert",
)
"""Primitives that can stand in MindSpore source."""


@dataclass(slots=True)
class _Told:
    """One of them: its primitive, its call, its place, texts and numbers with None for each value, values."""

    kind: str
    call: int | None
    place: str
    said: list[Any]
    values: list[Value]


class Telling:
    """What a program tells, in order, and where that is put.

    Args:
        graph: that is built.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._told: list[_Told] = []
        self._counts: Counter[str] = Counter()
        self._lost = 0

    def add(self, kind: str, operands: Sequence[Any], builder: Builder, place: str) -> None:
        """Note one; one in a branch or a loop is left out, and so is one of nothing that can be written."""
        values: list[Value] = []
        try:
            said = [_said(operand, values) for operand in operands]
        except TypeError:
            said = []
        if builder.graph is not self._graph or not said or kind not in KINDS:
            self._lost += 1
            return
        self._told.append(_Told(kind, builder.call, place, said, values))

    def settle(self) -> str:
        """Put all of them into the graph; returns a note on what was kept and what was not."""
        for told in self._told:
            held = self._value_to_stand_on(told)
            if held is None:
                self._lost += 1
                continue
            self._counts[told.kind] += 1
            self._stand(told, held)
        kept = ", ".join(f"{count} {kind}" for kind, count in self._counts.items())
        lost = f"{self._lost} left out: they are in a branch or a loop, or nothing is computed after them"
        return "; ".join(filter(None, (f"kept: {kept}" if kept else "", lost if self._lost else "")))

    def _value_to_stand_on(self, told: _Told) -> Value | None:
        """A value that was told of, or that one was computed from, which something else reads too."""
        behind = self._behind(told.values)
        waiting, seen = list(told.values), set(told.values)
        while waiting:
            value = waiting.pop(0)
            if self._readers(value, behind) or self._graph.is_output(value):
                return value
            for source in self._graph.operands(value.node) if self._is_operator(value) else ():
                if source is not None and source not in seen and self._is_data(source):
                    seen.add(source)
                    waiting.append(source)
        return None

    def _stand(self, told: _Told, held: Value) -> None:
        graph = self._graph
        behind = self._behind([*told.values, held])
        b = Builder(graph)
        with b.inside(told.call, told.place):
            made = b.op("regraft.Tell", held, *told.values, kind=told.kind, said=json.dumps(told.said))
        inside = [user for user, _ in self._readers(held, behind) if self._is_within(user, told.call)]
        whole = self._is_made_within(held, told.call) or not inside
        kept = {*behind, made.node}
        outputs = list(graph.outputs)
        if not whole:
            kept |= {user for user, _ in graph.users(held) if user not in inside}
        graph.replace_uses(held, made, except_in=kept)
        if not whole:
            graph.outputs = outputs
        for later in self._told:
            if later is not told:
                later.values = [made if v == held else v for v in later.values]

    def _behind(self, values: Sequence[Value]) -> set[int]:
        """The nodes that values are computed from, theirs included."""
        found: set[int] = set()
        waiting = [v.node for v in values]
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting += self._graph.flow.pred[key]
        return found

    def _readers(self, value: Value, behind: set[int]) -> list[tuple[int, int]]:
        return [(user, slot) for user, slot in self._graph.users(value) if user not in behind]

    def _is_operator(self, value: Value) -> bool:
        return hasattr(self._graph.node(value.node), "op_type")

    def _is_data(self, value: Value) -> bool:
        return self._is_operator(value) or value.node in self._graph.inputs

    def _is_within(self, key: int, call: int | None) -> bool:
        return call in self._graph.modules.ancestors(getattr(self._graph.node(key), "call", None))

    def _is_made_within(self, value: Value, call: int | None) -> bool:
        return self._is_operator(value) and self._is_within(value.node, call)


def _said(found: Any, values: list[Value]) -> Any:
    """An argument as JSON, None for a value, which is added to `values`.

    Raises:
        TypeError: for one that cannot be written.
    """
    if isinstance(found, Value):
        values.append(found)
        return None
    if is_list(found):
        return [_said(item, values) for item in found]
    if isinstance(found, np.ndarray) and found.size == 1:
        return found.reshape(()).item()
    if isinstance(found, (str, bool, int, float)):
        return found
    raise TypeError(found)
