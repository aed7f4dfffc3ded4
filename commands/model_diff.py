"""Prints the difference of two models: on a terminal, as Markdown, as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .language import language, say
from .printing import echo, echo_text, print_json, print_verdict

if TYPE_CHECKING:
    from ..ir.difference import GraphDifference
    from ..ir.difference.lines import Line

_COLOURS = {"+": "green", "-": "red", "~": "yellow"}
_MOST = 200
"""Lines that a terminal is given."""
_MOST_IN_MARKDOWN = 500


def print_model_diff(found: GraphDifference, form: str, html: Path | None) -> None:
    """Print a difference in one of the forms "text", "markdown" and "json", and write its page."""
    from ..ir.difference.lines import lines_of, verdict

    if html is not None:
        from ..api.pages.difference import write_difference

        write_difference(html, found, lang=language())
        echo(f"wrote {html}", err=True)
    if form == "json":
        print_json(found.to_json())
        return
    lines = lines_of(found, say)
    if form == "markdown":
        echo_text(_markdown(found, lines))
        return
    print_verdict(verdict(found, say))
    for line in lines[:_MOST]:
        place = f"  ({line.place})" if line.place else ""
        echo_text(f"{click.style(line.mark, fg=_COLOURS[line.mark])} {'  ' * line.depth}{line.text}{place}")
    if len(lines) > _MOST:
        echo(f"and {len(lines) - _MOST} more lines (--json and --html have all)")
    for note in found.notes:
        echo(f"note: {note}")


def _markdown(found: GraphDifference, lines: list[Line]) -> str:
    """Return the difference for a pull request: the verdict, and a fence of lines as a patch has them."""
    from ..ir.difference.lines import verdict

    head = f"### `regraft diff`: {verdict(found, say)}"
    names = " → ".join(f"`{name.replace('`', '')}`" for name in found.references)
    shown = [f"{_PATCH[line.mark]} {'  ' * line.depth}{line.text}" for line in lines[:_MOST_IN_MARKDOWN]]
    if len(lines) > _MOST_IN_MARKDOWN:
        shown.append(f"  … {len(lines) - _MOST_IN_MARKDOWN}")
    text = "\n".join(shown).replace("```", "'''")
    notes = [f"> {say(note)}" for note in found.notes]
    body = ["", f"```diff\n{text}\n```"] if shown else []
    return "\n".join([head, "", names, *body, *([""] if notes else []), *notes])


_PATCH = {"+": "+", "-": "-", "~": "!"}
"""Mark -> that of GitHub's patches, whose colours are green, red and orange."""
