"""One HTML page of a sweep, which reaches for nothing: totals, the last sweeps, every case with its trend."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path

from ...ir.outside.display import printable
from .case import Row
from .comparing import HEADINGS, NUMBERS, Compared, cells_of
from .history import Past
from .totals import ALL, totals, totals_of_history
from .trends import trend_in_svg

_WHY, _VERDICT = HEADINGS.index("why"), HEADINGS.index("verdict")


def page(
    rows: Sequence[Row], compared: Sequence[Compared], title: str, line: str, history: Sequence[Past]
) -> str:
    """Return the page.

    Args:
        rows: every case that there is, in the order of the suite.
        compared: every case, in the order in which it shall stand.
        title: heading.
        line: the summary.
        history: the last sweeps, this one included.
    """
    style, script = (
        Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    name = _text(title)
    counts = _table("Totals", *totals(rows))
    if len(history) > 1:
        counts += _table("The last sweeps", *totals_of_history(history))
    parts = [
        f"<h1>{name}</h1><p>{_text(line)}</p>",
        f'<div class="counts">{counts}</div>',
        _cases(compared, history),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>\n{style}</style></head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>{script}</script></body></html>\n"
    )


def _table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a small table whose cells are counts."""
    heads = "".join(f"<th>{_text(each)}</th>" for each in headings)
    rows = "\n".join(
        f'<tr class="{"all" if line[0] == ALL and len(lines) > 1 else ""}">'
        + "".join(f"<td>{_text(cell)}</td>" for cell in line)
        + "</tr>"
        for line in lines
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table>"
    return f'<section><h2>{_text(title)}</h2>\n<div class="some" tabindex="0">{table}</div></section>'


def _cases(compared: Sequence[Compared], history: Sequence[Past]) -> str:
    trend = len(history) > 1
    heads = "".join(
        f'<th class="{"n" if at in NUMBERS else ""}"><button>{_text(name)}</button></th>'
        + ("<th>trend</th>" if trend and at == _WHY - 1 else "")
        for at, name in enumerate(HEADINGS)
    )
    lines: list[str] = []
    for each in compared:
        cells = [
            f'<td class="{_class(at, each)}">{_text(cell)}</td>' for at, cell in enumerate(cells_of(each))
        ]
        if trend:
            cells.insert(_WHY, f"<td>{trend_in_svg((each.row.name, each.row.step), history)}</td>")
        lines.append(f'<tr class="{each.change}">{"".join(cells)}</tr>')
    rows = "\n".join(lines)
    search = (
        '<input type="search" aria-label="show the rows that hold" placeholder="show the rows that hold …">'
    )
    return (
        f'<h2>Cases</h2>\n{search}\n<table class="cases"><thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table>"
    )


def _class(at: int, each: Compared) -> str:
    if at in NUMBERS:
        return "n"
    if at == _VERDICT:
        return "" if each.row.good and each.change != "gone" else "wrong"
    return {_WHY: "why", 0: "name"}.get(at, "")


def _text(text: str) -> str:
    return html.escape(printable(text))
