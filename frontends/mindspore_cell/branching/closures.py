"""Values of MindIR's control flow other than tensors: functions with arguments, and choices of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir import Builder, Value
from ...arguments import is_list
from .nested_graphs import carry


@dataclass(frozen=True, slots=True)
class Held:
    """A value of the graph that `builder` builds, kept until another graph needs it."""

    found: Any
    builder: Builder

    def within(self, builder: Builder) -> Any:
        """Return what stands for it in the graph of another builder, which captures it."""
        return _carry(self.found, self.builder, builder)


@dataclass(frozen=True, slots=True)
class Closure:
    """A function with its first arguments."""

    function: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of a Switch: the first of two if a condition holds; each a closure or data."""

    condition: Held
    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of a SwitchLayer: one closure of several, by its number."""

    number: Held
    closures: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Again:
    """The result of a function that ends in a call of the header of a loop that is being read.

    Attributes:
        header: the function.
        state: its arguments that vary, nested as they are.
    """

    header: str
    state: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Mixed:
    """A result that is another turn of a loop, or what the loop gives, as data say.

    Attributes:
        header: of the loop.
        going: whether there is another turn: a value or a Python flag.
        state: the arguments of that turn; unset parts are `UNSET`.
        results: what the loop gives; unset parts are `UNSET`.
    """

    header: str
    going: Any
    state: Any
    results: Any


class _Unset:
    """Stands for a value that is not read: the results of a loop before its last turn."""

    def __repr__(self) -> str:
        return "unset"


UNSET = _Unset()


@dataclass(frozen=True, slots=True)
class Slot:
    """In a joined result: output number `index` of the If."""

    index: int


def _carry(found: Any, source: Builder, target: Builder) -> Any:
    """Carry a value as `carry` does, also into another iteration of a loop."""
    if isinstance(found, Again):
        return Again(found.header, _carry(found.state, source, target))
    if isinstance(found, Mixed):
        parts = (found.going, found.state, found.results)
        return Mixed(found.header, *(_carry(part, source, target) for part in parts))
    if is_list(found):
        return tuple(_carry(part, source, target) for part in found)
    return carry(found, source, target)


def is_callable(found: Any) -> bool:
    """Whether something is a function, or a choice of functions."""
    return isinstance(found, (Closure, Choice, Selection))


def fill(template: Any, values: Sequence[Value]) -> Any:
    """Return a result with a value in place of each slot."""
    if isinstance(template, Slot):
        return values[template.index]
    if is_list(template):
        return tuple(fill(part, values) for part in template)
    if isinstance(template, Again):
        return Again(template.header, fill(template.state, values))
    if isinstance(template, Mixed):
        parts = [fill(part, values) for part in (template.going, template.state, template.results)]
        return Mixed(template.header, *parts)
    return template
