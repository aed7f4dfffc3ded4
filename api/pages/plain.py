"""Writes a page without scripts: a verdict, and sections that are made elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ...formats.files import staged
from ...ir import UsageError, shorten_words
from .page import HEAD, page_style
from .words import LANGUAGES

_PAGE = (
    HEAD
    + """<main class="plain">
<header class="{verdict}"><h1>{line}</h1><p class="sides">{sides}</p></header>
{sections}
</main>
</body>
</html>
"""
)

_POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


def write_plain_page(
    path: str | Path,
    language: str,
    *,
    title: str,
    equal: bool,
    line: str,
    sides: Sequence[str],
    sections: Sequence[str],
) -> Path:
    """Write a page that reaches for nothing and runs nothing.

    Args:
        path: the file; one that exists is replaced.
        language: "en" or "zh".
        title: of the page, in front of the sides.
        equal: whether the verdict is good.
        line: the verdict.
        sides: what was compared.
        sections: markup in which all text is escaped.

    Raises:
        UsageError: for another language, or a file that cannot be written.
    """
    if language not in LANGUAGES:
        raise UsageError("E001", f"expected a language of {', '.join(LANGUAGES)}, got `{language}`")
    path, style = Path(path), page_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    shown = escape(" → ".join(map(shorten_words, sides)))
    text = _PAGE.format(
        language=language,
        policy=escape(f"{_POLICY}; style-src 'sha256-{digest}'"),
        title=f"{escape(title)} · {shown}",
        style=style,
        verdict="equal" if equal else "different",
        line=escape(shorten_words(line)),
        sides=shown,
        sections="\n".join(f"<section>{section}</section>" for section in sections if section),
    )
    with staged(path.absolute().parent, [path.name], force=True) as stage:
        (stage / path.name).write_text(text, encoding="utf-8")
    return path
