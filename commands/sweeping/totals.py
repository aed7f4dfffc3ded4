"""Counts of a sweep: how many cases of each group are right at each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .case import GOOD, NOT_JUDGED, Row
from .history import Past

ALL = "all"


@dataclass(slots=True)
class Total:
    """The number of good cases among the judged ones.

    Attributes:
        right: equal or clean.
        judged: all but those that a judge left out.
        cpu: seconds of CPU.
    """

    right: int = 0
    judged: int = 0
    cpu: float = field(default=0.0)

    def add(self, verdict: str, cpu: float) -> None:
        """Count a case."""
        self.right += verdict in GOOD
        self.judged += verdict != NOT_JUDGED
        self.cpu += cpu

    def __str__(self) -> str:
        return f"{self.right} of {self.judged}" if self.judged else ""


def totals(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return (headings, lines) of the table of groups by step; a line for all where there are several."""
    steps = list(dict.fromkeys(row.step for row in rows))
    groups = list(dict.fromkeys(row.group for row in rows))
    found: dict[tuple[str, str], Total] = {}
    for row in rows:
        for group in {row.group, ALL}:
            found.setdefault((group, row.step), Total()).add(row.verdict, row.cpu)
    lines = [g for g in groups if g] if any(groups) else []
    lines += [ALL] if len(lines) != 1 else []
    return ["group", *steps], [[g, *(str(found.get((g, step), "")) for step in steps)] for g in lines]


def totals_of_history(history: Iterable[Past]) -> tuple[list[str], list[list[str]]]:
    """Return (headings, lines) of the table of sweeps, the newest first: when, of what, right, CPU hours."""
    sweeps = list(history)[::-1]
    steps = list(dict.fromkeys(step for past in sweeps for _, step in past.results))
    lines: list[list[str]] = []
    for past in sweeps:
        found = {step: Total() for step in steps}
        for (_, step), (verdict, cpu) in past.results.items():
            found[step].add(verdict, cpu)
        hours = sum(total.cpu for total in found.values()) / 3600
        lines.append([past.at, past.label, *(str(found[step]) for step in steps), f"{hours:.2f}"])
    return ["sweep", "of", *steps, "CPU h"], lines
