"""Functions and classes of an emitted file's own: a file holds those that it names, and what these need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .expressions import Helper, Part
from .traversal import walk


@dataclass(frozen=True, slots=True)
class HelperText:
    """The source of a helper.

    Attributes:
        text: its definition.
        needs: names of the helpers that this uses.
    """

    text: str
    needs: tuple[str, ...] = ()


def helper_texts(table: Mapping[str, HelperText], parts: Iterable[Part]) -> list[str]:
    """Return the texts of the helpers that parts name, and of those that these need, in the table's order."""
    waiting = {inner.name for part in parts for inner in walk(part) if isinstance(inner, Helper)}
    needed: set[str] = set()
    while waiting:
        needed |= waiting
        waiting = {name for each in waiting for name in table[each].needs} - needed
    return [helper.text for name, helper in table.items() if name in needed]
