"""Learning rates in train.py, as stretches of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

_RUNS = 12
"""Stretches up to which a schedule is written as stretches, though each is one step."""


def schedule_text(rates: Sequence[float], callee: str) -> str:
    """Return the call that makes a schedule of stretches, the last of which stays.

    A stretch is ``(rate, steps)`` or ``(first, last, steps)``.
    """
    stretches = list(_stretches(rates))
    if len(stretches) > _RUNS and 2 * len(stretches) > len(rates):
        return f"{callee}(*[(rate, 1) for rate in {[*rates]!r}])"
    return f"{callee}({', '.join(map(repr, stretches))})"


def _stretches(rates: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Yield runs of one rate, and of rates on a line."""
    runs = [(rate, len(list(same))) for rate, same in groupby(rates)]
    at = 0
    while at < len(runs):
        end = at
        while end < len(runs) and runs[end][1] == 1 and _on_a_line([r for r, _ in runs[at : end + 1]]):
            end += 1
        if end - at > 2:
            yield (runs[at][0], runs[end - 1][0], end - at)
            at = end
        else:
            yield runs[at]
            at += 1


def _on_a_line(rates: Sequence[float]) -> bool:
    if len(rates) < 3:
        return True
    slope = (rates[-1] - rates[0]) / (len(rates) - 1)
    scale = max(map(abs, rates)) * 1e-6
    return all(abs(rates[0] + slope * at - rate) <= scale for at, rate in enumerate(rates))
