"""Small pieces of HTML for notebooks: no scripts, no styles of their own, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .display import shorten_words

_MOST = 200
"""Rows that a notebook is given."""


def text_markup(text: object, tag: str = "span") -> str:
    """Return an element that holds a text.

    Example:
        >>> text_markup("<b>", "p")
        '<p>&lt;b&gt;</p>'
    """
    return f"<{tag}>{escape(shorten_words(str(text)))}</{tag}>"


def table_markup(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, with how many rows are left out where there are many."""
    lines = ["<thead><tr>", *(text_markup(name, "th") for name in head), "</tr></thead><tbody>"]
    kept = list(rows)
    for row in kept[:_MOST]:
        lines.append(f"<tr>{''.join(text_markup(cell, 'td') for cell in row)}</tr>")
    more = f"<p>and {len(kept) - _MOST} more</p>" if len(kept) > _MOST else ""
    return f"<table>{''.join(lines)}</tbody></table>{more}"


def folded_markup(title: str, inner: str, *, opened: bool = False) -> str:
    """Return markup that a click on its title opens."""
    return f"<details{' open' if opened else ''}>{text_markup(title, 'summary')}{inner}</details>"
