"""Assigns each MindIR node to its Cell call, by the call boundaries that `markers` compiled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .mindir import Function, Node, Program
from .recording import CellCall


@dataclass(frozen=True, slots=True)
class Marker:
    """A boundary: argument or result number `position` of a call of the Cell with id `cell`."""

    is_entry: bool
    cell: int
    position: int

    @staticmethod
    def of(node: Node) -> Marker | None:
        """Return the marker that a node is, or None."""
        text = node.attributes.get("regraft") if node.op == "Identity" else None
        if text is None:
            return None
        side, cell, position = str(text).split(":")
        return Marker(side == "entry", int(cell), int(position))


@dataclass(slots=True)
class Attribution:
    """The call of every node; a marker's own is the call whose boundary it is.

    Attributes:
        of_node: node name -> number of the call.
    """

    of_node: dict[str, int] = field(default_factory=dict)


class CallFinder:
    """Finds the innermost call of every node.

    A value lives in the call that is current where it was made: an entry marker moves it into a call, an exit
    marker out to the caller. A node belongs to the innermost call that its operands live in; one that has
    none (it reads only parameters and constants) to the innermost that all its users share.

    A function is walked each time that it runs, and all of it is in the call that runs it. Of the calls in a
    branch that the recorded run did not take, or in a loop's body, which it ran several times, the boundaries
    alone tell: each that no recorded call is left for begins a new one.

    Args:
        calls: the recorded calls.
        add_call: adds one to them; None for straight-line programs, of which all are recorded.
    """

    def __init__(self, calls: Sequence[CellCall], add_call: Callable[[int, int], bool] | None = None) -> None:
        self.calls, self.add_call = calls, add_call
        self.taken: set[tuple[int, int]] = set()
        self._depths: list[int] = []
        self._calls_of: dict[int, list[int]] = {}
        self._in_program: set[tuple[int, int]] = set()

    def depth(self, number: int) -> int:
        """Return how many calls there are around a call."""
        self._count()
        return self._depths[number]

    def calls_of(self, cell: int) -> list[int]:
        """Return the numbers of the calls of the Cell with that id, in order."""
        self._count()
        return self._calls_of.get(cell, [])

    def _count(self) -> None:
        for call in self.calls[len(self._depths) :]:
            self._calls_of.setdefault(id(call.cell), []).append(len(self._depths))
            self._depths.append(0 if call.parent is None else self._depths[call.parent] + 1)

    def is_entered(self, number: int) -> bool:
        """Whether the program itself, in no function, meets a boundary of that call, or it has none."""
        call = self.calls[number]
        return not call.sources or any((number, p) in self._in_program for p in range(len(call.sources)))

    def attribute_program(self, program: Program, positions: Sequence[int]) -> Attribution:
        """Return the call of every node of a program; `positions` are the argument numbers of its inputs."""
        walk = _Walk(self, 0, is_nested=False)
        for (name, _), position in zip(program.inputs, positions, strict=False):
            walk.lives_in[name], walk.source[name] = 0, ("input", position)
        found = walk.run(program.nodes)
        self._in_program = set(self.taken)
        return found

    def attribute_function(self, function: Function, base: int) -> Attribution:
        """Return the call of every node of a function that runs in the call `base`."""
        walk = _Walk(self, base, is_nested=True)
        walk.lives_in.update({name: base for name, type_ in function.inputs if type_ is not None})
        return walk.run(function.nodes)


class _Walk:
    def __init__(self, finder: CallFinder, base: int, *, is_nested: bool) -> None:
        self.finder = finder
        self.calls, self.taken, self.add_call = finder.calls, finder.taken, finder.add_call
        self.depth, self.base, self.is_nested = finder.depth, base, is_nested
        self.lives_in: dict[str, int | None] = {}
        self.source: dict[str, Any] = {}
        self.found = Attribution()

    def run(self, nodes: Sequence[Node]) -> Attribution:
        for node in nodes:
            if node.op != "Constant":
                self._visit(node)
        self._settle(nodes)
        if self.base:
            for name, number in self.found.of_node.items():
                if self._common(number, self.base) != self.base:
                    self.found.of_node[name] = self.base
        return self.found

    def _visit(self, node: Node) -> None:
        if node.op == "UpdateState":
            return  # it orders effects, wherever they are
        marker = Marker.of(node)
        homes = [h for h in (self.lives_in.get(i) for i in node.inputs) if h is not None]
        home = max(homes, key=lambda h: (self.depth(h), h), default=None)
        if marker is None:
            self.lives_in[node.name] = home
            if home is not None:
                self.found.of_node[node.name] = home
            return
        value = node.inputs[0]
        if marker.is_entry:
            number = self._entered(marker, home, self.source.get(value))
            if number is not None:
                self.found.of_node[node.name] = number
            self.lives_in[node.name], self.source[node.name] = number, self.source.get(value)
            return
        number = self._left(marker, home)
        if number is None:
            self.lives_in[node.name] = home
            return
        self.found.of_node[node.name] = number
        parent = self.calls[number].parent
        self.lives_in[node.name] = 0 if parent is None else parent
        self.source[node.name] = ("call", number)

    def _entered(self, marker: Marker, home: int | None, source: Any) -> int | None:
        """Return the recorded call of an entry marker: same Cell, caller and argument, in order."""
        if home is not None and id(self.calls[home].cell) == marker.cell and self.calls[home].parent is None:
            self.taken.add((home, marker.position))  # the outermost call, whose caller is nobody
            return home
        if home is None and self.is_nested:
            home = self.base
        candidates = self.finder.calls_of(marker.cell)
        free = [n for n in candidates if (n, marker.position) not in self.taken] or candidates
        same_caller = [n for n in free if home is None or self.calls[n].parent == home]
        same_source = [
            n for n in same_caller if source is not None and self._source(n, marker.position) == source
        ]
        best = same_source or same_caller or free
        if self.add_call is not None and home is not None and (not same_caller or free is candidates):
            number = len(self.calls)
            best = [number] if self.add_call(marker.cell, home) else []
        if not best:
            return home
        self.taken.add((best[0], marker.position))
        return best[0]

    def _source(self, number: int, position: int) -> Any:
        sources = self.calls[number].sources
        return sources[position] if position < len(sources) else None

    def _left(self, marker: Marker, home: int | None) -> int | None:
        """Return the call that an exit marker ends: the innermost of its Cell around the value."""
        at = home
        while at is not None:
            if id(self.calls[at].cell) == marker.cell:
                return at
            at = self.calls[at].parent
        free = self.finder.calls_of(marker.cell)
        return (
            next((n for n in free if (n, -1 - marker.position) not in self.taken), None)
            if home is None
            else None
        )

    def _settle(self, nodes: Sequence[Node]) -> None:
        """Give nodes without operands in a call the innermost call that all their users share."""
        users: dict[str, list[int]] = {}
        for node in reversed(nodes):
            if node.op == "Constant":
                continue
            if node.name not in self.found.of_node:
                shared: int | None = None
                for number in users.get(node.name, []):
                    shared = number if shared is None else self._common(shared, number)
                self.found.of_node[node.name] = shared or self.base
            own = self.found.of_node[node.name]
            marker = Marker.of(node)
            if marker is not None and marker.is_entry:
                own = self.calls[own].parent or 0
            if node.op not in ("UpdateState", "Depend"):
                for name in node.inputs:
                    users.setdefault(name, []).append(own)

    def _common(self, first: int, second: int) -> int:
        while first != second:
            if self.depth(first) < self.depth(second):
                first, second = second, first
            first = self.calls[first].parent or 0
            if self.depth(first) == 0 and self.depth(second) == 0:
                return 0
        return first
