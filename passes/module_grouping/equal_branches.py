"""Finds parts of a flat graph that repeat one computation with the same weights: siamese branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir import Constant, Graph, Operator, Parameter, Value
from .chains import Step

_LAYERS = 2
"""Least number of layers with weights for which a repeated part becomes a module."""


@dataclass(eq=False)
class Branch:
    """One part of a graph that runs several times.

    Attributes:
        runs: the steps of each run, those of one place in the part at one place in every run.
    """

    runs: list[list[Step]]


def find_branches(graph: Graph, steps: Sequence[Step]) -> list[Branch]:
    """Return the parts that run several times with the same weights, in dataflow order.

    A part starts at layers that share all their weights. It grows, in every run alike, to the producers of
    their values and to the users of their results. No part has other steps between two of its own.

    Args:
        graph: a flat graph.
        steps: its steps in dataflow order.
    """
    sharing: dict[tuple[Value, ...], list[Step]] = {}
    for step in steps:
        if step.shared and (weights := _weights(graph, step)):
            sharing.setdefault(weights, []).append(step)
    search = _Search(graph, steps)
    found: list[Branch] = []
    for anchors in sharing.values():
        if len(anchors) < 2 or any(search.is_taken(step) for step in anchors):
            continue
        runs = search.grow(anchors)
        if runs is not None:
            found.append(Branch(runs))
    order = {id(step): at for at, step in enumerate(steps)}
    return sorted(found, key=lambda branch: min(order[id(step)] for step in branch.runs[0]))


def _weights(graph: Graph, step: Step) -> tuple[Value, ...]:
    operands = [v for key in step.operators for v in graph.operands(key) if v is not None]
    return tuple(v for v in operands if isinstance(graph.node(v.node), Parameter))


class _Search:
    """Grows parts from their anchors; a step is in at most one part."""

    def __init__(self, graph: Graph, steps: Sequence[Step]) -> None:
        self._graph = graph
        self._order = {id(step): at for at, step in enumerate(steps)}
        self._producer = {value: step for step in steps for value in step.outputs}
        self._users: dict[Value, list[Step]] = {}
        for step in steps:
            for value in step.inputs:
                self._users.setdefault(value, []).append(step)
        self._taken: set[int] = set()

    def is_taken(self, step: Step) -> bool:
        """Whether a step is in a part already."""
        return id(step) in self._taken

    def grow(self, anchors: Sequence[Step]) -> list[list[Step]] | None:
        """Return the runs of the part around anchors, one anchor a run; None where there is no such part."""
        rows = [list(anchors)]
        seen = {id(step) for step in anchors}
        if not self._alike(rows[0]):
            return None
        at = 0
        while at < len(rows):
            for row in self._beside(rows[at]):
                apart = len({id(s) for s in row}) == len(row)
                if apart and not any(id(s) in seen or self.is_taken(s) for s in row) and self._alike(row):
                    rows.append(row)
                    seen.update(id(s) for s in row)
            at += 1
        rows.sort(key=lambda row: self._order[id(row[0])])
        runs = [list(run) for run in zip(*rows, strict=True)]
        layers = sum(step.module is not None and step.shared for step in runs[0])
        if layers < _LAYERS or not all(self._fits(a, b) for a in runs for b in runs if a is not b):
            return None
        if not all(map(self._is_convex, runs)) or not self._is_wired_alike(runs):
            return None
        self._taken |= seen
        return runs

    def _beside(self, row: list[Step]) -> list[list[Step]]:
        """Return rows of corresponding steps next to a row: producers of its operands, and users."""
        found: list[list[Step]] = []
        for values in zip(*(s.inputs for s in row), strict=True):
            producers = [self._producer[v] for v in values if v in self._producer]
            if len(producers) == len(row):
                found.append(producers)
        for values in zip(*(s.outputs for s in row), strict=True):
            users = [self._users.get(v, []) for v in values]
            if len({len(u) for u in users}) == 1:
                found += [list(steps) for steps in zip(*users, strict=True)]
        return found

    def _alike(self, row: list[Step]) -> bool:
        """Whether steps compute the same function: operators, attributes, constants and weights."""
        return len({self._form(step) for step in row}) == 1

    def _form(self, step: Step) -> object:
        """Return what a step computes of its inputs, equal for steps that `_alike` accepts."""
        graph = self._graph
        places = {v: at for at, v in enumerate(step.inputs)}
        own = {key: at for at, key in enumerate(step.operators)}
        form: list[object] = [len(step.outputs)]
        for key in step.operators:
            node = graph.operator(key)
            operands: list[object] = []
            for value in graph.operands(key):
                source = None if value is None else graph.node(value.node)
                if value is None or isinstance(source, Parameter):
                    operands.append(value)
                elif isinstance(source, Constant):
                    operands.append(_constant(source))
                elif value.node in own:
                    operands.append(("own", own[value.node], value.output))
                else:
                    operands.append(("input", places[value]))
            form.append((node.qualified_name, _attributes(node), tuple(operands)))
        return tuple(form)

    def _fits(self, one: list[Step], other: list[Step]) -> bool:
        """Whether two runs share no step, and neither reads the other's results."""
        inside = {id(s) for s in one}
        return not any(
            id(s) in inside or any(id(self._producer.get(v)) in inside for v in s.inputs) for s in other
        )

    def _is_convex(self, run: list[Step]) -> bool:
        """Whether nothing outside a run lies between two of its steps."""
        inside = {id(s) for s in run}
        stack = [u for s in run for v in s.outputs for u in self._users.get(v, []) if id(u) not in inside]
        seen: set[int] = set()
        last = max(self._order[id(s)] for s in run)
        while stack:
            step = stack.pop()
            if id(step) in seen or self._order[id(step)] > last:
                continue
            seen.add(id(step))
            for user in (u for v in step.outputs for u in self._users.get(v, [])):
                if id(user) in inside:
                    return False
                stack.append(user)
        return True

    def _is_wired_alike(self, runs: list[list[Step]]) -> bool:
        """Whether the steps of all runs are connected alike, and read as many values from outside."""
        return len({self._wiring(run) for run in runs}) == 1

    def _wiring(self, run: list[Step]) -> object:
        """Return how the steps of a run are connected, and which values enter and leave it."""
        place = {id(s): at for at, s in enumerate(run)}
        entering: dict[Value, int] = {}
        rows: list[object] = []
        for step in run:
            row: list[object] = []
            for value in step.inputs:
                source = self._producer.get(value)
                if source is not None and id(source) in place:
                    row.append((place[id(source)], source.outputs.index(value)))
                else:
                    row.append(("entering", entering.setdefault(value, len(entering))))
            rows.append(tuple(row))
        leaving = [
            (at, number)
            for at, step in enumerate(run)
            for number, value in enumerate(step.outputs)
            if self._leaves(value, place)
        ]
        return (tuple(rows), tuple(leaving))

    def _leaves(self, value: Value, place: dict[int, int]) -> bool:
        return self._graph.is_output(value) or any(id(u) not in place for u in self._users.get(value, []))


def _constant(node: Constant) -> object:
    array = np.ascontiguousarray(node.data.numpy())
    return (array.dtype.str, array.shape, array.tobytes())


def _attributes(node: Operator) -> object:
    return tuple((name, repr(value)) for name, value in sorted(node.attributes.items()))
