"""Lines of a method, and the runs of them that become a for loop."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..cells.cell_definition import Definition
from .expressions import CELL_LIST, SEQUENTIAL, Argument, Call, Step


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a method.

    Attributes:
        text: the line.
        targets: what it assigns to, where a call of what `self` reaches is all that it does.
        assigned: the variable that it assigns to, where that is one, likewise.
        access: the steps from `self` to what it calls, likewise.
        arguments: what it gives to that.
        reads: the variables among those.
        returned: what it returns.
    """

    text: str
    targets: str = ""
    assigned: str = ""
    access: tuple[Step, ...] = ()
    arguments: str = ""
    reads: frozenset[str] = frozenset()
    returned: str = ""


def with_loops(lines: list[Line], definition: Definition, taken: Collection[str]) -> list[str]:
    """Return the texts of lines, runs of ``x = self.layers[i](x)`` over a whole list as a for loop.

    Args:
        lines: the lines.
        definition: the definition whose attributes they call.
        taken: names of variables.
    """
    lengths, nested = _lengths(definition), _lengths_within(definition)
    out: list[str] = []
    at = 0
    while at < len(lines):
        first = lines[at]
        name, count = _loop_over(lines[at:], lengths)
        if count > 1:
            item = _item_name(name, taken)
            out += [f"for {item} in self.{name}:", f"    {first.targets} = {item}({first.arguments})"]
            at += count
        elif rows := _loop_over_lists(lines[at:], nested):
            name = str(first.access[0])
            outer = _item_name(name, taken)
            item = _item_name("layers" if outer != "layer" else "blocks", taken)
            out += [
                f"for {outer} in self.{name}:",
                f"    for {item} in {outer}:",
                f"        {first.targets} = {item}({first.arguments})",
            ]
            at += rows
        else:
            out.append(first.text)
            at += 1
    return out


def _lengths(definition: Definition) -> dict[str, int]:
    """Return the length of each list attribute by name."""
    found: dict[str, int] = {}
    for name, part in definition.attributes:
        if isinstance(part, Call) and part.callee in (CELL_LIST, SEQUENTIAL):
            found[name] = len(_members(part))
    return found


def _members(part: Call) -> tuple[Argument, ...]:
    """Return what a list or a sequence of layers is constructed of."""
    inner = part.arguments
    if part.callee == CELL_LIST and isinstance(inner[0].value, Call):
        return inner[0].value.arguments
    return inner


def _lengths_within(definition: Definition) -> dict[str, list[int]]:
    """Return the lengths of the lists in each list attribute of nothing but lists, by name."""
    found: dict[str, list[int]] = {}
    for name, part in definition.attributes:
        if isinstance(part, Call) and part.callee == CELL_LIST:
            inner = [argument.value for argument in _members(part)]
            lists = [_members(each) for each in inner if isinstance(each, Call) and each.callee == CELL_LIST]
            if len(lists) == len(inner):
                found[name] = [len(each) for each in lists]
    return found


def _loop_over_lists(lines: list[Line], nested: dict[str, list[int]]) -> int:
    """Return the number of first lines that call all members of all lists in a list in order; 0 for none."""
    first = lines[0]
    if len(first.access) != 3 or first.access[1:] != (0, 0) or first.assigned not in first.reads:
        return 0
    name = first.access[0]
    places = [(name, i, j) for i, size in enumerate(nested.get(str(name), [])) for j in range(size)]
    run = [(line.targets, line.access, line.arguments) for line in lines[: len(places)]]
    return len(places) if run == [(first.targets, place, first.arguments) for place in places] else 0


def _loop_over(lines: list[Line], lengths: dict[str, int]) -> tuple[str, int]:
    """Return the list whose members the first lines call in order, and their number; 0 for none."""
    first = lines[0]
    if len(first.access) != 2 or first.access[1] != 0 or not isinstance(first.access[0], str):
        return "", 0
    name = first.access[0]
    count = lengths.get(name, 0)
    run = [(line.targets, line.access, line.arguments) for line in lines[:count]]
    if run != [(first.targets, (name, i), first.arguments) for i in range(count)]:
        return "", 0
    return (name, count) if first.assigned in first.reads else ("", 0)


def _item_name(name: str, taken: Collection[str]) -> str:
    item = name[:-1] if name[-1:] == "s" and len(name) > 3 else "layer"
    return f"{item}_" if item in taken else item
