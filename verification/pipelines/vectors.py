"""Explains how vectors of numbers of two pipelines differ: boxes, columns, scales of audio and features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .explanation import CLOSE, Explanation, affine, fit, normalisation

_COLUMNS = 64
"""Columns up to which another order of them is looked for."""
_ROWS = 8
"""Vectors from which on a law of each column is told."""


def explain_numbers(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Return what makes vectors of floats of the second pipeline those of the first; empty for nothing."""
    if len({v.shape for side in (first, second) for v in side}) != 1 or first[0].dtype.kind != "f":
        return []
    a, b = (np.stack(list(side)).astype(np.float64) for side in (first, second))
    a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    if a.shape[0] < 2 or a.shape[1] < 2:
        return []
    found = _explain_boxes(a, b) if a.shape[1] == 4 else None
    found = found or _explain_order(a, b)
    if found is not None:
        return [found]
    for axis in (None, 1):
        if axis == 1 and len(a) < _ROWS:
            continue
        slope, shift, left = fit(a, b, axis)
        if left <= CLOSE and np.abs(slope - 1).max() + np.abs(shift).max() > CLOSE:
            if axis is None:
                return [affine(slope, shift)]
            text = "columns have another mean or deviation each"
            advice = (
                f"give both one mean and standard deviation of each column, or {normalisation(slope, shift)}"
            )
            return [Explanation(text, advice)]
    return []


def _explain_boxes(a: np.ndarray, b: np.ndarray) -> Explanation | None:
    """Explain boxes of two corners against a corner with width and height."""
    sized = [np.concatenate([v[:, :2], v[:, 2:] - v[:, :2]], 1) for v in (a, b)]
    if np.allclose(sized[0], b, rtol=1e-4, atol=1e-4):
        text = "boxes are a corner with width and height, not two corners"
        return Explanation(text, "add the corner to width and height")
    if np.allclose(a, sized[1], rtol=1e-4, atol=1e-4):
        text = "boxes are two corners, not a corner with width and height"
        return Explanation(text, "take the first corner off the second")
    return None


def _explain_order(a: np.ndarray, b: np.ndarray) -> Explanation | None:
    """Explain columns in another order."""
    count = a.shape[1]
    if count > _COLUMNS or len(np.unique(a.round(9), axis=1).T) != count:
        return None
    places = [
        next((k for k in range(count) if np.allclose(a[:, j], b[:, k], rtol=1e-4, atol=1e-5)), None)
        for j in range(count)
    ]
    if None in places or places == list(range(count)) or len(set(places)) != count:
        return None
    shown = ", ".join(str(k) for k in places[:_SHOWN]) + (", …" if count > _SHOWN else "")
    text = f"columns are in another order: the first's are the second's {shown}"
    return Explanation(text, "put the columns into the order of the first")


_SHOWN = 8
"""Columns whose places a line lists."""
