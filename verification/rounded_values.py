"""Compares quantised values: where floats lie between two integers, kernels may round to either side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compare import Comparison


class Allowed(NamedTuple):
    """The bounds within which two kernels may round floats to other integers.

    Attributes:
        steps: the most that one is off.
        share: one in so many elements may be off: kernels add up in another order, or round their biases.
        share_of_channel: likewise in each channel, so that one that is scaled otherwise is no accident.
    """

    steps: int
    share: int
    share_of_channel: int


LAYER = Allowed(1, 200, 20)
LAYERS = Allowed(3, 20, 3)
"""Bounds of layers behind one another, which spread what the first has rounded; each is compared too."""


def compare_rounded(source: np.ndarray, target: np.ndarray, allowed: Allowed) -> Comparison | None:
    """Compare integers to which two kernels have rounded floats; None where more than that parts them."""
    if source.shape != target.shape or source.dtype != target.dtype or source.dtype.kind not in "iu":
        return None
    off = np.abs(source.astype(np.int64) - target)
    count, most = np.count_nonzero(off), float(off.max(initial=0))
    if most > allowed.steps or count > 1 + off.size // allowed.share:
        return None
    if off.ndim > 1 and off.size:
        channels = np.moveaxis(off, 1, 0).reshape(off.shape[1], -1)
        if (np.count_nonzero(channels, 1) > 1 + channels.shape[1] // allowed.share_of_channel).any():
            return None
    largest = float(np.abs(source.astype(np.int64)).max(initial=0))
    remark = f"{count} of {off.size} elements are rounded to the other side" if most else ""
    return Comparison(source.shape, most, most / largest if largest else 0.0, most, True, remark)
