"""Wording of findings that name several modules and the lines that registered them."""

from __future__ import annotations

from collections.abc import Sequence


def join_names(names: Sequence[str], most: int | None = 4) -> str:
    """Return names in quotes, the last after "and"; of more than `most` the first few, and a count.

    Example:
        >>> join_names(["a", "b"]), join_names(["a"]), join_names(list("abcdef"))
        ('`a` and `b`', '`a`', '`a`, `b`, `c` and 3 more')
    """
    quoted = [f"`{name}`" for name in names]
    if most is not None and len(quoted) > most:
        quoted = [*quoted[: most - 1], f"{len(quoted) - most + 1} more"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def describe_insertions(places: Sequence[str]) -> str:
    """Return ``, inserted at lines 50 and 51,``; empty if a place is unknown.

    Args:
        places: file and line of each, ``net.py:50``; empty for one that is not known.
    """
    if not places or not all(places):
        return ""
    files = {place.rpartition(":")[0] for place in places}
    lines = list(dict.fromkeys(place.rpartition(":")[2] for place in places))
    if len(files) > 1:
        return f", inserted at {' and '.join(places)},"
    if len(lines) == 1:
        return f", inserted at line {lines[0]},"
    return f", inserted at lines {', '.join(lines[:-1])} and {lines[-1]},"
