"""Two schedules of learning rates: where they differ, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_CLOSE = 1e-4
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class RateDifference:
    """The difference between two schedules.

    Attributes:
        source: the source's in short.
        target: the target's.
        why: the kind of difference, in words.
        advice: what to do about it, in words; empty where that depends on the optimizer alone.
    """

    source: str
    target: str
    why: str
    advice: str


def compare_rates(source: Sequence[float], target: Sequence[float]) -> RateDifference | None:
    """Return the difference of two schedules over their common steps; None if there is none."""
    steps = min(len(source), len(target))
    a, b = np.asarray(source[:steps]), np.asarray(target[:steps])
    scale = float(np.abs(a).max(initial=0.0)) * _CLOSE * 1e-2
    if _same(a, b, scale):
        return None
    first = int(np.flatnonzero(~np.isclose(a, b, rtol=_CLOSE, atol=scale))[0])
    why, advice = _kind(a, b, scale)
    at = slice(first, first + _SHOWN)
    where = f"at step {first}: "
    if np.ptp(a) == 0 == np.ptp(b):
        return RateDifference(f"{a[0]:.5g}", f"{b[0]:.5g}", why, f"a learning rate of {a[0]:.5g}")
    return RateDifference(
        where + ", ".join(f"{v:.5g}" for v in a[at]),
        where + ", ".join(f"{v:.5g}" for v in b[at]),
        why,
        advice,
    )


def _same(a: np.ndarray, b: np.ndarray, scale: float) -> bool:
    return bool(np.allclose(a, b, rtol=_CLOSE, atol=scale))


def _kind(a: np.ndarray, b: np.ndarray, scale: float) -> tuple[str, str]:
    if len(a) > 2 and _same(a[1:], b[:-1], scale):
        return (
            "the target is one step ahead: its first rate is the source's second (off by one)",
            "a schedule whose first rate is the source's first: its value for step - 1",
        )
    if len(a) > 2 and _same(a[:-1], b[1:], scale):
        return (
            "the target is one step behind: its second rate is the source's first (off by one)",
            "a schedule whose first rate is the source's first: its value for step + 1",
        )
    every = _run(a)
    if every > 1 and len(a) > every and _same(a, b[np.arange(len(a)) // every], scale):
        return (
            f"the source changes its rate every {every} steps (an epoch), the target at every step",
            f"a rate for each step that stays for {every} steps",
        )
    every = _run(b)
    if every > 1 and len(b) > every and _same(b, a[np.arange(len(b)) // every], scale):
        return (
            f"the source changes its rate at every step, the target every {every} steps (an epoch)",
            "a rate for each step that changes with every step",
        )
    known = a != 0
    if known.all() and b.any() and np.allclose(b / a, b[0] / a[0], rtol=_CLOSE):
        return (
            f"the target's is {b[0] / a[0]:.4g} times the source's at every step",
            f"rates that are {a[0] / b[0]:.4g} times as large",
        )
    return "", ""


def _run(values: np.ndarray) -> int:
    """Count the equal values at the start."""
    other = np.flatnonzero(values != values[0])
    return int(other[0]) if len(other) else 0
