"""Compares quantised values: where floats lie between two integers, kernels may round to either side."""

from __future__ import annotations

import numpy as np

from .compare import Comparison

_SHARE = 200
"""One in so many elements may be off by a step: kernels add up in another order, or round their biases."""

_SHARE_OF_CHANNEL = 20
"""Likewise in each channel, so that one channel that is scaled otherwise is no accident."""


def compare_rounded(source: np.ndarray, target: np.ndarray) -> Comparison | None:
    """Compare integers to which two kernels have rounded floats; None where more than that parts them."""
    if source.shape != target.shape or source.dtype != target.dtype or source.dtype.kind not in "iu":
        return None
    off = np.abs(source.astype(np.int64) - target)
    if off.max(initial=0) > 1 or np.count_nonzero(off) > 1 + off.size // _SHARE:
        return None
    if off.ndim > 1 and off.size:
        channels = np.moveaxis(off, 1, 0).reshape(off.shape[1], -1)
        if (channels.sum(1) > 1 + channels.shape[1] // _SHARE_OF_CHANNEL).any():
            return None
    most, largest = float(off.max(initial=0)), float(np.abs(source.astype(np.int64)).max(initial=0))
    remark = f"{np.count_nonzero(off)} of {off.size} elements are rounded to the other side" if most else ""
    return Comparison(source.shape, most, most / largest if largest else 0.0, most, True, remark)
