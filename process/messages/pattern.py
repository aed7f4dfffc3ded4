"""A message with ``{name}`` in places of values, and what stands in those places of a line."""

from __future__ import annotations

import re

SLOT = re.compile(r"\{(\w+)\}")
SPOKEN = frozenset(
    (
        "advice",
        "cause",
        "expected",
        "found",
        "hint",
        "how",
        "message",
        "missing",
        "other",
        "reason",
        "remark",
        "repair",
        "rest",
        "said",
        "side",
        "stated",
        "verdict",
        "wanted",
        "what",
        "why",
    )
)
"""Slots whose values are messages too; those of any other name hold names and numbers."""
_DIGIT = re.compile(r"\d")
_TELLING = 12
"""Letters that a message needs of its own for its slots to hold any text; else, as `count` and `word`, no
spaces."""


def is_spoken(slot: str) -> bool:
    """Whether what stands in a slot is a message too."""
    return slot.rstrip("0123456789") in SPOKEN


class Pattern:
    """An entry of a catalogue that stands for every message of one form.

    Matching takes time linear in the line, whatever a hostile name in it repeats: each piece of text is
    looked for once, behind the one before it.

    Args:
        source: the message, with ``{name}`` in places of values.
        target: its translation.

    Attributes:
        slots: names in the order of the source.
        rank: where it stands among patterns; the one that says most comes first.
    """

    __slots__ = ("_counts", "_pieces", "_short", "rank", "slots", "target")

    def __init__(self, source: str, target: str) -> None:
        parts = SLOT.split(source)
        self._pieces, self.slots, self.target = parts[::2], parts[1::2], target
        said = sum(map(len, self._pieces))
        self.rank = -said
        self._counts = [slot for slot in self.slots if slot.startswith("count")]
        single = [slot for slot in self.slots if slot.startswith("word") or said < _TELLING]
        self._short = [slot for slot in single if not is_spoken(slot)] + self._counts

    def match(self, line: str) -> dict[str, str] | None:
        """Return what stands in each slot; None where the line is of another form, or a slot is empty."""
        first, *inner, last = self._pieces
        end = len(line) - len(last)
        if not line.startswith(first) or not line.endswith(last):
            return None
        found: dict[str, str] = {}
        at = len(first)
        for slot, piece in zip(self.slots, inner, strict=False):
            place = line.find(piece, at + 1, end)
            if place < 0:
                return None
            found[slot] = line[at:place]
            at = place + len(piece)
        if at >= end:
            return None
        found[self.slots[-1]] = line[at:end]
        if any("\n" in part for part in found.values()) or any(" " in found[slot] for slot in self._short):
            return None
        return found if all(_DIGIT.search(found[slot]) for slot in self._counts) else None
