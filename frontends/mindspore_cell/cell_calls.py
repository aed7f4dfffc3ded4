"""Which Cell call each MindIR node belongs to, from the call boundaries that `markers` compiled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .mindir import Node, Program
from .recording import CellCall


@dataclass(frozen=True, slots=True)
class Marker:
    """A boundary: argument or result number `position` of a call of the Cell with id `cell`."""

    is_entry: bool
    cell: int
    position: int

    @staticmethod
    def of(node: Node) -> Marker | None:
        """The marker that a node is, or None."""
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


def attribute_calls(program: Program, calls: Sequence[CellCall], positions: Sequence[int]) -> Attribution:
    """Find the innermost call of every node.

    A value lives in the call that is current where it was made: an entry marker moves it into a call, an exit
    marker out to the caller. A node belongs to the innermost call that its operands live in; one that has
    none (it reads only parameters and constants) to the innermost that all its users share.

    Args:
        program: with markers; without, every node that has no operand in a call is the root's.
        calls: the recorded calls.
        positions: argument number of each graph input.
    """
    return _Walk(program, calls).run(positions)


class _Walk:
    def __init__(self, program: Program, calls: Sequence[CellCall]) -> None:
        self.program, self.calls = program, calls
        self.depth = [0] * len(calls)
        self.calls_of: dict[int, list[int]] = {}  # by id of the Cell
        for number, call in enumerate(calls):
            self.calls_of.setdefault(id(call.cell), []).append(number)
            self.depth[number] = 0 if call.parent is None else self.depth[call.parent] + 1
        self.lives_in: dict[str, int | None] = {}
        self.source: dict[str, Any] = {}
        self.taken: set[tuple[int, int]] = set()
        self.found = Attribution()

    def run(self, positions: Sequence[int]) -> Attribution:
        for (name, _), position in zip(self.program.inputs, positions, strict=False):
            self.lives_in[name], self.source[name] = 0, ("input", position)
        for node in self.program.nodes:
            if node.op != "Constant":
                self._visit(node)
        self._settle()
        return self.found

    def _visit(self, node: Node) -> None:
        marker = Marker.of(node)
        homes = [h for h in (self.lives_in.get(i) for i in node.inputs) if h is not None]
        home = max(homes, key=lambda h: (self.depth[h], h), default=None)
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
        """The recorded call that an entry marker begins: same Cell, same caller, same argument, in order."""
        if home is not None and id(self.calls[home].cell) == marker.cell and self.calls[home].parent is None:
            self.taken.add((home, marker.position))  # the outermost call, whose caller is nobody
            return home
        candidates = self.calls_of.get(marker.cell, [])
        free = [n for n in candidates if (n, marker.position) not in self.taken] or candidates
        same_caller = [n for n in free if home is None or self.calls[n].parent == home]
        same_source = [
            n for n in same_caller if source is not None and self._source(n, marker.position) == source
        ]
        best = same_source or same_caller or free
        if not best:
            return home
        self.taken.add((best[0], marker.position))
        return best[0]

    def _source(self, number: int, position: int) -> Any:
        sources = self.calls[number].sources
        return sources[position] if position < len(sources) else None

    def _left(self, marker: Marker, home: int | None) -> int | None:
        """The call that an exit marker ends: the innermost of its Cell around the value."""
        at = home
        while at is not None:
            if id(self.calls[at].cell) == marker.cell:
                return at
            at = self.calls[at].parent
        free = self.calls_of.get(marker.cell, [])
        return (
            next((n for n in free if (n, -1 - marker.position) not in self.taken), None)
            if home is None
            else None
        )

    def _settle(self) -> None:
        """Give nodes without operands in a call the innermost call that all their users share."""
        users: dict[str, list[int]] = {}
        for node in reversed(self.program.nodes):
            if node.op == "Constant":
                continue
            if node.name not in self.found.of_node:
                shared: int | None = None
                for number in users.get(node.name, []):
                    shared = number if shared is None else self._common(shared, number)
                self.found.of_node[node.name] = shared or 0
            own = self.found.of_node[node.name]
            marker = Marker.of(node)
            if marker is not None and marker.is_entry:
                own = self.calls[own].parent or 0
            if node.op not in ("UpdateState", "Depend"):
                for name in node.inputs:
                    users.setdefault(name, []).append(own)

    def _common(self, first: int, second: int) -> int:
        while first != second:
            if self.depth[first] < self.depth[second]:
                first, second = second, first
            first = self.calls[first].parent or 0
            if self.depth[first] == 0 and self.depth[second] == 0:
                return 0
        return first
