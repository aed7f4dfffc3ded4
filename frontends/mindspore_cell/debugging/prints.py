"""Keeps prints, dumps and summaries: each stands on a value of its Cell that a later operator reads."""

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
class _Print:
    """One print: its primitive, call and place, texts and numbers (None for each value), and values."""

    kind: str
    call: int | None
    place: str
    parts: list[Any]
    values: list[Value]


class KeptPrints:
    """The prints of a program, in order, and their places in its graph.

    Args:
        graph: the graph under construction.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._prints: list[_Print] = []
        self._counts: Counter[str] = Counter()
        self._lost = 0

    def add(self, kind: str, operands: Sequence[Any], builder: Builder, place: str) -> None:
        """Record one; leave out one in a branch or a loop, and one without an operand that can be written."""
        values: list[Value] = []
        try:
            parts = [_as_json(operand, values) for operand in operands]
        except TypeError:
            parts = []
        if builder.graph is not self._graph or not parts or kind not in KINDS:
            self._lost += 1
            return
        self._prints.append(_Print(kind, builder.call, place, parts, values))

    def settle(self) -> str:
        """Put all of them into the graph; return a note on the kept and the omitted ones."""
        for each in self._prints:
            held = self._value_to_stand_on(each)
            if held is None:
                self._lost += 1
                continue
            self._counts[each.kind] += 1
            self._stand(each, held)
        kept = ", ".join(f"{count} {kind}" for kind, count in self._counts.items())
        lost = f"{self._lost} left out: they are in a branch or a loop, or nothing is computed after them"
        return "; ".join(filter(None, (f"kept: {kept}" if kept else "", lost if self._lost else "")))

    def _value_to_stand_on(self, each: _Print) -> Value | None:
        """Return a printed value, or a source of one, that another operator reads too."""
        behind = self._behind(each.values)
        waiting, seen = list(each.values), set(each.values)
        while waiting:
            value = waiting.pop(0)
            if self._readers(value, behind) or self._graph.is_output(value):
                return value
            for source in self._graph.operands(value.node) if self._is_operator(value) else ():
                if source is not None and source not in seen and self._is_data(source):
                    seen.add(source)
                    waiting.append(source)
        return None

    def _stand(self, each: _Print, held: Value) -> None:
        graph = self._graph
        behind = self._behind([*each.values, held])
        b = Builder(graph)
        with b.inside(each.call, each.place):
            made = b.op("regraft.Print", held, *each.values, kind=each.kind, parts=json.dumps(each.parts))
        inside = [user for user, _ in self._readers(held, behind) if self._is_within(user, each.call)]
        whole = self._is_made_within(held, each.call) or not inside
        kept = {*behind, made.node}
        outputs = list(graph.outputs)
        if not whole:
            kept |= {user for user, _ in graph.users(held) if user not in inside}
        graph.replace_uses(held, made, except_in=kept)
        if not whole:
            graph.outputs = outputs
        for later in self._prints:
            if later is not each:
                later.values = [made if v == held else v for v in later.values]

    def _behind(self, values: Sequence[Value]) -> set[int]:
        """Return the nodes from which values are computed, including their own."""
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


def _as_json(found: Any, values: list[Value]) -> Any:
    """Return an argument as JSON, None for a value, which is added to `values`.

    Raises:
        TypeError: for an argument that cannot be written.
    """
    if isinstance(found, Value):
        values.append(found)
        return None
    if is_list(found):
        return [_as_json(item, values) for item in found]
    if isinstance(found, np.ndarray) and found.size == 1:
        return found.reshape(()).item()
    if isinstance(found, (str, bool, int, float)):
        return found
    raise TypeError(found)
