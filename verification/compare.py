"""Compares arrays: how far apart they are, how far they may be, and why they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

MULTIPLE = 4
"""How many times further from the float64 result than the source's own float32 a target may be."""

IMPLAUSIBLE = 1e-2
"""A float64 result further than this from the source, relative to its scale, is not a more exact one."""

DEFAULTS = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Element type -> tolerance relative to the largest absolute value, where no float64 result is at hand."""

_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


Exact = Callable[[], "np.ndarray | None"]
"""Gives the source's result in float64, or None; called where source and target are not close anyway."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arrays compared.

    Attributes:
        shape: the source's shape.
        max_abs: largest absolute difference between source and target; NaN when they cannot be subtracted.
        max_rel: `max_abs` relative to the source's largest absolute value.
        tolerance: what was allowed; 0 for integers and booleans.
        passed: whether the target is within it.
        reason: why not, or a remark ("degenerate: 0 everywhere"); empty otherwise.
    """

    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool
    reason: str = ""


def compare(
    source: np.ndarray, target: np.ndarray, *, exact: Exact | None = None, ulps: int = 16
) -> Comparison:
    """Compare a target's array with the source's.

    Args:
        source: what the source computed.
        target: what the target computed.
        exact: the source's result in float64, where there is one: then the target may be at most `MULTIPLE`
            times further from it than `source` is, plus `ulps` units in the last place of its scale. A
            target within `ulps` of the source is so whatever that result is, and none is asked for.
        ulps: see `exact`; without it the tolerance is at least that too.
    """
    shape = tuple(source.shape)

    def failed(reason: str, tolerance: float = 0.0) -> Comparison:
        return Comparison(shape, float("nan"), float("nan"), tolerance, False, reason)

    if kind_of(source) != kind_of(target):
        return failed(f"expected element type {source.dtype}, got {target.dtype}")
    if source.shape != target.shape:
        return failed(f"expected shape {list(source.shape)}, got {list(target.shape)}")
    remark = _remark(source)
    if kind_of(source) not in "fc":
        wrong = int(np.count_nonzero(source != target))
        difference = np.abs(source.astype(np.float64) - target.astype(np.float64)).max(initial=0.0)
        scale = float(np.abs(source.astype(np.float64)).max(initial=0.0))
        reason = f"{wrong} of {source.size} elements differ" if wrong else remark
        return Comparison(shape, float(difference), _ratio(float(difference), scale), 0.0, not wrong, reason)
    dtype = max(source.dtype.name, target.dtype.name, key=lambda name: _EPSILON.get(name, 0.0))
    wide = np.complex128 if kind_of(source) == "c" else np.float64
    s, t = source.astype(wide), target.astype(wide)
    for name, test in (("NaN", np.isnan), ("infinite", np.isinf)):
        wrong = int(np.count_nonzero(test(s) != test(t)))
        if wrong:
            return failed(f"{wrong} of {s.size} elements are {name} on one side only")
    if bool(np.any(np.isinf(s) & (s != t))):
        return failed("infinite elements of opposite sign")
    finite = np.isfinite(s)
    s, t = s[finite], t[finite]
    max_abs, scale = float(np.abs(s - t).max(initial=0.0)), float(np.abs(s).max(initial=0.0))
    close = ulps * _EPSILON.get(dtype, 2.0**-23) * scale
    if exact is not None and max_abs <= close:
        return Comparison(shape, max_abs, _ratio(max_abs, scale), close, True, remark)
    measured = _measured(s, t, None if exact is None else exact(), finite)
    if measured is not None:
        own, other = measured
        tolerance = MULTIPLE * own + close
        passed = other <= tolerance
        reason = "" if passed else f"{other:.3g} from the float64 result, the source itself is {own:.3g}"
    else:
        relative = max(DEFAULTS.get(dtype, 1e-4), ulps * _EPSILON.get(dtype, 2.0**-23))
        tolerance = relative * max(scale, 1e-6)
        passed = max_abs <= tolerance
        reason = "" if passed else f"{max_abs:.3g} apart"
    return Comparison(shape, max_abs, _ratio(max_abs, scale), tolerance, passed, reason or remark)


def _measured(
    source: np.ndarray, target: np.ndarray, exact: np.ndarray | None, finite: np.ndarray
) -> tuple[float, float] | None:
    """How far source and target are from the float64 result; None where that is no measure.

    It is none where it is missing, not finite, or so far from the source that the source cannot be the same
    function rounded (a model that draws random numbers, or casts for itself): then it would excuse anything.
    """
    if exact is None or exact.shape != finite.shape:
        return None
    e = exact[finite].astype(source.dtype)
    if not np.isfinite(e).all():
        return None
    own, other = float(np.abs(source - e).max(initial=0.0)), float(np.abs(target - e).max(initial=0.0))
    return None if own > IMPLAUSIBLE * float(np.abs(e).max(initial=0.0)) else (own, other)


def exactly(arrays: Callable[[], Sequence[np.ndarray] | None], index: int, count: int) -> Exact:
    """One of several float64 results, of which there must be `count`."""

    def array() -> np.ndarray | None:
        found = arrays()
        return None if found is None or len(found) != count else found[index]

    return array


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest absolute difference of two arrays of one shape; infinite where one side is not finite."""
    if not a.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        found = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
    return float(np.where(np.isnan(found), np.inf, found).max())


def kind_of(array: np.ndarray) -> str:
    """One letter for what the elements are: f, c, i (signed or not), b, or NumPy's own."""
    if array.dtype.name in _EPSILON:
        return "f"
    return "i" if array.dtype.kind == "u" else array.dtype.kind


def _ratio(difference: float, scale: float) -> float:
    return difference / scale if scale else (0.0 if not difference else float("inf"))


def _remark(source: np.ndarray) -> str:
    """A remark on a comparison that proves little."""
    if not source.size:
        return "degenerate: no elements"
    if source.size > 1 and bool((source == source.flat[0]).all()):
        return f"degenerate: {source.flat[0]} everywhere"
    return ""
