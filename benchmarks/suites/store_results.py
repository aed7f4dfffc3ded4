"""Stores what a full run of a corpus found, for the page of coverage: counts, and failures by their reason.

    python benchmarks/suites/store_results.py mindspore|mxnet|conformance|torch ROWS    # its rows.jsonl

Written is `benchmarks/results/NAME.json`, which the documentation shows in both languages, with the commit
that was measured: the checkout's, or the one that --commit names.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from verdicts import read_rows, wrong

RESULTS = Path(__file__).parent.parent / "results"
NAMES = ("conformance", "mindspore", "mxnet", "torch")
_LONGEST = 160
"""Characters of a reason that are kept."""
_CASES = 12
"""Cases of one reason that are named; all are counted."""
_ADDRESS = re.compile(r"0x[0-9a-f]{4,}|/[\w.-]+(?:/[\w.-]+)+/")
"""What differs from run to run, or names the machine."""


class Found(NamedTuple):
    """What one case gave for one target.

    Attributes:
        kind: row of the table.
        target: column of the table.
        case: its name.
        why: what is wrong; empty where it is right.
    """

    kind: str
    target: str
    case: str
    why: str


def found_in(path: Path) -> list[Found]:
    """What the rows of a sweep say of the cases that were judged."""
    return [Found(row["group"], row["step"], row["name"], "; ".join(wrong(row))) for row in read_rows(path)]


def summarised(found: list[Found]) -> dict[str, Any]:
    """Return counts by kind and target, and the failures, those of one reason together and the most first."""
    right: Counter[tuple[str, str]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    failures: dict[str, list[str]] = defaultdict(list)
    for row in found:
        counted[row.kind, row.target] += 1
        right[row.kind, row.target] += not row.why
        if row.why:
            failures[_reason(row.why)].append(f"{row.case} {row.target}")
    table: dict[str, dict[str, list[int]]] = {}
    for (kind, target), count in counted.items():
        table.setdefault(kind, {})[target] = [right[kind, target], count]
    ordered = sorted(failures.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "table": table,
        "failures": [
            {"why": why, "count": len(cases), "cases": sorted(cases)[:_CASES]} for why, cases in ordered
        ],
    }


def _reason(why: str) -> str:
    """A reason in a line, without addresses and folders of the machine."""
    return _ADDRESS.sub("…", " ".join(why.split()))[:_LONGEST]


def store(name: str, rows: Path, commit: str, folder: Path = RESULTS) -> Path:
    """Write the summary of rows, and return where.

    Raises:
        SystemExit: where there is no row.
    """
    found = found_in(rows)
    if not found:
        raise SystemExit(f"expected rows of a run of `{name}` in `{rows}`, got none")
    summary = {"commit": commit, "measured": f"{datetime.now(UTC):%Y-%m-%d}", **summarised(found)}
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Store what a file of rows says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--commit", help="that was measured; else the checkout's")
    options = parser.parse_args()
    commit = (
        options.commit
        or subprocess.run(
            ["git", "rev-parse", "--short=10", "HEAD"],
            cwd=Path(__file__).parent,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    print(f"wrote {store(options.name, options.rows, commit)}")


if __name__ == "__main__":
    main()
