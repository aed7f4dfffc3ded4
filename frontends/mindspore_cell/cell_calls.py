"""Assigns each MindIR node to its Cell call, by the call boundaries that `markers` compiled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


@dataclass(slots=True, eq=False)
class _Entry:
    """The entry markers of one call.

    Attributes:
        cell: id of the Cell.
        around: the entry of the call around it, as far as the program shows it.
        values: position of an argument -> the value that enters.
        joined: the entry that took this one's markers over.
        number: of the call, once it is known.
    """

    cell: int
    around: _Entry | None
    values: dict[int, str]
    joined: _Entry | None = None
    number: int | None = None

    def whole(self) -> _Entry:
        """Return the entry that has all markers of this one's call."""
        return self if self.joined is None else self.joined.whole()

    def depth(self) -> int:
        """Return how many entries there are around it."""
        return 0 if self.around is None else 1 + self.around.whole().depth()

    def join(self, other: _Entry) -> None:
        """Take over the markers of another entry of this call; two calls have some argument twice."""
        other = other.whole()
        if other is self or other.cell != self.cell or self.values.keys() & other.values.keys():
            return
        other.joined = self
        self.values |= other.values
        if self.around is None or other.around is None:
            self.around = self.around or other.around
        else:
            self.around.whole().join(other.around)


def _entries(nodes: Sequence[Node]) -> dict[str, _Entry]:
    """Return the entry of every entry marker; two that one operator in the call reads are of one call.

    Their order does not tell: a program may slice the input of every step before it makes the first step.
    """
    found, inside = dict[str, _Entry](), dict[str, _Entry]()
    for node in nodes:
        held = [inside[name].whole() for name in node.inputs if name in inside]
        innermost = max(held, key=_Entry.depth, default=None)
        marker = Marker.of(node)
        if marker is not None and marker.is_entry:
            innermost = found[node.name] = _Entry(marker.cell, innermost, {marker.position: node.inputs[0]})
        elif marker is not None:
            while innermost is not None and innermost.cell != marker.cell:
                innermost = innermost.around and innermost.around.whole()
            innermost = innermost and innermost.around
        elif innermost is not None and node.op != "UpdateState":
            for other in held:
                innermost.join(other)
        if innermost is not None:
            inside[node.name] = innermost
    return found


def _in_order(nodes: Sequence[Node], entries: Mapping[str, _Entry]) -> list[Node]:
    """Return the nodes in an order in which all that enters a call comes before what is in it."""
    by_name, found = {node.name: node for node in nodes}, dict[str, Node]()
    begun = set[str]()
    for root in nodes:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            entry = entries.get(node.name)
            needed = node.inputs if entry is None else entry.whole().values.values()
            missing = [by_name[n] for n in needed if n in by_name and n not in found and n not in begun]
            if node.name not in begun and missing:
                begun.add(node.name)
                waiting += reversed(missing)
            else:
                found.setdefault(node.name, waiting.pop())
    return list(found.values())


class _Walk:
    def __init__(self, finder: CallFinder, base: int, *, is_nested: bool) -> None:
        self.finder = finder
        self.calls, self.taken, self.add_call = finder.calls, finder.taken, finder.add_call
        self.depth, self.base, self.is_nested = finder.depth, base, is_nested
        self.lives_in: dict[str, int | None] = {}
        self.source: dict[str, Any] = {}
        self.entries: dict[str, _Entry] = {}
        self.found = Attribution()

    def run(self, nodes: Sequence[Node]) -> Attribution:
        self.entries = _entries(nodes)
        for node in _in_order(nodes, self.entries):
            if node.op != "Constant":
                self._visit(node)
        for node in nodes:
            if node.name in self.entries:
                self._enter(node.name)
        self._settle(nodes)
        if self.base:
            for name, number in self.found.of_node.items():
                if self._common(number, self.base) != self.base:
                    self.found.of_node[name] = self.base
        return self.found

    def _visit(self, node: Node) -> None:
        if node.op == "UpdateState":
            return  # it orders effects, wherever they are
        if node.name in self.entries:  # its call is found where an operator needs it, by all its arguments
            self.source[node.name] = self.source.get(node.inputs[0])
            return
        home = self._innermost(node.inputs)
        marker = Marker.of(node)
        if marker is None:
            self.lives_in[node.name] = home
            if home is not None:
                self.found.of_node[node.name] = home
            return
        number = self._left(marker, home)
        if number is None:
            self.lives_in[node.name] = home
            return
        self.found.of_node[node.name] = number
        parent = self.calls[number].parent
        self.lives_in[node.name] = 0 if parent is None else parent
        self.source[node.name] = ("call", number)

    def _innermost(self, names: Iterable[str]) -> int | None:
        """Return the innermost call that the values live in."""
        for name in names:
            if name in self.entries and name not in self.lives_in:
                self._enter(name)
        homes = [h for h in map(self.lives_in.get, names) if h is not None]
        return max(homes, key=lambda h: (self.depth(h), h), default=None)

    def _enter(self, name: str) -> None:
        """Find the call that an entry marker moves its value into."""
        entry = self.entries[name].whole()
        if entry.number is None:
            entry.number = self._entered(entry)
        self.lives_in[name] = entry.number
        if entry.number is not None:
            self.found.of_node[name] = entry.number

    def _entered(self, entry: _Entry) -> int | None:
        """Return the recorded call of an entry: same Cell, caller and arguments, in order."""
        home = self._innermost(entry.values.values())
        if home is not None and id(self.calls[home].cell) == entry.cell and self.calls[home].parent is None:
            self.taken.update((home, position) for position in entry.values)
            return home  # the outermost call, whose caller is nobody
        if home is None and self.is_nested:
            home = self.base
        candidates = self.finder.calls_of(entry.cell)
        free = [
            n for n in candidates if not any((n, position) in self.taken for position in entry.values)
        ] or candidates
        same_caller = [n for n in free if home is None or self.calls[n].parent == home]
        same_source = [n for n in same_caller if self._has_a_source(n, entry)]
        best = same_source or same_caller or free
        if self.add_call is not None and home is not None and (not same_caller or free is candidates):
            number = len(self.calls)
            best = [number] if self.add_call(entry.cell, home) else []
        if not best:
            return home
        self.taken.update((best[0], position) for position in entry.values)
        return best[0]

    def _has_a_source(self, number: int, entry: _Entry) -> bool:
        """Whether an argument of the entry comes from where that of the recorded call came from."""
        sources = [(position, self.source.get(name)) for position, name in entry.values.items()]
        return any(source is not None and self._source(number, p) == source for p, source in sources)

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
