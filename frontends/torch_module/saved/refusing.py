"""The error for a saved program that asks to execute code."""

from __future__ import annotations

from ....formats.refusals import shorten
from ....ir import ModelError

TRUST = (
    "it opens with --trust, which runs whatever code the file holds: only for files whose author you trust"
)


def untrusted(message: str, place: str) -> ModelError:
    """Return the error for a file that only torch's own reader opens, which unpickles, imports and links."""
    return ModelError("E107", message, place=shorten(place), hint=TRUST)
