"""The part of MindSpore's error messages that says something."""

from __future__ import annotations

_NOTHING = ("-", "#", "In file", "~", "For more")
"""Beginnings of lines that rule off the call stack, or point to it."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message that says something, after its type."""
    lines = (line.strip() for line in str(error).splitlines())
    useful = next((line for line in lines if line and not line.startswith(_NOTHING)), "")
    return f"{type(error).__name__}: {useful[:300]}" if useful else type(error).__name__
