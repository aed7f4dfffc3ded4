"""Measures arrays of float32 some elements at a time, so that what is computed stays in a cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_AT_ONCE = 2**14
"""Number of elements at a time: in float64 they take 128 KB, which a core's own cache holds."""


_FILLED = 1e3
"""Least size of a number that fills places, as masks do, and how many times larger than the others it is."""


class Extent(NamedTuple):
    """The ranges of two arrays of finite numbers.

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


def find_filler(source: np.ndarray, target: np.ndarray, extent: Extent | None = None) -> np.ndarray | None:
    """Return where both arrays hold one number that fills places, far larger than all others; None without.

    Masks write -1e9 and the least float: measured by it, whatever else an array holds would be equal.

    Args:
        source: an array of floats, of the target's shape.
        target: the other.
        extent: where they lie, which tells for most that nothing fills them.
    """
    if (
        source.size < 3
        or source.dtype.kind == "c"
        or (extent is not None and (extent.scale < _FILLED or not extent.apart))
    ):
        return None
    sizes = np.abs(source.astype(np.float64))
    sizes[~np.isfinite(sizes)] = 0.0
    largest = float(sizes.max())
    if largest < _FILLED:
        return None
    found = sizes == largest
    count = int(np.count_nonzero(found))
    if count < 2 or count == source.size or not bool((source[found] == target[found]).all()):
        return None
    return found if float(sizes[~found].max()) * _FILLED <= largest else None
