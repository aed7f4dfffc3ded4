"""How findings name several modules and the lines that registered them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Placed(Protocol):
    """What has a file and a line."""

    @property
    def file(self) -> str:
        """The file."""
        ...

    @property
    def line(self) -> int:
        """The line."""
        ...


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in quotes, the last after "and"; of many the first few.

    Example:
        >>> listed(["a", "b"]), listed(["a"]), listed(list("abcdef"))
        ('`a` and `b`', '`a`', '`a`, `b`, `c` and 3 more')
    """
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > most:
        quoted = [*quoted[: most - 1], f"{len(quoted) - most + 1} more"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def inserted_at(places: Sequence[Placed | None]) -> str:
    """``, inserted at lines 50 and 51,``; nothing where a place is not known."""
    lines = list(dict.fromkeys(str(place.line) for place in places if place is not None))
    if None in places or not lines:
        return ""
    if len(lines) == 1:
        return f", inserted at line {lines[0]},"
    return f", inserted at lines {', '.join(lines[:-1])} and {lines[-1]},"
