"""Writes the difference of two models as a page: one HTML file without scripts, folded by the browser."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path

from ...formats.files import staged
from ...ir import UsageError, shorten_words
from ...ir.difference import GraphDifference
from ...ir.difference.lines import Line, lines_of, verdict
from ...process.entry import public_call
from ...process.messages import say
from .page import page_style
from .words import LANGUAGES

_PAGE = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="regraft">
<title>regraft diff · {title}</title>
<style>{style}</style>
</head>
<body>
<main class="difference">
<header class="{verdict}"><h1>{line}</h1><p class="sides">{sides}</p></header>
<section>{tree}</section>
<section>{notes}</section>
</main>
</body>
</html>
"""

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
    if lang not in LANGUAGES:
        raise UsageError("E001", f"expected a language of {', '.join(LANGUAGES)}, got `{lang}`")
    path = Path(path)
    text = render_difference(difference, lang)
    with staged(path.absolute().parent, [path.name], force=True) as stage:
        (stage / path.name).write_text(text, encoding="utf-8")
    return path


def render_difference(difference: GraphDifference, language: str = "en") -> str:
    """Return the page as text."""
    words = partial(say, lang=language)
    style = page_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    sides = " → ".join(map(shorten_words, difference.references))
    return _PAGE.format(
        language=language,
        policy=escape(
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        ),
        title=escape(sides),
        style=style,
        verdict="equal" if difference.equal else "different",
        line=escape(verdict(difference, words)),
        sides=escape(sides),
        tree=_tree(lines_of(difference, words)),
        notes="".join(f"<p class='hint'>{escape(words(note))}</p>" for note in difference.notes),
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
