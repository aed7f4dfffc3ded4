"""The table of environments in which the smoke suite was run: `benchmarks/results/versions.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generated_reference import Writer

STORED = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "versions.json"
PACKAGES = {
    "torch": "torch",
    "mindspore": "MindSpore",
    "onnx": "onnx",
    "onnxruntime": "ONNX Runtime",
    "numpy": "NumPy",
    "protobuf": "protobuf",
}


def write_versions(writer: Writer) -> None:
    """The versions of each environment, what passed in it, and what failed."""
    held = json.loads(STORED.read_text(encoding="utf-8"))
    suites = list(dict.fromkeys(suite for row in held.values() for suite in row["suites"]))
    names = {
        name: name if row["claimed"] else f"{name} ({writer.word('below the bound')})"
        for name, row in held.items()
    }
    rows = [
        (
            *(names[name], row["python"]),
            *(row["versions"].get(package, "") for package in PACKAGES),
            *(row["date"], f"`{row['commit']}`"),
        )
        for name, row in held.items()
    ]
    writer.table(("environment", "Python", *PACKAGES.values(), "measured", "commit"), rows)
    rows = [
        (names[name], *(_cell(row["suites"].get(suite)) for suite in suites)) for name, row in held.items()
    ]
    writer.table(("environment", *suites), rows)
    writer.add(writer.word("A cell is passed of run, without skipped tests."))
    for name, row in held.items():
        causes = [
            f"{suite}, {count}: `{text.replace('`', '')}`"
            for suite, counts in row["suites"].items()
            for text, count in counts["failures"].items()
        ]
        if causes:
            writer.add(f"**{name}**")
            writer.add(*(f"- {cause}" for cause in causes))


def _cell(counts: dict[str, int] | None) -> str:
    return "" if counts is None else f"{counts['passed']} / {counts['passed'] + counts['failed']}"
