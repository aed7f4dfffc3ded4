"""The explanation of a difference of two pipelines' values, and that by a scale and a shift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CLOSE = 1e-3
"""Deviation of what is left after a fit, relative to that of the values, up to which it explains them."""

_SHOWN = 8
"""Channels or columns whose numbers a line lists."""

AFFINE = "the first is the second"
"""The beginning of explanations by a scale and a shift alone."""


@dataclass(frozen=True)
class Explanation:
    """An explanation of the difference of two arrays.

    Attributes:
        message: what differs.
        advice: what to do in the second pipeline.
    """

    message: str
    advice: str


def fit(a: np.ndarray, b: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Return slope and shift of each channel by which the first comes from the second, and what is left."""
    x = np.moveaxis(b, axis, 0).reshape(b.shape[axis], -1) if axis is not None else b.reshape(1, -1)
    y = np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1) if axis is not None else a.reshape(1, -1)
    mean = x.mean(1, keepdims=True), y.mean(1, keepdims=True)
    spread = ((x - mean[0]) ** 2).mean(1)
    slope = np.where(
        spread > 0, ((x - mean[0]) * (y - mean[1])).mean(1) / np.where(spread > 0, spread, 1), 1.0
    )
    shift = mean[1][:, 0] - slope * mean[0][:, 0]
    left = y - slope[:, None] * x - shift[:, None]
    scale = float(np.sqrt(((y - mean[1]) ** 2).mean())) or 1.0
    return slope, shift, float(np.sqrt((left**2).mean())) / scale


def affine(slope: np.ndarray, shift: np.ndarray) -> Explanation:
    """Return the explanation of another scale or other statistics: first = slope * second + shift."""
    if np.allclose(slope, 255, rtol=0.01):
        return Explanation("values are a 255th of those of the first", "leave out the division by 255")
    if np.allclose(slope, 1 / 255, rtol=0.01):
        plain = np.allclose(shift, 0, atol=0.01)
        advice = "divide by 255" if plain else "divide by 255 before the normalisation"
        return Explanation("values are 255 times those of the first", advice)
    if np.allclose(slope, 1, atol=1e-3):
        text = f"{AFFINE} plus [{_numbers(shift)}], by channel: another mean"
        return Explanation(
            text, f"give both one mean, or subtract [{_numbers(-shift)}] from what the second gives"
        )
    law = f"times [{_numbers(slope)}] plus [{_numbers(shift)}]"
    text = f"{AFFINE} {law}, by channel: another scale, mean or deviation"
    return Explanation(
        text, f"give both one scale, mean and standard deviation, or {normalisation(slope, shift)}"
    )


def normalisation(slope: np.ndarray, shift: np.ndarray) -> str:
    """Return the step, in words, that makes the first of the second: first = slope * second + shift."""
    if (slope <= 0).any():
        return f"take what the second gives times [{_numbers(slope)}] plus [{_numbers(shift)}]"
    mean, deviation = _numbers(-shift / slope), _numbers(1 / slope)
    return f"normalise what the second gives by the mean [{mean}] and the deviation [{deviation}]"


def _numbers(values: np.ndarray) -> str:
    return ", ".join([*(f"{v + 0.0:.4g}" for v in values[:_SHOWN]), *["…"] * (len(values) > _SHOWN)])
