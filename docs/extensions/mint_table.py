"""The table of what runs of `mindspore.mint.nn` on CPU: a stored run, `benchmarks/results/mint.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generated_reference import Writer

STORED = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "mint.json"


def write_mint(writer: Writer) -> None:
    """Counts by mode, then the layers that raise in PyNative mode."""
    found = json.loads(STORED.read_text(encoding="utf-8"))
    rows = [
        (
            writer.word(kind),
            *(str(counts.get(verdict, 0)) for verdict in ("equal", "different", "error", "of")),
        )
        for kind, counts in found["summary"].items()
    ]
    writer.table(("measured", "equal to torch", "different", "raises", "of"), rows)
    raising = [
        f"`{row['call'].partition('(')[0]}`"
        for row in found["rows"]
        if row["call"].startswith("nn.") and row["PyNative"] not in ("equal", "different")
    ]
    head = writer.word("Layers that raise in PyNative mode on CPU")
    version = f"MindSpore {found['mindspore']}, {found['commit']}, {found['date']}"
    writer.add(f"{head} ({version}): {', '.join(dict.fromkeys(raising))}.")
