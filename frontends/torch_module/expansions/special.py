"""Special functions, computed in float64 by series, asymptotic series and recurrences.

Each is within a few units of float32 of torch's own; the formulas are in Abramowitz and Stegun. Torch's own
decompositions, where there are any, end in primitives without a lowering, each in one of the function's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .table import Expansions

table = Expansions()

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


def precise(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` in float64, its result in torch's own type."""

    def run(x: Tensor, *others: object) -> Tensor:
        given = [o.double() if isinstance(o, Tensor) and o.is_floating_point() else o for o in others]
        result = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        return function(x.double(), *given).to(result)

    return run


def horner(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """A polynomial, the highest power first."""
    found = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        found = found * x + c
    return found


def _lgamma_of_positive(x: Tensor) -> Tensor:
    """Stirling's series at x + 8, carried back by the recurrence."""
    product = x
    for i in range(1, _SHIFT):
        product = product * (x + i)
    y = x + _SHIFT
    inverse = 1 / y
    correction = horner(_STIRLING[::-1], inverse * inverse) * inverse
    stirling = (y - 0.5) * torch.log(y) - y + 0.5 * math.log(2 * math.pi) + correction
    return torch.where(y < 1e30, stirling - torch.log(product), stirling)


def lgamma64(x: Tensor) -> Tensor:
    """Log |gamma| in float64, by reflection below 1/2; infinite at the poles."""
    low = x < 0.5
    value = _lgamma_of_positive(torch.where(low, 1 - x, x))
    sine = torch.sin(math.pi * (x - torch.floor(x)))
    reflected = math.log(math.pi) - torch.log(sine.abs()) - value
    found = torch.where(low, reflected, value)
    infinite = ((x <= 0) & (torch.floor(x) == x)) | torch.isinf(x)
    return torch.where(infinite, math.inf, found)


def digamma64(x: Tensor) -> Tensor:
    """The derivative of lgamma in float64, by reflection below 1/2."""
    low = x < 0.5
    y = torch.where(low, 1 - x, x)
    total = 1 / y
    for i in range(1, _SHIFT):
        total = total + 1 / (y + i)
    y = y + _SHIFT
    square = 1 / (y * y)
    tail = horner([-b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)][::-1], square) * square
    value = torch.log(y) - 0.5 / y + tail - total
    fraction = x - torch.floor(x)
    found = torch.where(
        low, value - math.pi * torch.cos(math.pi * fraction) / torch.sin(math.pi * fraction), value
    )
    found = torch.where((x < 0) & (torch.floor(x) == x), math.nan, found)
    return torch.where(x == 0, -math.inf, found)


def zeta64(s: Tensor | float, q: Tensor) -> Tensor:
    """Hurwitz's zeta by Euler and Maclaurin."""
    terms = 12
    shifted = q + terms
    total = q**-s
    for k in range(1, terms):
        total = total + (q + k) ** -s
    power = shifted**-s
    total = total + power * shifted / (s - 1) + power / 2
    rising, factor = s, power / shifted
    for j, b in enumerate(_BERNOULLI, 1):
        total = total + b / math.factorial(2 * j) * rising * factor
        rising = rising * (s + 2 * j - 1) * (s + 2 * j)
        factor = factor / (shifted * shifted)
    return total


@table.of("aten.lgamma.default", "aten.special_gammaln.default")
@precise
def lgamma(x: Tensor) -> Tensor:
    """The logarithm of |gamma|."""
    return lgamma64(x)


@table.of("aten.digamma.default", "aten.special_psi.default", "aten.special_digamma.default")
@precise
def digamma(x: Tensor) -> Tensor:
    """The derivative of lgamma."""
    return digamma64(x)


@table.of("aten.polygamma.default", "aten.special_polygamma.default")
def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    factor, s, q = (-1.0) ** (n + 1) * math.factorial(n), float(n + 1), x.double()
    fraction = q - torch.ceil(q) + 1  # below zero, the terms on both sides of it
    below = zeta64(s, fraction) + (-1) ** (n + 1) * (zeta64(s, 1 - fraction) - zeta64(s, 1 - q))
    pole = (q <= 0) & (torch.floor(q) == q)
    zeta = torch.where(pole, math.inf, torch.where(q < 0, below, zeta64(s, torch.clamp(q, min=1e-300))))
    found = factor * zeta
    return found.to(x.dtype if x.dtype.is_floating_point else torch.get_default_dtype())


@table.of("aten.special_zeta.default")
@precise
def zeta(x: Tensor, other: Tensor) -> Tensor:
    """Hurwitz's zeta function; torch's own values where it is not defined."""
    found = zeta64(x, other.double())
    pole = (other <= 0) & (torch.floor(other) == other)
    undefined = (other < 0) & (torch.floor(x) != x)
    found = torch.where(pole, math.inf, torch.where(undefined & ~pole, math.nan, found))
    return torch.where(x == 1, math.inf, torch.where(x < 1, math.nan, found))


@table.of("aten.special_zeta.other_scalar")
def zeta_of_tensor(x: Tensor, other: float) -> Tensor:
    """Hurwitz's zeta function of a number."""
    return zeta(x, torch.full_like(x, other))


@table.of("aten.special_zeta.self_scalar")
def zeta_of_number(x: float, other: Tensor) -> Tensor:
    """Hurwitz's zeta function with a fixed exponent."""
    return zeta(torch.full_like(other, x), other)


# -- the error function ------------------------------------------------------------------------------


def _erfcx_of_positive(x: Tensor) -> Tensor:
    """exp(x*x) erfc(x) for x >= 1/2: the trapezoidal rule and the pole that it leaves (Hunter 1970)."""
    step, terms = 0.5, 13
    square = x * x
    total = 1 / square
    for n in range(1, terms):
        weight = 2 * math.exp(-((n * step) ** 2))
        total = total + weight / ((n * step) ** 2 + square)
    found = step / math.pi * x * total
    near = torch.clamp(x, max=math.pi / step)  # beyond, the pole's share is below the rounding
    pole = 2 * torch.exp(near * near) / (1 - torch.exp(2 * math.pi / step * near))
    return torch.where(x < math.pi / step, found + pole, found)


def erfcx64(x: Tensor) -> Tensor:
    """exp(x*x) erfc(x) in float64."""
    far = _erfcx_of_positive(torch.clamp(x.abs(), min=0.5))
    square = torch.exp(x * x)
    near = square * _erfc_near(x)
    return torch.where(x.abs() < 0.5, near, torch.where(x < 0, 2 * square - far, far))


def _erfc_near(x: Tensor) -> Tensor:
    """Erfc for |x| < 1/2 by its power series."""
    coefficients = [(-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13)]
    return 1 - 2 / math.sqrt(math.pi) * x * horner(coefficients[::-1], torch.clamp(x * x, max=0.25))


@table.of("aten.special_erfcx.default")
@precise
def erfcx(x: Tensor) -> Tensor:
    """The scaled complementary error function."""
    return erfcx64(x)


@table.of("aten.erfc.default", "aten.special_erfc.default")
@precise
def erfc(x: Tensor) -> Tensor:
    """The complementary error function, accurate in its tail."""
    tail = _erfcx_of_positive(torch.clamp(x.abs(), min=0.5)) * torch.exp(-x * x)
    return torch.where(x.abs() < 0.5, _erfc_near(x), torch.where(x < 0, 2 - tail, tail))


def _erfinv_of(w: Tensor, x: Tensor) -> Tensor:
    """Of x, where w = -log(1 - x*x)."""
    centre, tail = (
        horner(_ERFINV_CENTRE, w - 2.5),
        horner(_ERFINV_TAIL, torch.sqrt(torch.clamp(w, min=5.0)) - 3),
    )
    return torch.where(w < 5, centre, tail) * x


@table.of("aten.erfinv.default", "aten.special_erfinv.default")
@precise
def erfinv(x: Tensor) -> Tensor:
    """The inverse of the error function: infinite at -1 and 1, undefined beyond."""
    found = _erfinv_of(-torch.log((1 - x) * (1 + x)), x)
    return torch.where(x.abs() == 1, x * math.inf, found)


@table.of("aten.special_ndtri.default")
@precise
def ndtri(p: Tensor) -> Tensor:
    """The inverse of the normal distribution."""
    x = 2 * p - 1
    found = math.sqrt(2) * _erfinv_of(-torch.log(4 * p * (1 - p)), x)
    return torch.where(x.abs() == 1, x * math.inf, found)


@table.of("aten.special_log_ndtr.default")
@precise
def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the normal distribution."""
    t = x * math.sqrt(0.5)
    low = torch.log(erfcx64(-torch.clamp(t, max=1.0)) / 2) - t * t
    high = torch.clamp(t, min=0.5)
    tail = _erfcx_of_positive(high) * torch.exp(-high * high) / 2
    return torch.where(x < 1, low, torch.log1p(-tail))


@table.of("aten.exp2.default", "aten.special_exp2.default")
@precise
def exp2(x: Tensor) -> Tensor:
    """A power of two."""
    return torch.exp(x * math.log(2))


@table.of("aten.logaddexp2.default")
def logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    """The logarithm to base 2 of a sum of powers of two; torch's own takes `exp2`, an expansion too."""
    largest = torch.maximum(x, y)
    difference = torch.where(x == y, 0.0, -(x - y).abs())
    return largest + torch.log1p(torch.exp(difference * math.log(2))) / math.log(2)


@table.of("aten.frexp.Tensor")
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mantissa in [1/2, 1) and exponent."""
    size = x.double().abs()
    known = (size > 0) & torch.isfinite(size)
    exponent = torch.floor(torch.log2(torch.where(known, size, 1.0))) + 1
    mantissa = size * torch.exp2(-exponent)
    exponent = torch.where(mantissa >= 1, exponent + 1, torch.where(mantissa < 0.5, exponent - 1, exponent))
    mantissa = torch.where(x < 0, -size, size) * torch.exp2(-exponent)
    mantissa = torch.where(known, mantissa, x.double())
    return mantissa.to(x.dtype), torch.where(known, exponent, 0.0).to(torch.int32)


@table.of("aten.gcd.default")
def gcd(x: Tensor, y: Tensor) -> Tensor:
    """The greatest common divisor, by as many steps of Euclid's algorithm as the type may need."""
    x, y = torch.broadcast_tensors(x.abs(), y.abs())
    for _ in range(46 if torch.iinfo(x.dtype).bits <= 32 else 91):
        rest = torch.remainder(x, torch.where(y == 0, 1, y))
        x, y = torch.where(y == 0, x, y), torch.where(y == 0, 0, rest)
    return x


@table.of("aten.lcm.default")
def lcm(x: Tensor, y: Tensor) -> Tensor:
    """The least common multiple."""
    common = gcd(x, y)
    return (torch.div(x, torch.where(common == 0, 1, common), rounding_mode="floor") * y).abs()
