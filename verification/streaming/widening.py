"""Widens arrays of narrow floating-point numbers."""

from __future__ import annotations

import numpy as np


def widen_array(array: np.ndarray) -> np.ndarray:
    """Return an array in float32 if it is narrower: always a copy then, exact."""
    if array.dtype.name == "bfloat16":
        wide = np.empty(array.shape, np.uint32)
        np.copyto(wide, array.view(np.uint16))
        np.left_shift(wide, np.uint32(16), out=wide)
        return wide.view(np.float32)
    return array.astype(np.float32) if array.dtype == np.float16 else array
