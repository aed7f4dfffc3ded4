"""Writes what a sweep found: JSON lines for machines, Markdown and HTML for people, regressions first."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..ir.outside.display import printable
from .case import VERDICTS, Row

_SLOWER, _SECONDS = 1.3, 2.0
"""A case is slower when its CPU seconds grew by that factor, and by that many."""

_ORDER = ("regression", "gone", "new", "slower", "mended", "", "faster")

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.regression td, tr.gone td { background: #d332; }
tr.mended td { background: #3a32; }
tr.slower td { background: #da42; }
.bad { color: #c22; font-weight: 600; }
td.d { overflow-wrap: anywhere; color: #888; }
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """A row beside the one of an earlier sweep.

    Attributes:
        row: now; the earlier one where the case is gone.
        before: then; None where there was none.
        change: "regression", "gone", "new", "slower", "mended", "faster" or empty.
    """

    row: Row
    before: Row | None
    change: str


def compare_rows(rows: Sequence[Row], before: Sequence[Row]) -> list[Compared]:
    """Return the rows with their changes: what got worse, what is wrong, the rest."""
    earlier = {(row.name, row.step): row for row in before}
    found = [
        Compared(row, earlier.get((row.name, row.step)), _change(row, earlier.get((row.name, row.step))))
        if before
        else Compared(row, None, "")
        for row in rows
    ]
    now = {(row.name, row.step) for row in rows}
    found += [Compared(row, row, "gone") for key, row in earlier.items() if key not in now]
    return sorted(found, key=lambda each: (_ORDER.index(each.change), each.row.good))


def _change(row: Row, before: Row | None) -> str:
    if before is None:
        return "new"
    rank = VERDICTS.index
    if row.verdict != before.verdict and not (row.good and before.good):
        return "regression" if rank(row.verdict) > rank(before.verdict) else "mended"
    for this, that, change in ((row, before, "slower"), (before, row, "faster")):
        if this.cpu > that.cpu * _SLOWER and this.cpu > that.cpu + _SECONDS:
            return change
    return ""


def summary(rows: Sequence[Row], compared: Sequence[Compared]) -> str:
    """Return the line that says how a sweep went."""
    met = Counter(row.verdict for row in rows)
    line = f"{len(rows)} cases: {', '.join(f'{met[v]} {v}' for v in VERDICTS if met[v])}"
    changes = Counter(each.change for each in compared)
    named = [
        f"{changes[c]} {c}{'s' if c == 'regression' and changes[c] > 1 else ''}"
        for c in _ORDER
        if c and changes[c]
    ]
    return f"{line}; {', '.join(named)}" if named else line


def write_tables(
    folder: Path, rows: Sequence[Row], before: Sequence[Row] = (), *, title: str = "sweep"
) -> list[Path]:
    """Write ``rows.jsonl``, ``table.md`` and ``table.html`` into a folder, replacing those that are there.

    Args:
        folder: where to.
        rows: what came of every case.
        before: the rows of an earlier sweep, to compare with.
        title: heading of the tables.
    """
    compared = compare_rows(rows, before)
    line = summary(rows, compared)
    texts = {
        "rows.jsonl": "".join(json.dumps(row.to_json(), ensure_ascii=False) + "\n" for row in rows),
        "table.md": _markdown(compared, title, line),
        "table.html": _page(compared, title, line),
    }
    written: list[Path] = []
    for name, text in texts.items():
        new = folder / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        written.append(new.replace(folder / name))
    return written


def cells_of(each: Compared) -> tuple[str, ...]:
    """Return a row's cells: model, step, verdict, then, CPU seconds, ratio, memory, detail."""
    row, before = each.row, each.before
    now = "gone" if each.change == "gone" else row.verdict
    was = before.verdict if before is not None and (before.verdict != now) else ""
    told = before is not None and before.cpu > 0 and each.change != "gone"
    ratio = f"{row.cpu / before.cpu:.2f}" if told and before is not None else ""
    detail = f"{row.code} {row.detail}".strip() if not row.good else ""
    return (row.name, row.step, now, was, f"{row.cpu:.1f}", ratio, f"{row.memory / 2**20:.0f}", detail)


HEADINGS = ("model", "step", "verdict", "before", "CPU s", "ratio", "MiB", "why")
_NUMBERS = (4, 5, 6)


def _markdown(compared: Sequence[Compared], title: str, line: str) -> str:
    lines = [f"# {_inline(title)}", "", line, "", f"| {' | '.join(HEADINGS)} |"]
    lines.append("|" + "|".join("---:" if at in _NUMBERS else "---" for at in range(len(HEADINGS))) + "|")
    lines += [f"| {' | '.join(_inline(cell) for cell in cells_of(each))} |" for each in compared]
    return "\n".join(lines) + "\n"


def _inline(text: str) -> str:
    """Return text that a cell shows as it is."""
    plain = " ".join(printable(text).split())
    return "".join(f"\\{c}" if c in "|\\`*_<>[]" else c for c in plain)


def _page(compared: Sequence[Compared], title: str, line: str) -> str:
    """Return one page without scripts, which reaches for nothing."""
    heads = "".join(f"<th>{html.escape(each)}</th>" for each in HEADINGS)
    rows = "\n".join(
        f'<tr class="{each.change}">'
        + "".join(
            f'<td class="{_class(at, each)}">{html.escape(printable(cell))}</td>'
            for at, cell in enumerate(cells_of(each))
        )
        + "</tr>"
        for each in compared
    )
    name = html.escape(printable(title))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{name}</h1><p>{html.escape(line)}</p>\n"
        f"<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table></body></html>\n"
    )


def _class(at: int, each: Compared) -> str:
    if at in _NUMBERS:
        return "n"
    if at == HEADINGS.index("verdict"):
        return "" if each.row.good and each.change != "gone" else "bad"
    return "d" if at == HEADINGS.index("why") else ""
