"""The last sweeps of a suite, small: when, of what, and each case's verdict and CPU seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...ir import UsageError
from .case import VERDICTS, Row

KEPT = 20
"""Sweeps that a history keeps."""

_DAY = len("2026-01-31")

Key = tuple[str, str]
"""Name and step of a case."""


@dataclass(frozen=True, slots=True)
class Past:
    """One sweep.

    Attributes:
        at: date and time, in UTC.
        label: what was swept, such as a version or commit.
        results: case -> (verdict, CPU seconds).
    """

    at: str
    label: str
    results: dict[Key, tuple[str, float]]

    def to_line(self) -> str:
        """Return it as a line of JSON."""
        rows = [[*key, *result] for key, result in self.results.items()]
        return json.dumps({"at": self.at, "label": self.label, "rows": rows}, ensure_ascii=False) + "\n"


def read_history(path: Path) -> list[Past]:
    """Return the sweeps of a history, the oldest first; none where there is no file.

    Raises:
        UsageError: for a file that holds something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("E001", f"expected the history of sweeps, got {error}", place=str(path)) from error
    found: list[Past] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_past(json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise UsageError(
                "E001", f"expected a sweep of a history, got {error}", place=f"{path}:{number}"
            ) from error
    return found


def _past(document: Any) -> Past:
    match document:
        case {"at": str(at), "label": str(label), "rows": list(rows)}:
            pass
        case _:
            raise ValueError("no `at`, `label` and `rows`")
    results: dict[Key, tuple[str, float]] = {}
    for row in rows:
        match row:
            case [str(name), str(step), str(verdict), int(cpu) | float(cpu)] if verdict in VERDICTS:
                results[name, step] = (verdict, float(cpu))
            case _:
                raise ValueError(f"a row of {row!r}")
    return Past(at, label, results)


def added(history: Sequence[Past], rows: Sequence[Row], label: str) -> list[Past]:
    """Return a history with a sweep that ended now, in place of one of the same label and day."""
    now = Past(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        label,
        {(row.name, row.step): (row.verdict, row.cpu) for row in rows},
    )
    before = list(history)
    if before and before[-1].label == now.label and before[-1].at[:_DAY] == now.at[:_DAY]:
        before.pop()
    return [*before, now][-KEPT:]
