"""Stores what a run of a whole corpus found, for the page of coverage: counts, and failures by their reason.

    python benchmarks/suites/store_results.py mindspore|mxnet|conformance|torch ROWS    # its rows.jsonl

`benchmarks/results/NAME.json`, which the documentation shows in both languages, gets the targets of the rows,
with the commit that was measured: the checkout's, or the one that --commit names. Its other targets stay.
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
PEERS = ("onnx2torch",)
"""Targets that converters of others made, whose failures are counted only."""
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
    """Return counts by kind and target, and the failures of each target, those of one reason together."""
    right: Counter[tuple[str, str]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    failures: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in found:
        counted[row.kind, row.target] += 1
        right[row.kind, row.target] += not row.why
        if row.why and row.target not in PEERS:
            failures[_reason(row.why), row.target].append(row.case)
    table: dict[str, dict[str, list[int]]] = {}
    for (kind, target), count in counted.items():
        table.setdefault(kind, {})[target] = [right[kind, target], count]
    ordered = sorted(failures.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "table": table,
        "failures": [
            {"why": why, "target": target, "count": len(cases), "cases": sorted(cases)[:_CASES]}
            for (why, target), cases in ordered
        ],
    }


def merged(stored: dict[str, Any], run: dict[str, Any], commit: str) -> dict[str, Any]:
    """Return what is stored with the targets of a run in place of what it had of them."""
    targets = list(dict.fromkeys(target for row in run["table"].values() for target in row))
    measured = {"commit": commit, "measured": f"{datetime.now(UTC):%Y-%m-%d}"}
    table: dict[str, dict[str, list[int]]] = {}
    for kind in [*stored["table"], *run["table"]]:
        kept = {t: cell for t, cell in stored["table"].get(kind, {}).items() if t not in targets}
        table[kind] = kept | run["table"].get(kind, {})
    return {
        "runs": stored["runs"] | dict.fromkeys(targets, measured),
        "table": {kind: row for kind, row in table.items() if row},
        "failures": [f for f in stored["failures"] if f["target"] not in targets] + run["failures"],
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
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    nothing = '{"runs": {}, "table": {}, "failures": []}'
    stored = json.loads(path.read_text(encoding="utf-8") if path.is_file() else nothing)
    summary = merged(stored, summarised(found), commit)
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
