"""The two ways in which a saved program is refused: it does not hold together, or it asks to execute code."""

from __future__ import annotations

from ....ir import ModelError

TRUST = (
    "it opens with --trust, which runs whatever code the file holds: only for files whose author you trust"
)


def malformed(message: str, place: str) -> ModelError:
    """Return the error for a file that breaks its format; `--trust` would not help."""
    return ModelError("E101", message, place=_short(place))


def untrusted(message: str, place: str) -> ModelError:
    """Return the error for a file that only torch's own reader opens, which unpickles, imports and links."""
    return ModelError("E107", message, place=_short(place), hint=TRUST)


def quote(text: object) -> str:
    """Return a name from a file as a message shows it: short, on one line, in backquotes."""
    found = str(text)
    if len(found) > _SHOWN:
        found = found[:_SHOWN] + "…"
    return f"`{''.join(c if c.isprintable() else '?' for c in found)}`"


_SHOWN = 80


def _short(place: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in place[:300])
