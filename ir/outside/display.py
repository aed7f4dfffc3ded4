"""Makes texts from files safe to print: no control characters, no overlong words."""

from __future__ import annotations

import re

_LONGEST_WORD, _LONGEST = 400, 10_000
_STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
    r"\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
"""Unicode's Cc, Cs, Zl, Zp, Cf: they move a cursor, break or reorder lines, are invisible, or not UTF-8."""


def printable(text: str) -> str:
    """Return a text with control characters, except line breaks and tabs, escaped as Python does."""
    return _STEERING.sub(lambda odd: odd[0].encode("unicode_escape").decode(), text)


def shorten_words(text: str) -> str:
    """Return a text fit for a message: printable, and shortened where it or one of its words is overlong."""
    if len(text) > _LONGEST_WORD:
        text = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: _shorten(word[0], _LONGEST_WORD // 2), text)
    return printable(_shorten(text, _LONGEST))


def _shorten(text: str, length: int) -> str:
    """Shorten a text to about that many characters: its beginning, how much is left out, and its end."""
    half = length // 2
    left = len(text) - 2 * half
    return text if left <= 0 else f"{text[:half]}[… {left} characters …]{text[-half:]}"
