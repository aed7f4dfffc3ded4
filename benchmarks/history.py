"""Keeps the ratios of each measured commit, and shows the last ones side by side, so that a slower one shows.

`benchmarks/results/speed.jsonl` has one object a commit; `benchmarks/speed.md` is the table made of it. Only
ratios are kept: both jobs of a ratio ran in turns in one process, so that the machine matters little.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "results" / "speed.jsonl"
PAGE = Path(__file__).parent / "speed.md"
_SHOWN = 8
"""Commits that the table shows."""
_SLOWER = 1.1
"""A ratio as a multiple of the median of the earlier ones, from which it is marked."""

Ratios = Mapping[str, Mapping[str, float]]
"""Title of a comparison -> job -> its CPU time as a multiple of the first job's."""


class Measured(NamedTuple):
    """What one commit was measured to take.

    Attributes:
        commit: its short hash, with `+` where files differed from it.
        day: the last day on which it was measured, ISO.
        ratios: the ratios.
    """

    commit: str
    day: str
    ratios: Ratios


def read(file: Path = FILE) -> list[Measured]:
    """Return all measurements, the oldest first; none where there is no file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [Measured(**json.loads(line)) for line in lines]


def add(rows: Sequence[Measured], new: Measured) -> list[Measured]:
    """Return the measurements with another; what the commit had of other comparisons stays in its row."""
    known = next((row for row in rows if row.commit == new.commit), None)
    merged = new if known is None else new._replace(ratios={**known.ratios, **new.ratios})
    return [*(row for row in rows if row is not known), merged]


def render(rows: Sequence[Measured]) -> str:
    """Return the page: one table a comparison, one column a commit, the newest last and bold where slower."""
    out = [
        "# Speed, commit by commit",
        "",
        "Made by `make bench`: CPU time as a multiple of the first job's of each table. Bold: more than "
        f"{_SLOWER:g} times the median of the earlier commits.",
    ]
    for title in dict.fromkeys(title for row in rows for title in row.ratios):
        found = [row for row in rows if title in row.ratios][-_SHOWN:]
        out += ["", f"## {title}", ""]
        out += ["| job | " + " | ".join(f"{row.commit} ({row.day})" for row in found) + " |"]
        out += ["|---|" + "---:|" * len(found)]
        for job in dict.fromkeys(job for row in found for job in row.ratios[title]):
            values = [row.ratios[title].get(job) for row in found]
            out += [f"| {job} | " + " | ".join(_cell(values, at) for at in range(len(values))) + " |"]
    return "\n".join(out) + "\n"


def _cell(values: Sequence[float | None], at: int) -> str:
    value, earlier = values[at], [v for v in values[:at] if v is not None]
    if value is None:
        return ""
    slower = bool(earlier) and value > _SLOWER * statistics.median(earlier)
    return f"**{value:.2f}**" if slower else f"{value:.2f}"


def store(ratios: Ratios) -> None:
    """Add what was measured now to the file and the page."""
    new = Measured(_commit(), datetime.now(UTC).date().isoformat(), ratios)
    rows = add(read(), new)
    FILE.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows), encoding="utf-8")
    PAGE.write_text(render(rows), encoding="utf-8")
    print(f"wrote {FILE.name} and {PAGE.name}")


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    own = [f":(top,exclude)benchmarks/{name}" for name in ("results", PAGE.name)]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", *own)
    return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
