"""Special functions, computed in float64 by series, asymptotic series and recurrences, and common divisors.

Each is within a few units of float32 of the truth; the formulas are in Abramowitz and Stegun. A branch that
is not taken has no infinities, so that gradients pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable, Expand
from .terms import (
    LOG_2,
    PI,
    Term,
    cos,
    exp,
    floor,
    horner,
    in_float64,
    infer_floating,
    infer_whole,
    is_infinite,
    is_whole,
    log,
    maximum,
    series,
    sin,
    sqrt,
    terms_of,
    where,
)

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()

_SHIFT = 8
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_ERFINV_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ERFINV_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
"""Giles, Approximating the erfinv function (2012), single precision."""
_MOST_DERIVATIVES = 100  # float64 holds the factorials to 170


def _unary(name: str, function: Callable[[Term], Term], summary: str) -> None:
    _row(name, in_float64(function), summary)


def _row(name: str, expand: Expand, summary: str, inputs: str = "X") -> None:
    traits = Traits(elementwise=True, broadcasting=" " in inputs)
    TABLE.add(name, inputs=inputs, infer=infer_floating, expand=expand, summary=summary, traits=traits)


def _in_own_type(function: Callable[[Term], Term]) -> Expand:
    """Return the expansion that a formula is, computed in the operand's element type."""
    return lambda b, _, operands: [function(terms_of(b, operands)[0]).value]


# -- logarithms and exponentials near zero -----------------------------------------------------------------


def _log1p(x: Term) -> Term:
    """Return the logarithm of the rounded sum, and to first order what the sum has lost."""
    total = x + 1
    found = log(total)
    return where(abs(x) < 1, found + (x - (total - 1)) / total, found)


def _expm1(x: Term) -> Term:
    """Return a product that nothing cancels in."""
    return (x * 0.5).op("Tanh") * (exp(x) + 1)


_row("Log1p", _in_own_type(_log1p), "log(1 + X), accurate near zero, elementwise")
_row("Expm1", _in_own_type(_expm1), "exp(X) - 1, accurate near zero, elementwise")


# -- the gamma function ----------------------------------------------------------------------------------


def _lgamma_of_positive(x: Term) -> Term:
    """Stirling's series at x + 8, carried back by the recurrence."""
    product = x
    for i in range(1, _SHIFT):
        product = product * (x + i)
    y = x + _SHIFT
    inverse = 1 / y
    correction = series(_STIRLING, inverse * inverse) * inverse
    stirling = (y - 0.5) * log(y) - y + 0.5 * math.log(2 * PI) + correction
    return where(y < 1e30, stirling - log(product), stirling)


def _lgamma(x: Term) -> Term:
    """Compute lgamma, by reflection below 1/2; it is infinite at the poles."""
    low = x < 0.5
    value = _lgamma_of_positive(where(low, 1 - x, x))
    sine = sin(PI * where(low, x - floor(x), 0.5))
    found = where(low, math.log(PI) - log(abs(sine)) - value, value)
    found = where(x.equals(1) | x.equals(2), 0.0, found)  # which the series misses by 2e-15
    return where(((x <= 0) & is_whole(x)) | is_infinite(x), math.inf, found)


def _gamma(x: Term) -> Term:
    """Compute gamma from its logarithm; it is undefined at the poles below zero."""
    below = floor(x)
    negative = (x < 0) & ~(floor(below / 2) * 2).equals(below)
    size = exp(_lgamma(x))
    return where((x < 0) & is_whole(x), math.nan, where(negative, -size, size))


def _digamma(x: Term) -> Term:
    """Compute digamma, by reflection below 1/2."""
    low = x < 0.5
    y = where(low, 1 - x, x)
    total = 1 / y
    for i in range(1, _SHIFT):
        total = total + 1 / (y + i)
    y = y + _SHIFT
    square = 1 / (y * y)
    tail = series([-b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)], square) * square
    value = log(y) - 0.5 / y + tail - total
    angle = PI * where(low, x - floor(x), 0.5)
    found = where(low, value - PI * cos(angle) / sin(angle), value)
    found = where((x < 0) & is_whole(x), math.nan, found)
    return where(x.equals(0), -1 / x, found)  # which has the sign of zero


def _zeta_sum(s: Term | float, q: Term) -> Term:
    """Hurwitz's zeta by Euler and Maclaurin, for q > 0."""
    terms = 12
    shifted = q + terms
    total = q**-s
    for k in range(1, terms):
        total = total + (q + k) ** -s
    power = shifted**-s
    total = total + power * shifted / (s - 1) + power / 2
    rising, factor = s, power / shifted
    for j, b in enumerate(_BERNOULLI, 1):
        total = total + rising * (b / math.factorial(2 * j)) * factor
        rising = rising * (s + (2 * j - 1)) * (s + 2 * j)
        factor = factor / (shifted * shifted)
    return total


def _zeta(s: Term, q: Term) -> Term:
    """Infinite at its poles, undefined below 1 and where a power of a negative number is."""
    found = _zeta_sum(s, q)
    pole = (q <= 0) & is_whole(q)
    undefined = (q < 0) & ~is_whole(s)
    found = where(pole, math.inf, where(undefined, math.nan, found))
    return where(s.equals(1), math.inf, where(s < 1, math.nan, found))


def _infer_polygamma(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    if not 0 <= operator.int("n") <= _MOST_DERIVATIVES:
        raise ValueError(f"expected `n` from 0 to {_MOST_DERIVATIVES}, got {operator.int('n')}")
    return infer_floating(operator, types)


def _expand_polygamma(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    n = operator.int("n")
    return in_float64(partial(_polygamma, n) if n else _digamma)(b, operator, operands)


def _polygamma(n: int, q: Term) -> Term:
    """Return a multiple of Hurwitz's zeta; below zero, the sum of the terms on both sides of it."""
    factor, s = (-1.0) ** (n + 1) * math.factorial(n), float(n + 1)
    fraction = q + floor(-q) + 1
    below = _zeta_sum(s, fraction) + (-1) ** (n + 1) * (_zeta_sum(s, 1 - fraction) - _zeta_sum(s, 1 - q))
    above = _zeta_sum(s, q.clip(low=1e-300))
    return factor * where((q <= 0) & is_whole(q), math.inf, where(q < 0, below, above))


_unary("Lgamma", _lgamma, "log |gamma(X)|, elementwise")
_unary("Gamma", _gamma, "gamma(X), elementwise; NaN at its poles below zero")
_unary("Digamma", _digamma, "the derivative of log gamma(X), elementwise")
TABLE.add(
    "Polygamma",
    inputs="X",
    attributes=[AttributeSpec("n", "int", required=True)],
    infer=_infer_polygamma,
    expand=_expand_polygamma,
    summary="the derivative of order `n` of digamma(X), elementwise",
    traits=Traits(elementwise=True),
)
_row("Zeta", in_float64(_zeta), "Hurwitz's zeta: the sum of (Q + k) ** -S, elementwise", "S Q")


# -- the error function ----------------------------------------------------------------------------------


def _erfcx_of_positive(x: Term) -> Term:
    """exp(x*x) erfc(x) for x >= 1/2: the trapezoidal rule and the pole that it leaves (Hunter 1970)."""
    step, count = 0.5, 13
    square = x * x
    total = 1 / square
    for n in range(1, count):
        weight = 2 * math.exp(-((n * step) ** 2))
        total = total + weight / ((n * step) ** 2 + square)
    found = step / PI * x * total
    near = x.clip(high=PI / step)  # beyond, the pole's share is below the rounding
    pole = 2 * exp(near * near) / (1 - exp(2 * PI / step * near))
    return where(x < PI / step, found + pole, found)


def _erfc_near(x: Term) -> Term:
    """Erfc for |x| < 1/2 by its power series."""
    coefficients = [(-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13)]
    return 1 - 2 / math.sqrt(PI) * x * series(coefficients, (x * x).clip(high=0.25))


def _erfcx(x: Term) -> Term:
    far = _erfcx_of_positive(abs(x).clip(low=0.5))
    square = exp(x * x)
    return where(abs(x) < 0.5, square * _erfc_near(x), where(x < 0, 2 * square - far, far))


def _erfc(x: Term) -> Term:
    tail = _erfcx_of_positive(abs(x).clip(low=0.5)) * exp(-x * x)
    return where(abs(x) < 0.5, _erfc_near(x), where(x < 0, 2 - tail, tail))


def _inverse(x: Term, rest: Term, exactly: bool) -> Term:
    """Return the inverse of the error function.

    Args:
        x: what it is taken of.
        rest: 1 - |x|, computed without loss.
        exactly: whether to more digits than Giles's polynomials have, and where `rest` is below float32's.
    """
    inside = where(rest > 0, rest, 1.0)
    w = -log(inside * (2 - inside))
    tail = horner(_ERFINV_TAIL, sqrt(w.clip(low=5.0)) - 3)
    found = where(w < 5, horner(_ERFINV_CENTRE, w - 2.5), tail) * abs(x)
    if exactly:
        size = -log(inside).clip(high=-1.0)  # the asymptotic series of erfc, solved for its exponent
        square = size - log(PI * size) / 2
        square = (size - log(PI * square) / 2 - 1 / (2 * square)).clip(low=1.0)
        found = where(w < 16, found, sqrt(square))
        step = (inside - _erfc(found)) * (-math.sqrt(PI) / 2) * exp(found * found)
        found = found + step / (1 - step * found)  # Halley's method
    found = where(x < 0, -found, found)
    edge = where(rest.equals(0), x * math.inf, found)
    return where(rest < 0, math.nan, edge)


def _erfinv(exactly: bool, x: Term) -> Term:
    return _inverse(x, 1 - abs(x), exactly)


def _expand_erfinv(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    exactly = terms_of(b, operands)[0].dtype == "float64"
    return in_float64(partial(_erfinv, exactly))(b, operator, operands)


def _ndtri(p: Term) -> Term:
    return math.sqrt(2) * _inverse(2 * p - 1, 2 * where(p < 0.5, p, 1 - p), exactly=True)


def _log_ndtr(x: Term) -> Term:
    t = x * math.sqrt(0.5)
    low = log(_erfcx(-t.clip(high=1.0)) / 2) - t * t
    high = t.clip(low=0.5)
    tail = _erfcx_of_positive(high) * exp(-high * high) / 2
    return where(x < 1, low, log(1 - tail))


_unary("Erfc", _erfc, "1 - erf(X), accurate in its tail, elementwise")
_unary("Erfcx", _erfcx, "exp(X * X) * erfc(X), elementwise")
_row("Erfinv", _expand_erfinv, "the inverse of erf, elementwise")
_unary("Ndtri", _ndtri, "the inverse of the normal distribution, elementwise")
_unary("LogNdtr", _log_ndtr, "the logarithm of the normal distribution, elementwise")


# -- powers of two ---------------------------------------------------------------------------------------


def _log_add_exp2(x: Term, y: Term) -> Term:
    difference = where(x.equals(y), 0.0, -abs(x - y))
    return maximum(x, y) + log(1 + exp(difference * LOG_2)) / LOG_2


def _expand_frexp(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (given,) = terms_of(b, operands)
    x = given.cast("float64")
    size = abs(x)
    known = (size > 0) & (size < math.inf)
    exponent = floor(log(where(known, size, 1.0)) / LOG_2) + 1
    mantissa = size * 2.0**-exponent
    exponent = where(mantissa >= 1, exponent + 1, where(mantissa < 0.5, exponent - 1, exponent))
    mantissa = where(known, x * 2.0**-exponent, x)
    return [mantissa.cast(given.dtype).value, where(known, exponent, 0.0).cast("int32").value]


_unary("Exp2", lambda x: 2.0**x, "2 ** X, elementwise")
_row("LogAddExp2", in_float64(_log_add_exp2), "log2(2 ** X + 2 ** Y), elementwise", "X Y")
TABLE.add(
    "Frexp",
    inputs="X",
    outputs="mantissa exponent",
    infer=lambda operator, types: [
        *infer_floating(operator, types),
        None if types[0] is None else TensorType("int32", types[0].shape),
    ],
    expand=_expand_frexp,
    summary="mantissa in [1/2, 1) and exponent, elementwise; 0, infinities and NaN have the exponent 0",
    traits=Traits(elementwise=True),
)


# -- whole numbers ----------------------------------------------------------------------------------------


def _gcd(x: Term, y: Term) -> Term:
    """Compute the gcd by as many steps of Euclid's algorithm as the type may need."""
    steps = 46 if x.dtype.removeprefix("u") in ("int8", "int16", "int32") else 91
    for _ in range(steps):
        is_done = y.equals(0)
        rest = x.op("Mod", where(is_done, 1, y))
        x, y = where(is_done, x, y), where(is_done, 0, rest)
    return x


def _sizes(b: Builder, operands: Sequence[Value | None]) -> list[Term]:
    """Return the absolute values of both operands; unsigned ones stay."""
    return [x if x.dtype.startswith("u") else abs(x) for x in terms_of(b, operands)]


def _expand_gcd(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    return [_gcd(*_sizes(b, operands)).value]


def _expand_lcm(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, y = _sizes(b, operands)
    common = _gcd(x, y)
    return [(x / where(common.equals(0), 1, common) * y).value]


TABLE.add(
    "Gcd",
    inputs="X Y",
    infer=infer_whole,
    expand=_expand_gcd,
    summary="the greatest common divisor, elementwise",
    traits=Traits(elementwise=True, broadcasting=True),
)
TABLE.add(
    "Lcm",
    inputs="X Y",
    infer=infer_whole,
    expand=_expand_lcm,
    summary="the least common multiple, elementwise",
    traits=Traits(elementwise=True, broadcasting=True),
)
