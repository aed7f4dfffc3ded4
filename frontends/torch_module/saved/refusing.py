"""The error for a saved program that asks to execute code."""

from __future__ import annotations

from ....formats.refusals import shorten
from ....ir import ModelError

TRUST = "--trust opens it and runs any code that the file holds: use it only if you trust the file's author"


def untrusted(message: str, place: str) -> ModelError:
    """Return the error for a file that only torch's own reader opens, which unpickles, imports and links."""
    return ModelError("E107", message, place=shorten(place), hint=TRUST)
