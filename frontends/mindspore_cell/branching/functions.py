"""The functions of a program: which of them call which, which are loops, and what a loop changes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ..mindir import INVOKE, Function, Node, Program

PASSED = ("Load", "Depend", "TensorMove")
"""Primitives that give their first operand as it is."""

_SHORT = ("Constant", "UpdateState", *PASSED)
_MOST_COPIED = 6


class Functions:
    """The functions of a program by name.

    Args:
        program: of MindIR.
    """

    def __init__(self, program: Program) -> None:
        self.by_name: dict[str, Function] = {f.name: f for f in program.functions}

    @cached_property
    def _mentions(self) -> dict[str, list[str]]:
        """Function -> those that its nodes name."""
        return {
            name: list(dict.fromkeys(i for n in f.nodes for i in n.inputs if i in self.by_name))
            for name, f in self.by_name.items()
        }

    def reached(self, start: Iterable[str], without: frozenset[str]) -> set[str]:
        """Return the functions that `start` call, themselves included, not by way of some."""
        found: set[str] = set()
        stack = [name for name in start if name not in without]
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack += [n for n in self._mentions[name] if n not in without]
        return found

    def is_header(self, name: str, around: frozenset[str]) -> bool:
        """Whether a function calls itself, other than by another turn of a loop around."""
        return name in self.reached(self._mentions[name], around)

    def members(self, header: str, around: frozenset[str]) -> list[Function]:
        """Return the functions of a loop: those that the header calls and that call it."""
        return [
            self.by_name[n]
            for n in self.reached([header], around)
            if n == header or header in self.reached(self._mentions[n], around)
        ]

    def continuing_side(self, header: str, around: frozenset[str]) -> int | None:
        """Return which of the two functions between which a header chooses is the loop's body, 0 or 1.

        None where the header does not end in such a choice, or neither or both lead to another turn.
        """
        switch = self.last_choice(header)
        if switch is None:
            return None
        nodes = {n.name: n for n in self.by_name[header].nodes}
        again = []
        for name in switch.inputs[1:3]:
            node = nodes.get(name)
            callee = next(iter(node.inputs)) if node is not None and node.op == "Partial" else name
            if callee not in self.by_name:
                return None
            again.append(callee == header or header in self.reached([callee], around))
        return None if again[0] == again[1] else again.index(True)

    def meeting(self, first: str, second: str, around: frozenset[str]) -> str | None:
        """Return the function in which the ways from two others meet again, or None.

        It is what comes after an `if`, called as the last thing on several ways; read once for each, code
        would double with every `if` that is followed by another.
        """
        ways = [self.reached([name], around) for name in (first, second)]
        common = [n for n in self._tail_calls([first], around) if n in self._tail_calls([second], around)]
        for name in common:
            before = self.reached([first, second], around | {name})
            shared = (ways[0] & ways[1]) <= self.reached([name], around)
            inner = {m for f in before for m in self._mentions[f] if m not in self._last[f]}
            safe = not any(name in self._mentions[f] for f in before & self.reached(inner, around | {name}))
            if shared and safe and name not in inner and self._is_long(name):
                return name
        return None

    def _is_long(self, name: str) -> bool:
        """Whether reading a function twice is worth avoiding."""
        computing = [n for n in self.by_name[name].nodes if n.op not in _SHORT]
        return bool(self._mentions[name]) or len(computing) > _MOST_COPIED

    @cached_property
    def _last(self) -> dict[str, list[str]]:
        """Function -> those that it calls as the last thing."""
        found: dict[str, list[str]] = {}
        for name in self.by_name:
            nodes = {n.name: n for n in self.by_name[name].nodes}
            call = self.last_call(name)
            names = [] if call is None else [call.inputs[0]]
            if names and names[0] in nodes:
                names = list(nodes[names[0]].inputs[1:]) if nodes[names[0]].op == "Switch" else []
            callees = [nodes[n].inputs[0] if n in nodes and nodes[n].op == "Partial" else n for n in names]
            found[name] = [n for n in callees if n in self.by_name]
        return found

    def _tail_calls(self, start: list[str], without: frozenset[str]) -> list[str]:
        """Return the functions that tail-call some functions, also indirectly, with those themselves."""
        found: dict[str, None] = {}
        stack = list(start)
        while stack:
            name = stack.pop(0)
            if name not in found and name not in without:
                found[name] = None
                stack += self._last[name]
        return list(found)

    def last_choice(self, name: str) -> Node | None:
        """Return the Switch whose choice's result is that of a function, or None."""
        last = self.last_call(name)
        nodes = {n.name: n for n in self.by_name[name].nodes}
        if last is None or len(last.inputs) != 1:
            return None
        found = nodes.get(last.inputs[0])
        return found if found is not None and found.op == "Switch" else None

    def last_call(self, name: str) -> Node | None:
        """Return the call whose result is that of a function, or None."""
        nodes = {n.name: n for n in self.by_name[name].nodes}
        found = nodes.get(self.by_name[name].output)
        while found is not None and found.op in PASSED:
            found = nodes.get(found.inputs[0])
        return found if found is not None and found.op == INVOKE else None

    def varying(self, header: str, around: frozenset[str]) -> list[int]:
        """Return the numbers of the arguments of a header that another turn may give otherwise."""
        members = self.members(header, around)
        origin = _origins(header, members)
        found: set[int] = set()
        formals = self.by_name[header].inputs
        for function in members:
            for callee, given in _uses(function):
                if callee != header:
                    continue
                for number in range(len(formals)):
                    same = number < len(given) and origin(given[number]) == number
                    found |= set() if same else {number}
        return sorted(found)


def _uses(function: Function) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield (function, its first arguments) of what a function calls or prepares a call of."""
    for node in function.nodes:
        if node.op in ("Partial", INVOKE):
            yield node.inputs[0], node.inputs[1:]
        else:
            yield from ((name, ()) for name in node.inputs)


def _origins(header: str, members: list[Function]):
    """Return a function: name of a value -> number of the header's argument that it always is, or None."""
    by_name = {f.name: f for f in members}
    passed = {n.name: n.inputs[0] for f in members for n in f.nodes if n.op in PASSED}
    known: dict[str, int | None] = {name: n for n, (name, _) in enumerate(by_name[header].inputs)}

    def origin(name: str) -> int | None:
        while name in passed:
            name = passed[name]
        return known.get(name)

    unset = {name for f in members if f.name != header for name, _ in f.inputs}
    for _ in range(len(unset) + 1):
        changed = False
        for function in members:
            for callee, given in _uses(function):
                if callee == header or callee not in by_name:
                    continue
                for number, (formal, _) in enumerate(by_name[callee].inputs):
                    at = _base(given[number], passed) if number < len(given) else ""
                    if at in unset:
                        continue
                    new = known.get(at)
                    if formal in unset:
                        unset.discard(formal)
                        known[formal] = new
                        changed = True
                    elif known.get(formal) != new and known.get(formal) is not None:
                        known[formal] = None
                        changed = True
        if not changed:
            break
    return origin


def _base(name: str, passed: dict[str, str]) -> str:
    while name in passed:
        name = passed[name]
    return name
