"""Writes the difference of two models as a page: one HTML file without scripts, folded by the browser."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path

from ...ir import shorten_words
from ...ir.difference import GraphDifference
from ...ir.difference.lines import Line, lines_of, verdict
from ...process.entry import public_call
from ...process.messages import say
from .plain import write_plain_page

_KINDS = {"+": "added", "-": "removed", "~": "changed"}


@public_call()
def write_difference(path: str | Path, difference: GraphDifference, *, lang: str = "en") -> Path:
    """Write the difference of two models as a page.

    Args:
        path: the file; one that exists is replaced.
        difference: what `diff_models` found.
        lang: "en" or "zh".

    Raises:
        UsageError: for another language, or a file that cannot be written.
    """
    words = partial(say, lang=lang)
    notes = [f"<p class='hint'>{escape(shorten_words(words(note)))}</p>" for note in difference.notes]
    return write_plain_page(
        path,
        lang,
        title="regraft diff",
        equal=difference.equal,
        line=verdict(difference, words),
        sides=difference.references,
        sections=[_tree(lines_of(difference, words)), "".join(notes)],
    )


def _tree(lines: Sequence[Line]) -> str:
    """Return nested lists of lines: those that have lines below them open and close."""
    parts: list[str] = []
    open_: list[int] = []
    for at, line in enumerate(lines):
        while open_ and open_[-1] >= line.depth:
            open_.pop()
            parts.append("</details>")
        place = f" <span class='hint'>{escape(shorten_words(line.place))}</span>" if line.place else ""
        text = escape(shorten_words(line.text))
        item = f"<span class='mark {_KINDS[line.mark]}'>{line.mark}</span><code>{text}</code>{place}"
        if at + 1 < len(lines) and lines[at + 1].depth > line.depth:
            open_.append(line.depth)
            parts.append(f"<details open><summary>{item}</summary>")
        else:
            parts.append(f"<p>{item}</p>")
    return "".join([*parts, *("</details>" for _ in open_)])
