"""Compares arrays: how far apart they are and may be, why they fail, whether agreement proves anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from ..ir import numpy_dtype
from .extents import Extent, find_filler, measure_extent

MULTIPLE = 4
"""Allowed distance of a target, as a multiple of what rounding alone moves the source."""

IMPLAUSIBLE = 1e-2
"""Distance of a float64 result from the source, relative to its scale, above which it needs a witness."""

WITNESSED = 32
"""Fraction of that distance that perturbed runs must move to make it the source's own rounding."""

JUMP = 4
"""Factor, beyond proportion, by which a larger perturbation moves an element that rounding decides."""

NARROW = 8
"""Number of differing values, all of a narrower type, that show that the target was rounded to it."""

_FIRST = 256
"""Number of values that are looked at before all of them: one that the narrower type lacks is enough."""

_CHUNK = 2**16
"""Number of elements among which such values are looked for at a time."""

SMALL = 1e-3
"""Share of the largest value below which an element is judged by how far rounding moves it alone."""

_CLEAR = 1000
"""Multiple of that beyond which such an element is another number: no draw of roundings is so lucky."""

_COLUMN = 0.1
"""Share of elements that are other numbers from which on they are no accident."""

FEW = 0.25
"""Share of elements beyond the bound above which decisions by rounding cannot be the reason."""

DEFAULTS = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Element type -> tolerance relative to the largest absolute value, where nothing could be measured."""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Element type -> one unit in the last place of 1."""

_TINY = {"float32": 2.0**-126, "bfloat16": 2.0**-126}
"""Element type -> smallest normal number, below which a runtime may compute with zeros."""

INNER = 2
"""Units in the last place that values added up inside an operator may be off."""

_UNDECIDED = "decided by rounding alone"

_INDISTINCT = "moved by rounding alone as far as its values differ"

DECIDED = "rounding alone decides"
"""Words of the remarks on results that passed though elements are others."""

UNDECIDED = "differ where rounding alone decides"
"""Words of those of which the difference is no measure."""

RANDOM = "the source draws random numbers: two runs of it on equal inputs differ"
"""The reason for a failure of arrays that no run repeats."""

_COMPLEX: dict[str, str] = {"complex128": "float64", "complex64": "float32"}

Exact = Callable[[], "np.ndarray | None"]
"""Returns the source's result in float64, or None; called only if source and target are not close."""

Noise = Callable[[int], "np.ndarray | None"]
"""Returns how far each element moves when the source's values move by some units in the last place.

For integers and booleans it is not 0 where an element changes. It is a scalar if only the largest move is
known; NaN where two equal runs of the source differ; None if the source cannot be perturbed.
"""


Types = Literal["exact", "floats", "kind"]


@dataclass(frozen=True, slots=True)
class Yardstick:
    """The allowed error of an array; what takes a run is measured only when asked for.

    Attributes:
        exact: the source's result in float64, where there is one.
        noise: how far rounding alone moves the source's result, where that can be measured.
        ulps: units in the last place of the scale that are allowed whatever was measured.
        inner: the largest value that an operator adds up inside, where that may be more than it gives.
        types: which element types must be the same: of all arrays, of floats only, or only their kinds.
        absolute_tolerance: absolute error that is allowed whatever was measured.
        small: whether elements that are far smaller than the largest are judged by themselves too.
    """

    exact: Exact | None = None
    noise: Noise | None = None
    ulps: int = 16
    inner: float = 0.0
    types: Types = "kind"
    absolute_tolerance: float = 0.0
    small: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arrays compared.

    Attributes:
        shape: the source's shape.
        max_abs: largest absolute difference between source and target; NaN when they cannot be subtracted.
        max_rel: `max_abs` relative to the source's largest absolute value.
        tolerance: what was allowed; 0 for integers and booleans.
        passed: whether the target is within it.
        reason: why not, or a remark; empty otherwise.
        noise: how far rounding alone moves the source's result; None where it was not asked for.
        unproven: why agreement proves nothing ("NaN everywhere"); empty where it proves something.
    """

    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool
    reason: str = ""
    noise: float | None = None
    unproven: str = ""


def compare(source: np.ndarray, target: np.ndarray, by: Yardstick | None = None) -> Comparison:
    """Compare a target's array with the source's.

    A target within `by.ulps` units in the last place of the scale is equal, and nothing is measured; so is
    one within as many of the smallest normal numbers, below which runtimes may compute with zeros.
    Otherwise its distance from the float64 result may be `MULTIPLE` times the source's, or its distance from
    the source `MULTIPLE` times as far as rounding alone moves the source, plus those units. An integer or
    boolean may differ only where rounding alone changes it in the source too.
    """
    by = by or Yardstick()
    shape = tuple(source.shape)
    wanted, got = source.dtype, target.dtype
    floating = kind_of(source) in "fc"
    strict = by.types == "exact" or (by.types == "floats" and floating)
    if kind_of(source) != kind_of(target) or (strict and str(wanted) != str(got)):
        return _make_failure(shape, f"expected element type {wanted}, got {got}")
    if source.shape != target.shape:
        return _make_failure(shape, f"expected shape {list(source.shape)}, got {list(target.shape)}")
    compared = _compare_floats if floating else _compare_discrete
    return compared(source, target, by)


def _compare_discrete(source: np.ndarray, target: np.ndarray, by: Yardstick) -> Comparison:
    """Compare integers and booleans, which must be equal except where rounding alone decides."""
    s, t = source.astype(np.float64), target.astype(np.float64)
    differing = source != target
    wrong = int(np.count_nonzero(differing))
    difference, scale = float(np.abs(s - t).max(initial=0.0)), float(np.abs(s).max(initial=0.0))
    decided, remark = np.ones(source.shape, bool), ""
    moved = by.noise(max(MULTIPLE, by.ulps)) if wrong and by.noise is not None else None
    if moved is not None and moved.shape == source.shape:
        if bool(np.isnan(moved).any()):
            return _make_failure(tuple(source.shape), RANDOM)
        decided = moved == 0
        if not bool(np.any(differing & decided)):
            remark = _describe_undecided(wrong, source.size)
    unproven = _explain_constant(source[decided], source.size)
    found = Comparison(tuple(source.shape), difference, _ratio(difference, scale), 0.0, not wrong)
    if wrong and not remark:
        return replace(found, reason=f"{wrong} of {source.size} elements differ")
    if by.types == "floats" and str(source.dtype) != str(target.dtype):
        remark = remark or f"{source.dtype} in the source, {target.dtype} in the target"
    return replace(found, passed=True, reason=remark or _remark(unproven), unproven=unproven)


def _compare_floats(source: np.ndarray, target: np.ndarray, by: Yardstick) -> Comparison:
    """Compare floating-point arrays; differences beyond some units are judged by rounding."""
    extent, filler = measure_extent(source, target), None
    if extent is not None and extent.apart <= (close := _closeness(source, target, extent, by)):
        filler = find_filler(source, target, extent)
        if filler is None:
            found = _judge_close(source, target, extent, close)
            return _judge_small(found, source, target, by) if by.small and extent.apart else found
    wide = np.complex128 if kind_of(source) == "c" else np.float64
    s, t = source.astype(wide), target.astype(wide)
    shape = tuple(source.shape)
    finite, remark = np.isfinite(s), ""
    if finite.all() and np.isfinite(t).all():
        finite = finite if filler is None else ~filler
    else:
        for name, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            wrong = int(np.count_nonzero(test(s) != test(t)))
            if wrong:
                return _make_failure(shape, f"{wrong} of {s.size} elements are {name} on one side only")
        if bool(np.any(np.isinf(s) & (s != t))):
            return _make_failure(shape, "infinite elements of opposite sign")
        count, size = int(np.count_nonzero(np.isnan(s))), s.size
        if 0 < count < size:
            remark = f"{count} of {size} elements are NaN on both sides"
        filler = find_filler(source, target)
        finite = finite if filler is None else finite & ~filler
    s, t = s[finite], t[finite]
    off = np.abs(s - t)
    max_abs, scale = float(off.max(initial=0.0)), float(np.abs(s).max(initial=0.0))
    close = _closeness(source, target, Extent(max_abs, -scale, scale), by)
    found = Comparison(shape, max_abs, _ratio(max_abs, scale), close, True)
    if max_abs > close:
        found = _compare_by_rounding(found, (s, t), finite, by, close)
        if found is None:
            dtype = _coarser(source, target)
            relative = max(DEFAULTS.get(real_type(dtype), 1e-4), by.ulps * _epsilon(dtype))
            allowed = relative * max(scale, 1e-6)
            found = Comparison(shape, max_abs, _ratio(max_abs, scale), allowed, max_abs <= allowed)
            found = found if found.passed else replace(found, reason=f"{max_abs:.3g} apart")
    if remark and found.passed and not found.reason:
        found = replace(found, reason=remark)
    if not found.passed:
        return found
    found = _conclude(found, source, target, partial(_explain, source, s, found))
    return _judge_small(found, source, target, by) if by.small and max_abs else found


def _closeness(source: np.ndarray, target: np.ndarray, extent: Extent, by: Yardstick) -> float:
    """Return how far arrays may be apart before anything is measured."""
    dtype = _coarser(source, target)
    close = _epsilon(dtype) * max(by.ulps * extent.scale, INNER * by.inner) + by.absolute_tolerance
    floor = by.ulps * _TINY.get(real_type(dtype), 0.0)
    return floor if close < extent.apart <= floor else close


def _judge_close(source: np.ndarray, target: np.ndarray, extent: Extent, close: float) -> Comparison:
    """Return the comparison of finite arrays that are no further apart than `close`."""
    relative = _ratio(extent.apart, extent.scale)
    found = Comparison(tuple(source.shape), extent.apart, relative, close, True)
    return _conclude(found, source, target, partial(_explain_extent, source, extent, close))


def _judge_small(found: Comparison, source: np.ndarray, target: np.ndarray, by: Yardstick) -> Comparison:
    """Return a comparison, failed where many small elements are other numbers beside large ones."""
    if not found.passed or kind_of(source) != "f" or by.noise is None:
        return found
    s, t = source.astype(np.float64), target.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinities
        s, off = np.abs(s), np.abs(s - t)
    finite = np.isfinite(s) & np.isfinite(off)
    scale = float(s[finite].max(initial=0.0))
    units = MULTIPLE * MULTIPLE * by.ulps * _epsilon(_coarser(source, target))
    floor = by.ulps * _TINY.get(real_type(_coarser(source, target)), 0.0)
    other = finite & (s > 0) & (s <= SMALL * scale) & (off > units * s + floor)
    if np.count_nonzero(other) < max(3.0, _COLUMN * source.size):
        return found
    moved = by.noise(1)
    if moved is None or moved.shape != source.shape or bool(np.isnan(moved).any()):
        return found
    exact = None if by.exact is None else by.exact()
    if exact is not None and exact.shape == source.shape:
        moved = np.maximum(moved, np.abs(exact - source))
    other &= off > _CLEAR * moved
    count, size = int(np.count_nonzero(other)), source.size
    if count < max(3.0, _COLUMN * size):
        return found
    reason = f"{count} of {size} elements are other numbers, far smaller than the largest"
    return replace(found, passed=False, reason=reason, unproven="")


def _conclude(
    found: Comparison, source: np.ndarray, target: np.ndarray, explain: Callable[[], str]
) -> Comparison:
    """Return a comparison that passed, failed where the target's values went through a narrower type.

    Args:
        found: the comparison.
        source: the source's elements.
        target: the target's.
        explain: says why they prove nothing; empty where they do.
    """
    narrower = _find_narrower_type(source, target) if found.max_abs else ""
    if narrower:
        reason = f"{found.max_abs:.3g} apart: each value that differs is the source's, rounded to {narrower}"
        return replace(found, passed=False, reason=reason)
    unproven = explain()
    return replace(found, reason=found.reason or _remark(unproven), unproven=unproven)


def _find_narrower_type(source: np.ndarray, target: np.ndarray) -> str:
    """Return the narrower element type that only the target's values went through; empty if none.

    This does not depend on the tolerance: values of float32 that all have the few digits of float16 are no
    rounding error.
    """
    if "float32" not in (source.dtype.name, target.dtype.name) or target.dtype.itemsize < 4:
        return ""
    fitting = [name for name in ("float16", "bfloat16") if _fits(_first_differing(source, target), name)]
    if not fitting:  # as nearly always, and without sorting millions of values
        return ""
    differing = (source != target) & np.isfinite(source) & np.isfinite(target)
    s, t = source[differing].astype(np.float64), target[differing].astype(np.float64)
    if np.unique(t).size < NARROW:  # a bounded function ends in a few values
        return ""
    for name in fitting:
        with np.errstate(over="ignore"):
            if _fits(t, name) and float(np.mean(s.astype(numpy_dtype(name)) == t)) > 1 - FEW:
                return name
    return ""


def _first_differing(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the target's first finite elements that differ, at most `_FIRST`, without looking at all."""
    s, t = source.reshape(-1), target.reshape(-1)
    found, at = np.zeros(0, t.dtype), 0
    while found.size < _FIRST and at < t.size:
        a, b = s[at : at + _CHUNK], t[at : at + _CHUNK]
        found = np.concatenate([found, b[(a != b) & np.isfinite(a) & np.isfinite(b)]])
        at += _CHUNK
    return found[:_FIRST]


def _fits(array: np.ndarray, narrow: str) -> bool:
    """Whether a narrower element type has every value of an array."""
    with np.errstate(over="ignore"):
        return bool((array.astype(numpy_dtype(narrow)).astype(array.dtype) == array).all())


def _compare_by_rounding(
    found: Comparison, pair: tuple[np.ndarray, np.ndarray], finite: np.ndarray, by: Yardstick, close: float
) -> Comparison | None:
    """Compare by what rounding does to the source; None if that cannot be measured."""
    source, target = pair
    scale = float(np.abs(source).max(initial=0.0))
    exact = None if by.exact is None else by.exact()
    own = other = None
    if exact is not None and exact.shape == finite.shape and bool(np.isfinite(exact[finite]).all()):
        e = exact[finite].astype(source.dtype)
        own, other = (float(np.abs(side - e).max(initial=0.0)) for side in pair)
    plausible = own is not None and own <= IMPLAUSIBLE * scale
    if plausible and own is not None and other is not None:
        allowed = MULTIPLE * own + close
        if other <= allowed:
            return replace(found, tolerance=allowed, noise=own)
    moved = None if by.noise is None else by.noise(1)
    if moved is not None and bool(np.isnan(moved).any()):
        return replace(found, passed=False, reason=RANDOM)
    if moved is None or moved.shape not in (finite.shape, ()):
        if not plausible or own is None or other is None:
            return None
        reason = f"{other:.3g} from the float64 result, the source itself is {own:.3g}"
        return replace(found, tolerance=MULTIPLE * own + close, passed=False, reason=reason, noise=own)
    moved = moved[finite] if moved.shape else moved
    noise, remark = float(moved.max(initial=0.0)), ""
    if own is not None and (plausible or own <= WITNESSED * noise):
        noise = max(own, noise)
        if not plausible:
            remark = f"the source's own {_percent(own, scale)} from its float64 result"
    elif own is not None:
        remark = "its float64 result is another function's, and was not used"
    allowed = MULTIPLE * noise + close
    off = np.abs(source - target)
    found = replace(found, tolerance=allowed, noise=noise)
    beyond = off > allowed
    if not beyond.any():
        return replace(found, reason=remark)
    few = float(np.mean(beyond)) <= FEW
    asked = bool(moved.shape) and (few or _reach(source) <= noise)
    jumps = by.noise(max(MULTIPLE, by.ulps)) if asked and by.noise is not None else None
    if jumps is not None and jumps.shape == finite.shape:
        far = np.maximum(jumps[finite], moved)
        if float(far.min()) > max(_reach(source), IMPLAUSIBLE * scale) and bool(
            np.all(off <= MULTIPLE * far.max())
        ):  # equal logits of 1e8 before a softmax: whichever rounds up is 1, and the others are 0
            return replace(found, unproven=_UNDECIDED)
        regular = float(np.median(moved))
        jumping = far > JUMP * max(MULTIPLE, by.ulps) * max(regular, close)
        if few and not bool(np.any(beyond & ~(jumping & (off <= MULTIPLE * far)))):
            said = _describe_undecided(int(np.count_nonzero(beyond)), finite.size)
            return replace(found, reason=said, unproven=_explain_constant(source[~jumping], finite.size))
    reason = f"{found.max_abs:.3g} apart, rounding alone moves the source by {noise:.3g}"
    return replace(found, passed=False, reason=f"{reason}; {remark}" if remark else reason)


def pick_exact(arrays: Callable[[], Sequence[np.ndarray] | None], index: int, count: int) -> Exact:
    """Return a function that picks one of `count` float64 results; None if there are others."""

    def array() -> np.ndarray | None:
        found = arrays()
        return None if found is None or len(found) != count else found[index]

    return array


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest absolute difference of two arrays; infinite where one alone is not finite."""
    if not a.size:
        return 0.0
    wide = np.complex128 if "c" in (kind_of(a), kind_of(b)) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(invalid="ignore"):
        found = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    return float(np.where(np.isnan(found), np.inf, found).max())


def kind_of(array: np.ndarray) -> str:
    """Return a letter for the kind of element: f, c, i (signed or not), b, or NumPy's own."""
    kind = array.dtype.kind
    if kind == "V":  # of a library beside NumPy; names of its own types are looked up slowly
        return "f" if array.dtype.name in EPSILON else kind
    return "i" if kind == "u" else kind


def _make_failure(shape: tuple[int, ...], reason: str) -> Comparison:
    return Comparison(shape, float("nan"), float("nan"), 0.0, False, reason)


def real_type(dtype: str) -> str:
    """Return the element type of real and imaginary parts."""
    return _COMPLEX.get(dtype, dtype)


def _coarser(source: np.ndarray, target: np.ndarray) -> str:
    return max((str(source.dtype), str(target.dtype)), key=_epsilon)


def _epsilon(dtype: str) -> float:
    return EPSILON.get(real_type(dtype), 2.0**-23)


def _ratio(difference: float, scale: float) -> float:
    return difference / scale if scale else (0.0 if not difference else float("inf"))


def _percent(own: float, scale: float) -> str:
    return f"float32 is {100 * own / scale:.2g} %" if scale else f"float32 is {own:.3g}"


def _describe_undecided(count: int, size: int) -> str:
    return f"{count} of {size} elements differ where rounding alone decides, in the source too"


def _remark(unproven: str) -> str:
    return f"proves nothing: {unproven}" if unproven else ""


def _explain_constant(decided: np.ndarray, size: int) -> str:
    """Explain why elements of an array of `size` prove nothing: there are none, or all are equal."""
    if not size:
        return "no elements"
    if not decided.size:
        return _UNDECIDED
    if size > 1 and bool((decided == decided.flat[0]).all()):
        return f"{decided.flat[0]} everywhere"
    return ""


def _explain(source: np.ndarray, finite: np.ndarray, found: Comparison) -> str:
    """Explain why arrays prove nothing, from the source's finite elements; empty where they do."""
    if source.size and not finite.size:
        return f"{source.flat[0]} everywhere" if np.isnan(source).all() else "no finite element"
    return (
        found.unproven
        or _explain_constant(finite, source.size)
        or _explain_tolerance(finite, found.tolerance)
    )


def _explain_extent(source: np.ndarray, extent: Extent, close: float) -> str:
    """Explain the same of finite float32 arrays, from where they lie."""
    if source.size > 1 and extent.low == extent.high:
        return f"{float(source.reshape(-1)[0])} everywhere"
    reach = (extent.high - extent.low) / 2 if source.size > 1 else extent.scale
    return _INDISTINCT if close and reach <= close else ""


def _explain_tolerance(finite: np.ndarray, tolerance: float) -> str:
    """Explain why elements prove nothing: a constant would be within the tolerance."""
    if not tolerance or kind_of(finite) == "c":
        return ""
    return _INDISTINCT if _reach(finite) <= tolerance else ""


def _reach(finite: np.ndarray) -> float:
    """Return the distance from which a constant is within reach of all elements; a lone one's own size."""
    if finite.size == 1 or kind_of(finite) == "c":
        return float(np.abs(finite).max())
    return (float(finite.max()) - float(finite.min())) / 2
