"""The source element that each place of a Resize in nearest mode takes, where all sizes are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_ORIGINS: dict[str, Callable[[np.ndarray, np.float32], np.ndarray]] = {
    "half_pixel": lambda at, scale: (at + np.float32(0.5)) / scale - np.float32(0.5),
    "asymmetric": lambda at, scale: at / scale,
}
"""Source position of a place in the result, in float32 as in the runtimes: places may tie."""

_ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
}


def has_origins(coordinates: str) -> bool:
    """Whether `nearest_places` knows a coordinate_transformation_mode."""
    return coordinates in _ORIGINS


def nearest_places(coordinates: str, rounding: str, size: int, wanted: int, scale: float) -> np.ndarray:
    """Return the element of an axis of `size` that each of `wanted` places takes.

    Args:
        coordinates: the coordinate_transformation_mode, one that has origins.
        rounding: the nearest_mode.
        size: of the axis.
        wanted: of the result's axis.
        scale: by which the axis is resized.
    """
    at = np.arange(wanted, dtype=np.float32)
    return _ROUNDED[rounding](_ORIGINS[coordinates](at, np.float32(scale))).clip(0, size - 1)
