"""Text from outside in the comments and docstrings of emitted source."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Return a text that may hold quotes and new lines, as it stands in a docstring or a comment."""
    return repr(text)[1:-1].replace('"', '\\"')
