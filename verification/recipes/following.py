"""Two training scripts followed for some steps from equal weights on equal data, measured by float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..training.pairs import Pair
from .report import LeftAt, TrajectoryReport
from .trajectories import Trajectory

_MULTIPLE = 4
"""Bound of a target's distance, in multiples of the source's movement by rounding."""

_FLOOR = 5e-3
"""Share of a parameter's way that is always allowed: a rectifier's new decision exceeds rounding."""

_LOSS_FLOOR = 2e-4
_DECIDED = 0.1
"""Part of its way that rounding alone moves a parameter, from which on nothing is told by it."""

_ULP = 2.0**-23
_UNITS = 16
"""Units in the last place that another runtime's rounding may be off by at each step."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Trajectories of two sides.

    Attributes:
        source: the source's.
        target: the target's, under its own names.
        exact: the source's in float64; the source's itself where there is none.
        expected: what the target should do: `exact`, or that by the target's own update rule.
        is_exact: whether `exact` is in float64.
        witness: the source's from weights some units apart.
    """

    source: Trajectory
    target: Trajectory
    exact: Trajectory
    expected: Trajectory
    witness: Trajectory
    is_exact: bool

    def compare(self, pairs: Sequence[Pair]) -> TrajectoryReport:
        """Find where the target first leaves tolerance, and its distance at the end."""
        steps = len(self.source.losses)
        left, apart, drifted = None, 0.0, 0.0
        decided: dict[str, None] = {}
        held = sum(p.target in self.target.start and p.sources[0] in self.source.start for p in pairs)
        drifts: dict[str, float] = {}
        for step in sorted(self.source.values):
            worst = self._loss(step)
            for pair in pairs:
                found = self._parameter(pair, step, drifts)
                if found is None:
                    continue
                off, drift, tolerance = found
                if drift > _DECIDED:
                    decided.setdefault(pair.sources[0])
                    continue
                if pair.sources[0] not in decided:
                    if not off <= tolerance and (
                        worst is None or off / tolerance > worst.apart / worst.tolerance
                    ):
                        worst = LeftAt(step, pair.sources[0], off, tolerance)
                    if step == steps:
                        apart, drifted = max(apart, off), max(drifted, drift)
            if worst is not None:
                left = worst
                break
        exact = self.exact.losses if self.is_exact else []
        return TrajectoryReport(
            steps, self.source.losses, self.target.losses, exact, left, apart, drifted, tuple(decided), held
        )

    def _loss(self, step: int) -> LeftAt | None:
        """Whether the losses up to a step agree."""
        last = min(step, len(self.target.losses))
        mine, theirs = (np.asarray(t.losses[:last]) for t in (self.source, self.target))
        exact, expected = (np.asarray(t.losses[:last]) for t in (self.exact, self.expected))
        scale = np.maximum(np.abs(expected), 1e-3 * np.abs(expected).max(initial=1e-30))
        other = np.asarray(self.witness.losses[:last])
        drift = np.maximum.accumulate(np.maximum(np.abs(mine - exact), np.abs(mine - other)) / scale)
        off = np.abs(theirs - expected) / scale
        tolerance = _LOSS_FLOOR + _MULTIPLE * drift
        wrong = np.flatnonzero(~(off <= tolerance) & ~(drift > _DECIDED))
        if not len(wrong):
            return None
        at = int(wrong[0])
        return LeftAt(at + 1, "loss", float(off[at]), float(tolerance[at]))

    def _parameter(
        self, pair: Pair, step: int, drifts: dict[str, float]
    ) -> tuple[float, float, float] | None:
        """Return (how far the target is from where it should be, the source likewise, what is allowed)."""
        name = pair.sources[0]
        sides = (self.source, self.exact, self.expected)
        if pair.target not in self.target.start or any(name not in t.start for t in sides):
            return None
        start = pair.applied(self.expected.start[name]).astype(np.float64)
        mine, exact, wanted = (pair.applied(t.values[step][name]).astype(np.float64) for t in sides)
        theirs = self.target.values[step][pair.target].astype(np.float64)
        other = pair.applied(self.witness.values[step][name]).astype(np.float64)
        # how far float32 itself ends from float64, and from a start that is units off
        apart = max(_length(mine - exact), _length(mine - other))
        if start.shape != theirs.shape:
            return None
        way = _length(wanted - start)
        rounding = _ULP * step * _length(start)
        if (
            way <= rounding
        ):  # no gradient: where float32 moves it, Adam makes as much of that as of a real one
            still = _length(theirs - wanted) <= _UNITS * _ULP * (step + 4) * max(_length(start), 1e-30)
            return 0.0, 0.0 if still else 1.0, 1.0
        drift = max(drifts.get(name, 0.0), apart / way)
        drifts[name] = drift
        return _length(theirs - wanted) / way, drift, _FLOOR + _MULTIPLE * drift + rounding / way


def _length(values: np.ndarray) -> float:
    return float(np.linalg.norm(values.reshape(-1)))


def moved(trajectory: Trajectory, names: Mapping[str, object]) -> bool:
    """Whether any of the parameters is another after the steps."""
    last = trajectory.values[max(trajectory.values)]
    return any(not np.array_equal(trajectory.start[n], last[n], equal_nan=True) for n in names if n in last)
