"""Checks the names and shapes that a file gives to its tensors."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

from ..errors import ModelError

_REFUSED = frozenset(["Cc", "Cs", "Zl", "Zp"])
"""Categories of characters that no name needs, and that break whoever prints or stores it."""


def require_name(text: str, what: str, place: str) -> str:
    """Return a name from a file, if it has no control characters, line breaks or lone surrogates.

    Args:
        text: the name.
        what: what it is, e.g. "a tensor's name"; for the message.
        place: the file, and where in it.

    Raises:
        ModelError: E101 for such a character.
    """
    if not text.isprintable():
        odd = next((c for c in text if unicodedata.category(c) in _REFUSED), None)
        if odd is not None:
            raise ModelError(
                "E101",
                f"expected {what} without control characters, got U+{ord(odd):04X} in `{text}`",
                place=place,
            )
    return text


_MOST_AXES, _MOST_BYTES = 32, 1 << 47
_NEAR_LENGTH, _NEAR_COUNT = 200, 2000


def require_shape(shape: Sequence[int], place: str) -> None:
    """Check that an array of a shape can exist: no negative size, few axes, and an addressable size.

    Raises:
        ModelError: E101 otherwise.
    """
    size = 16  # bytes of the widest element
    for dim in shape:
        size *= max(dim, 1)
    if len(shape) > _MOST_AXES or any(dim < 0 for dim in shape) or size > _MOST_BYTES:
        text = str(list(shape[: _MOST_AXES + 1]))
        raise ModelError("E101", f"expected the shape of an array, got {text}", place=place)


def near_names(name: str, known: Iterable[str], count: int = 3, cutoff: float = 0.5) -> list[str]:
    """Return the known names that resemble a name; none for long names, as this is quadratic."""
    if len(name) > _NEAR_LENGTH:
        return []
    short = (other for other in known if len(other) <= _NEAR_LENGTH)
    return get_close_matches(name, islice(short, _NEAR_COUNT), count, cutoff)
