"""Orthogonal polynomials: Chebyshev's by their trigonometric form, others by recurrence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable
from .terms import (
    Term,
    cos,
    exp,
    floor,
    infer_floating,
    log,
    sin,
    sqrt,
    terms_of,
    truncate,
    where,
)

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()

MOST = 64
"""Maximum degree of an unrolled polynomial; half of it if degrees are data."""

FAMILIES = (
    *("hermite_h", "hermite_he", "laguerre_l", "legendre_p"),
    *(f"{shift}chebyshev_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
)
Step = Callable[[Term, int, Term, Term], Term]
_RECURRENCES: dict[str, tuple[Callable[[Term], Term], Step]] = {
    "hermite_h": (lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - 2 * k * q),
    "hermite_he": (lambda x: x, lambda x, k, p, q: x * p - k * q),
    "laguerre_l": (lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_p": (lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}
"""Family -> (its polynomial of degree 1, (x, k, p(k), p(k-1)) -> p(k+1)); that of degree 0 is 1."""


def _infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    family, degree = operator.str("family"), operator.attributes.get("degree")
    if family not in FAMILIES:
        raise ValueError(f"expected `family` to be one of {', '.join(FAMILIES)}, got {family}")
    if (degree is None) == (len(types) < 2):
        raise ValueError("expected the degree as an attribute or as an operand, and not both")
    if isinstance(degree, int) and degree > MOST and family in _RECURRENCES:
        raise ValueError(f"expected a degree of {MOST} or less, got {degree}")
    return infer_floating(operator, types)


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, *degrees = terms_of(b, operands)
    family = operator.str("family")
    degree = degrees[0] if degrees else operator.int("degree")
    if family in _RECURRENCES:
        return [_recurrence(family, x, degree).value]
    wide = x.cast("float64")
    wide = wide * 2 - 1 if family.startswith("shifted") else wide
    exact = truncate(degree.cast("float64")) if isinstance(degree, Term) else wide.beside(degree)
    return [_chebyshev(family[-1], wide, exact).cast(x.dtype).value]


def _recurrence(family: str, x: Term, degree: Term | int) -> Term:
    """Compute all degrees and take one if the degrees are data; NaN stands for those above the largest."""
    second, step = _RECURRENCES[family]
    last = max(degree, 1) if isinstance(degree, int) else MOST // 2
    one = x**0  # of infinities and NaN too
    found = [one, second(x)]
    for k in range(1, last):
        found.append(step(x, k, found[-1], found[-2]))
    if isinstance(degree, int):
        return one - 1 if degree < 0 else found[degree]
    whole = truncate(degree)
    chosen = where(whole > last, math.nan, one - 1)
    for k, value in enumerate(found):
        chosen = where(whole.equals(k), value, chosen)
    return chosen


def _chebyshev(kind: str, x: Term, degree: Term) -> Term:
    """Return cos(n t) and its kin for x = cos(t); beyond [-1, 1] the same with hyperbolic functions."""
    size = abs(x)
    sign = where((x < 0) & _is_odd(degree), -1.0, 1.0)
    theta = x.clip(-1, 1).cast("float32").op("Acos").cast("float64")  # ONNX Runtime has it in float32 only
    far = size.clip(low=1)
    eta = log(far + sqrt(far * far - 1))
    if kind == "t":
        inside, outside, edge = cos(degree * theta), sign * _cosh(degree * eta), sign
    elif kind == "u":
        inside = sin((degree + 1) * theta) / sin(theta)
        outside = sign * _sinh((degree + 1) * eta) / _sinh(eta)
        edge = sign * (degree + 1)
    else:  # v and w are each other's mirror: w(x) = (-1)**n v(-x)
        half, large = (degree + 0.5) * theta, degree * 2 + 1
        even = _cosh((degree + 0.5) * eta) / _cosh(eta / 2)
        odd = _sinh((degree + 0.5) * eta) / _sinh(eta / 2)
        if kind == "v":
            inside = cos(half) / cos(theta / 2)
            outside, edge = where(x > 0, even, sign * odd), where(x > 0, 1.0, sign * large)
        else:
            inside = sin(half) / sin(theta / 2)
            outside, edge = where(x > 0, odd, sign * even), where(x > 0, large, sign)
    found = where(size < 1, inside, where(size > 1, outside, edge))
    return where(degree < 0, 0.0, found)


def _is_odd(x: Term) -> Term:
    return (x - floor(x / 2) * 2).equals(1)


def _cosh(x: Term) -> Term:
    return (exp(x) + exp(-x)) / 2


def _sinh(x: Term) -> Term:
    return (exp(x) - exp(-x)) / 2


TABLE.add(
    "Polynomial",
    inputs="X N?",
    attributes=[AttributeSpec("family", "string", required=True), AttributeSpec("degree", "int")],
    infer=_infer,
    expand=_expand,
    summary="an orthogonal polynomial of X, of the degree N or `degree`, elementwise",
    traits=Traits(elementwise=True, broadcasting=True),
)
