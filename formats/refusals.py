"""The error for a file that breaks its format, and names from a file as messages show them."""

from __future__ import annotations

from ..ir import ModelError

_SHOWN = 80


def malformed(message: str, place: str) -> ModelError:
    """Return the error for a file that breaks its format."""
    return ModelError("E101", message, place=shorten(place))


def quote(text: object) -> str:
    """Return a name from a file as a message shows it: short, on one line, in backquotes."""
    found = str(text)
    if len(found) > _SHOWN:
        found = found[:_SHOWN] + "…"
    return f"`{''.join(c if c.isprintable() else '?' for c in found)}`"


def shorten(place: str) -> str:
    """Return a place as a message shows it: short and on one line."""
    return "".join(c if c.isprintable() else "?" for c in place[:300])
