"""A sweep beside an earlier one: what got worse comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .case import NOT_JUDGED, VERDICTS, Row

_SLOWER, _SECONDS = 1.3, 2.0
"""A case is slower when its CPU seconds grew by that factor, and by that many."""

_ORDER = ("regression", "gone", "new", "slower", "mended", "", "faster")


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
    if NOT_JUDGED in (row.verdict, before.verdict) and row.verdict != before.verdict:
        return "new" if before.verdict == NOT_JUDGED else "regression" if before.good else ""
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


def cells_of(each: Compared) -> tuple[str, ...]:
    """Return a row's cells: model, step, verdict, then, CPU seconds, ratio, memory, detail."""
    row, before = each.row, each.before
    now = "gone" if each.change == "gone" else row.verdict
    was = before.verdict if before is not None and (before.verdict != now) else ""
    told = before is not None and before.cpu > 0 and each.change != "gone"
    ratio = f"{row.cpu / before.cpu:.2f}" if told and before is not None else ""
    detail = " ".join(f"{row.code} {row.detail}".split()) if not row.good else ""
    return (row.name, row.step, now, was, f"{row.cpu:.1f}", ratio, f"{row.memory / 2**20:.0f}", detail)


HEADINGS = ("model", "step", "verdict", "before", "CPU s", "ratio", "MiB", "why")
NUMBERS = (4, 5, 6)
