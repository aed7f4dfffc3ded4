"""The table of speed: one column a commit, a slower one marked, one commit measured in pieces one row."""

from __future__ import annotations

import json
from pathlib import Path

from regraft.benchmarks.history import Measured, add, read, render


def test_a_slower_commit_is_marked() -> None:
    ratios = (1.0, 1.05, 1.3)
    rows = [Measured(f"c{n}", "2026-11-23", {"net": {"bare": 1.0, "ours": r}}) for n, r in enumerate(ratios)]
    text = render(rows)
    assert "| job | c0 (2026-11-23) | c1 (2026-11-23) | c2 (2026-11-23) |" in text
    assert "| ours | 1.00 | 1.05 | **1.30** |" in text
    assert "| bare | 1.00 | 1.00 | 1.00 |" in text


def test_a_commit_that_is_measured_in_pieces_is_one_row(tmp_path: Path) -> None:
    rows = add([], Measured("a", "2026-11-22", {"net": {"ours": 1.0}}))
    rows = add(rows, Measured("b", "2026-11-22", {"net": {"ours": 2.0}}))
    rows = add(rows, Measured("a", "2026-11-23", {"other": {"ours": 3.0}}))
    assert rows[-1] == Measured("a", "2026-11-23", {"net": {"ours": 1.0}, "other": {"ours": 3.0}})
    assert len(rows) == 2
    file = tmp_path / "speed.jsonl"
    assert read(file) == []
    file.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
    assert read(file) == rows
    assert "| ours | 2.00 | 1.00 |" in render(rows)


def test_a_job_that_a_commit_lacks_is_an_empty_cell() -> None:
    rows = [Measured("a", "d", {"net": {"x": 1.0}}), Measured("b", "d", {"net": {"y": 1.0}})]
    assert "| x | 1.00 |  |" in render(rows)
