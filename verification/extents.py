"""Measures arrays of float32 some elements at a time, so that what is computed stays in a cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_AT_ONCE = 2**14
"""Number of elements at a time: in float64 they take 128 KB, which a core's own cache holds."""


class Extent(NamedTuple):
    """Where two arrays of finite numbers lie.

    Attributes:
        apart: their largest absolute difference.
        low: the least element of the first.
        high: its largest element.
    """

    apart: float
    low: float
    high: float

    @property
    def scale(self) -> float:
        """The largest absolute value of the first array."""
        return max(-self.low, self.high)


def measure_extent(source: np.ndarray, target: np.ndarray) -> Extent | None:
    """Return where two float32 arrays of one shape lie; None for other types, none or non-finite elements.

    Differences are taken in float64, in which they are exact but for the last place.
    """
    if not source.size or source.dtype != np.float32 or target.dtype != np.float32:
        return None
    s, t = source.reshape(-1), target.reshape(-1)
    wide = np.empty((2, min(_AT_ONCE, s.size)))
    apart, low, high = 0.0, np.inf, -np.inf
    for at in range(0, s.size, _AT_ONCE):
        a, b = s[at : at + _AT_ONCE], t[at : at + _AT_ONCE]
        x, y = wide[0, : a.size], wide[1, : a.size]
        x[...], y[...] = a, b
        with np.errstate(invalid="ignore"):
            np.subtract(x, y, out=x)
        most = float(np.abs(x, out=x).max())
        if not np.isfinite(most):
            return None
        apart, low, high = max(apart, most), min(low, float(a.min())), max(high, float(a.max()))
    return Extent(apart, low, high)
