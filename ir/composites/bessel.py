"""Bessel functions of orders 0 and 1: power series near zero, Hankel's asymptotic series far from it.

Those of the second kind are infinite at zero and below it, as MindSpore has them; torch's are NaN below.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..traits import Traits
from .base import CompositeTable
from .terms import PI, Term, cos, exp, in_float64, infer_floating, is_infinite, log, series, sin, sqrt, where

TABLE = CompositeTable()

_OSCILLATING_FROM = 12.0  # below, the series loses 5 of float64's 16 digits at the most
_DECAYING_FROM = 9.0
_GROWING_FROM = 20.0
_HARMONIC = [sum(1 / i for i in range(1, k + 1)) for k in range(100)]
_EULER = 0.5772156649015329


def _coefficients(order: int, sign: int, limit: float) -> list[float]:
    """Return coefficients of (x / limit)**(2 * k) in the series of J (sign -1) and I (sign 1), x <= limit.

    In powers of x*x/4 they would fall below what float32 has, which ONNX Runtime takes for nothing to add.
    """
    found = [1.0 / math.factorial(order)]
    while len(found) < 2 or abs(found[-1]) > 1e-19 * max(map(abs, found)):
        k = len(found)
        found.append(found[-1] * sign * limit * limit / (4 * k * (k + order)))
    return found


def _hankel(order: int, terms: int) -> list[float]:
    """Return the numbers a_k of Hankel's expansion."""
    found = [1.0]
    for k in range(1, terms):
        found.append(found[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return found


def _squared(x: Term, limit: float) -> Term:
    """(x / limit) ** 2."""
    ratio = x / limit
    return ratio * ratio


def _over(x: Term, order: int) -> Term | float:
    """(x / 2) ** order."""
    return x / 2 if order else 1.0


def _far(order: int, x: Term) -> tuple[Term, Term]:
    """Return (cosine, sine) parts of J and Y far from zero, and their phase taken care of."""
    a = _hankel(order, 14)
    inverse = 1 / x
    square = inverse * inverse
    p = series([(-1) ** k * a[2 * k] for k in range(7)], square)
    q = series([(-1) ** k * a[2 * k + 1] for k in range(7)], square) * inverse
    phase = x - (order / 2 + 0.25) * PI
    root = sqrt(2 / PI * inverse)
    cosine, sine = cos(phase), sin(phase)
    return root * (p * cosine - q * sine), root * (p * sine + q * cosine)


def _j(order: int, x: Term) -> Term:
    size = abs(x)
    near = size.clip(high=_OSCILLATING_FROM)
    small = series(_coefficients(order, -1, _OSCILLATING_FROM), _squared(near, _OSCILLATING_FROM))
    small = small * _over(near, order)
    large = _far(order, size.clip(low=_OSCILLATING_FROM))[0]
    found = where(size < _OSCILLATING_FROM, small, large)
    return where(x < 0, -found, found) if order else found


def _y(order: int, x: Term) -> Term:
    near = x.clip(1e-300, _OSCILLATING_FROM)
    u, logarithm = _squared(near, _OSCILLATING_FROM), log(near / 2)
    signed = _coefficients(order, -1, _OSCILLATING_FROM)
    first = series(signed, u) * _over(near, order)
    if order == 0:
        sums = [c * _HARMONIC[k] for k, c in enumerate(signed)]
        small = 2 / PI * ((logarithm + _EULER) * first - series(sums, u))
    else:
        sums = [c * (_HARMONIC[k] + _HARMONIC[k + 1] - 2 * _EULER) for k, c in enumerate(signed)]
        small = 2 / PI * (logarithm * first - 1 / near) - near / (2 * PI) * series(sums, u)
    large = _far(order, x.clip(low=_OSCILLATING_FROM))[1]
    found = where(x < _OSCILLATING_FROM, small, large)
    return where(x <= 0, -math.inf, found)


def _i_scaled(order: int, x: Term) -> Term:
    """Return exp(-|x|) I(x)."""
    size = abs(x)
    near = size.clip(high=_GROWING_FROM)
    small = series(_coefficients(order, 1, _GROWING_FROM), _squared(near, _GROWING_FROM))
    small = small * _over(near, order) * exp(-near)
    far = size.clip(low=_GROWING_FROM)
    signed = [(-1) ** k * a for k, a in enumerate(_hankel(order, 16))]
    large = series(signed, 1 / far) / sqrt(2 * PI * far)
    found = where(size < _GROWING_FROM, small, large)
    return where(x < 0, -found, found) if order else found


def _k_scaled(order: int, x: Term) -> Term:
    """Return exp(x) K(x)."""
    near = x.clip(1e-300, _DECAYING_FROM)
    u, logarithm = _squared(near, _DECAYING_FROM), log(near / 2)
    plain = _coefficients(order, 1, _DECAYING_FROM)
    first = series(plain, u) * _over(near, order)
    if order == 0:
        sums = [c * _HARMONIC[k] for k, c in enumerate(plain)]
        small = series(sums, u) - (logarithm + _EULER) * first
    else:
        sums = [c * (_HARMONIC[k] + _HARMONIC[k + 1] - 2 * _EULER) for k, c in enumerate(plain)]
        small = 1 / near + logarithm * first - near / 4 * series(sums, u)
    far = x.clip(low=_DECAYING_FROM)
    large = series(_hankel(order, 18), 1 / far) * sqrt(PI / 2 / far)
    found = where(x < _DECAYING_FROM, small * exp(near), large)
    return where(x <= 0, math.inf, found)


def _k(order: int, x: Term) -> Term:
    return _k_scaled(order, x) * where(x > 0, exp(-x), 1.0)


def _row(name: str, function: Callable[[Term], Term], summary: str) -> None:
    TABLE.add(
        name,
        inputs="X",
        infer=infer_floating,
        expand=in_float64(function),
        summary=f"{summary}, elementwise",
        traits=Traits(elementwise=True),
    )


def _rows(order: int) -> None:
    of = f"of order {order}"
    _row(f"BesselJ{order}", lambda x: _j(order, x), f"Bessel's function of the first kind {of}")
    _row(f"BesselY{order}", lambda x: _y(order, x), f"of the second kind {of}; -infinity from 0 down")
    _row(f"BesselI{order}", lambda x: _i_scaled(order, x) * exp(abs(x)), f"modified, of the first kind {of}")
    _row(f"BesselI{order}e", lambda x: _i_scaled(order, x), f"exp(-|X|) times BesselI{order}")
    _row(
        f"BesselK{order}", lambda x: _k(order, x), f"modified, of the second kind {of}; infinity from 0 down"
    )
    _row(f"BesselK{order}e", lambda x: _k_scaled(order, x), f"exp(X) times BesselK{order}")


for _order in (0, 1):
    _rows(_order)


def _spherical_j0(x: Term) -> Term:
    finite = where(is_infinite(x), 1.0, x)
    found = sin(finite) / where(x.equals(0), 1.0, x)
    return where(x.equals(0), 1.0, found)


_row("SphericalBesselJ0", _spherical_j0, "sin(X) / X")
