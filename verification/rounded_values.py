"""Compares quantised values: where floats lie between two integers, kernels may round to either side."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from ..ir import ModelError
from .compare import EPSILON, MULTIPLE, Comparison, Yardstick, compare
from .runners.runs import Run, Runner, Unrounded, Unrounding


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


_PLAUSIBLE = 0.125
"""Part of a step within which a source rounds as it is read; beyond it, the reading tells nothing."""

LAYER = Allowed(1, 200, 20)
LAYERS = Allowed(3, 20, 3)
"""Bounds of layers behind one another, which spread what the first has rounded; each is compared too."""


class RoundedValues:
    """The integers that stand for floats at the edges of a quantised source's calls.

    Args:
        source: the source's run.
        runner: its runner.
        inputs: inputs of the run.
    """

    def __init__(self, source: Run, runner: Runner, inputs: Mapping[str, np.ndarray]) -> None:
        self._source, self._runner, self._inputs = source, runner, inputs

    def compare(
        self,
        call: str,
        side: Literal["inputs", "outputs"],
        index: int,
        target: np.ndarray,
        by: Yardstick,
        *,
        spreads: bool = False,
    ) -> Comparison:
        """Compare what enters or leaves a call with the target's.

        Args:
            call: name of the call.
            side: which side of it.
            index: which of the source's values.
            target: the target's.
            by: the error that is allowed.
            spreads: whether calls inside it may round to the other side, too.
        """
        source, found = getattr(self._source.calls[call], side)[index], None
        if not spreads and not np.array_equal(source, target) and (call, side, index) in self._unrounded:
            found = compare_unrounded(source, target, self._unrounded[call, side, index], by.ulps)
        allowed = LAYERS if spreads else LAYER
        return found or compare_rounded(source, target, allowed) or compare(source, target, by)

    @cached_property
    def _unrounded(self) -> Mapping[tuple[str, str, int], Unrounded]:
        """The values before they were rounded; none where the source does not show them."""
        if not isinstance(self._runner, Unrounding):
            return {}
        try:
            return self._runner.run_unrounded(self._inputs)
        except ModelError:
            return {}


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


def compare_unrounded(
    source: np.ndarray, target: np.ndarray, before: Unrounded, ulps: int
) -> Comparison | None:
    """Compare integers to which two kernels have rounded floats that are known; None where they are not.

    Either may round what lies in the middle between two integers, but for the error of its arithmetic, to the
    other side: the source shows its own error, the target may round its bias and be some units in the last
    place off besides.

    Args:
        source: the source's integers.
        target: the target's.
        before: the floats.
        ulps: units in the last place of the largest of them that the runtimes' arithmetic may cost.
    """
    steps = before.steps
    if steps.dtype.kind != "f" or not steps.shape == source.shape == target.shape or not steps.size:
        return None
    if source.dtype != target.dtype or source.dtype.kind not in "iu":
        return None
    own, other = (np.maximum(np.abs(side - steps) - 0.5, 0.0) for side in (source, target))
    error = float(own.max())
    if not error <= _PLAUSIBLE:
        return None
    units = ulps * EPSILON["float32"] * max(1.0, float(np.abs(steps).max()))
    off, wrong = source != target, other > max(MULTIPLE * error, before.unit / 2) + units
    count, most = np.count_nonzero(off & wrong), float(np.abs(source.astype(np.int64) - target).max())
    differing = np.count_nonzero(off)
    remark = f"{differing} of {off.size} elements are rounded to the other side" if differing else ""
    if count:
        size, far = off.size, float(other.max())
        remark = f"{count} of {size} elements are up to {far:.2g} steps further off than rounding explains"
    largest = float(np.abs(source.astype(np.int64)).max())
    relative = most / largest if largest else 0.0
    return Comparison(source.shape, most, relative, 0.0 if count else most, not count, remark)
