"""Writes a page: data, style and scripts in one HTML file that no network and no name in a model can reach.

d3 (ISC) draws trees and plots, dagre (MIT) lays out dataflow: 330 kB together, no further dependencies, both
kept up; ECharts and ELK alone have more than 1 MB, and Cytoscape has no plots.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.files import staged
from ...formats.renames import Rename
from ...ir import Graph, UsageError, shorten_words
from ...process.entry import public_call
from ...verification import Report
from .comparison import Target, gather
from .telling import said_in
from .words import LANGUAGES, WORDS

__all__ = ["LANGUAGES", "write_page"]

_HERE = Path(__file__).parent
_LIBRARIES = ("d3", "dagre")
_SCRIPTS = ("common", "tree", "flow", "plots", "rows", "main")

HEAD = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="regraft">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
"""
"""The beginning of every page."""

_PAGE = (
    HEAD
    + """<noscript>{noscript}</noscript>
<main id="page"></main>
<!--
{licences}
-->
<script type="application/json" id="data">{data}</script>
{scripts}
</body>
</html>
"""
)


@public_call()
def write_page(
    path: str | Path,
    source: Graph,
    target: Target = None,
    report: Report | None = None,
    *,
    renames: Sequence[Rename] = (),
    lang: str = "en",
) -> Path:
    """Write a page to look at: one HTML file with all that it needs, which reaches for nothing.

    Args:
        path: the file; one that exists is replaced.
        source: the source's graph.
        target: what it was compared with: a graph, an ``.onnx`` file, or an emitted directory, whose
            ``model.py`` **is run**; None for a page of the source alone.
        report: what `verify` found.
        renames: where the source's parameters went; empty for those in the ``renames.json`` of the target.
        lang: "en" or "zh".

    Raises:
        UsageError: for another language, or a file that cannot be written.
    """
    if lang not in LANGUAGES:
        raise UsageError("E001", f"expected a language of {', '.join(LANGUAGES)}, got `{lang}`")
    path = Path(path)
    text = render_page(gather(source, target, report, renames), lang)
    with staged(path.absolute().parent, [path.name], force=True) as stage:
        (stage / path.name).write_text(text, encoding="utf-8")
    return path


def render_page(data: dict[str, Any], language: str = "en") -> str:
    """Return the page as text."""
    words = WORDS[language]
    document = _clean({**said_in(data, language), "words": words, "language": language})
    scripts = [_vendored(f"{name}.min.js") for name in _LIBRARIES]
    scripts.append("\n".join(_read(f"script/{name}.js") for name in _SCRIPTS))
    style = page_style()
    source = document["source"] or {}
    titles = [net["title"] for net in (source, document["target"]) if net]
    return _PAGE.format(
        language=language,
        policy=html.escape(_policy(scripts, style)),
        title=html.escape(" · ".join(["regraft", *titles])),
        style=style,
        noscript=html.escape(words["noscript"]),
        licences="\n".join(_vendored(f"{name}.LICENSE") for name in _LIBRARIES),
        data=embed(document),
        scripts="\n".join(f"<script>{text}</script>" for text in scripts),
    )


def embed(value: object) -> str:
    """Return JSON that nothing inside an HTML script element can end, and that has no line separators."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_style() -> str:
    """Return the style sheet of all pages."""
    return _read("page.css")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Return the content security policy: these scripts and this style by their digests, and nothing else."""
    allowed = " ".join(map(_digest, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _clean(value: Any) -> Any:
    """Return data that JSON can hold, with texts fit to be shown: no control characters, nothing overlong."""
    if isinstance(value, str):
        return shorten_words(value)
    if isinstance(value, dict):
        return {shorten_words(str(key)): _clean(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if value != value:
            return "nan"
        return value if abs(value) != float("inf") else "inf" if value > 0 else "-inf"
    return value


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _vendored(name: str) -> str:
    """Return a vendored file, without the address of a source map, which would be looked for."""
    text = _read(f"vendored/{name}")
    return text.partition("//# sourceMappingURL=")[0].rstrip()
