"""Writes what a sweep found: JSON lines for machines, Markdown and HTML for people, regressions first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ...ir.outside.display import printable
from .case import Row
from .comparing import HEADINGS, NUMBERS, Compared, cells_of, compare_rows, summary
from .history import Past
from .page import page
from .totals import totals, totals_of_history
from .trends import trend_in_text


def write_tables(
    folder: Path,
    rows: Sequence[Row],
    before: Sequence[Row] = (),
    *,
    title: str = "sweep",
    history: Sequence[Past] = (),
) -> list[Path]:
    """Write ``rows.jsonl``, ``table.md`` and ``table.html`` into a folder, replacing those that are there.

    Args:
        folder: where to.
        rows: what came of every case.
        before: the rows of an earlier sweep, to compare with.
        title: heading of the tables.
        history: the last sweeps, this one included.
    """
    compared = compare_rows(rows, before)
    line = summary(rows, compared)
    texts = {
        "rows.jsonl": "".join(json.dumps(row.to_json(), ensure_ascii=False) + "\n" for row in rows),
        "table.md": _markdown(rows, compared, title, line, history),
        "table.html": page(rows, compared, title, line, history),
    }
    return [write_text(folder / name, text) for name, text in texts.items()]


def write_text(path: Path, text: str) -> Path:
    """Write a file whole or not at all, replacing the one that is there."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text, encoding="utf-8", errors="surrogateescape")
        return new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _markdown(
    rows: Sequence[Row], compared: Sequence[Compared], title: str, line: str, history: Sequence[Past]
) -> str:
    parts = [f"# {_inline(title)}", "", line, "", *_lines(*totals(rows))]
    if len(history) > 1:
        parts += ["", "## The last sweeps", "", *_lines(*totals_of_history(history))]
    headings: list[str] = list(HEADINGS)
    table = [list(cells_of(each)) for each in compared]
    if len(history) > 1:
        headings.insert(-1, "trend")
        for cells, each in zip(table, compared, strict=True):
            cells.insert(-1, trend_in_text((each.row.name, each.row.step), history))
    parts += ["", "## Cases", "", *_lines(headings, table, NUMBERS)]
    return "\n".join(parts) + "\n"


def _lines(headings: Sequence[str], table: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table; columns of numbers are set right."""
    rule = "|".join("---:" if at in numbers else "---" for at in range(len(headings)))
    lines = [f"| {' | '.join(headings)} |", f"|{rule}|"]
    return lines + [f"| {' | '.join(_inline(cell) for cell in cells)} |" for cells in table]


def _inline(text: str) -> str:
    """Return text that a cell shows as it is."""
    plain = " ".join(printable(text).split())
    return "".join(f"\\{c}" if c in "|\\`*_<>[]" else c for c in plain)
