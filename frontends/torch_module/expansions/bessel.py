"""Bessel functions of orders 0 and 1: power series near zero, Hankel's asymptotic series far from it.

Torch's own decompositions, where there are any, end in primitives without a lowering.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .special import precise
from .table import Expansions

table = Expansions()

_TERMS = 60
_OSCILLATING_FROM = 12.0  # below, the series loses 5 of float64's 16 digits at the most
_DECAYING_FROM = 9.0
_HARMONIC = [sum(1 / i for i in range(1, k + 1)) for k in range(_TERMS + 2)]


def _series(u: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of coefficients[k] * u**k, by Horner's rule."""
    found = u * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3::-1]:
        found = found * u + c
    return found


def _coefficients(order: int, sign: int, terms: int = 40) -> list[float]:
    """Of u**k, u = x*x/4, in the series of J (sign -1) and I (sign 1) over (x/2)**order."""
    return [sign**k / (math.factorial(k) * math.factorial(k + order)) for k in range(terms)]


def _hankel(order: int, terms: int) -> list[float]:
    """The numbers a_k of Hankel's expansion."""
    found = [1.0]
    for k in range(1, terms):
        found.append(found[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return found


def _far(order: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """(cosine, sine) parts of J and Y far from zero, and their phase taken care of."""
    a = _hankel(order, 14)
    inverse = 1 / x
    square = inverse * inverse
    p = _series(square, [(-1) ** k * a[2 * k] for k in range(7)])
    q = _series(square, [(-1) ** k * a[2 * k + 1] for k in range(7)]) * inverse
    phase = x - (order / 2 + 0.25) * math.pi
    root = torch.sqrt(2 / math.pi * inverse)
    cosine, sine = torch.cos(phase), torch.sin(phase)
    return root * (p * cosine - q * sine), root * (p * sine + q * cosine)


def _j(order: int, x: Tensor) -> Tensor:
    near = torch.clamp(x.abs(), max=_OSCILLATING_FROM)
    small = _series(near * near / 4, _coefficients(order, -1)) * (near / 2) ** order
    large = _far(order, torch.clamp(x.abs(), min=_OSCILLATING_FROM))[0]
    found = torch.where(x.abs() < _OSCILLATING_FROM, small, large)
    return torch.where(x < 0, -found, found) if order else found


def _y(order: int, x: Tensor) -> Tensor:
    near = torch.clamp(x, min=1e-300, max=_OSCILLATING_FROM)
    u, logarithm = near * near / 4, torch.log(near / 2)
    signed = _coefficients(order, -1)
    if order == 0:
        sums = [c * _HARMONIC[k] for k, c in enumerate(signed)]
        small = 2 / math.pi * ((logarithm + _EULER) * _j(0, near) - _series(u, sums))
    else:
        sums = [c * (_HARMONIC[k] + _HARMONIC[k + 1] - 2 * _EULER) for k, c in enumerate(signed)]
        small = 2 / math.pi * (logarithm * _j(1, near) - 1 / near) - near / (2 * math.pi) * _series(u, sums)
    large = _far(order, torch.clamp(x, min=_OSCILLATING_FROM))[1]
    found = torch.where(x < _OSCILLATING_FROM, small, large)
    return torch.where(x == 0, -math.inf, torch.where(x < 0, math.nan, found))


_EULER = 0.5772156649015329


def _i_scaled(order: int, x: Tensor) -> Tensor:
    """exp(-|x|) I(x)."""
    size, limit = x.abs(), 20.0
    near = torch.clamp(size, max=limit)
    small = _series(near * near / 4, _coefficients(order, 1, _TERMS)) * (near / 2) ** order * torch.exp(-near)
    far = torch.clamp(size, min=limit)
    signed = [(-1) ** k * a for k, a in enumerate(_hankel(order, 16))]
    large = _series(1 / far, signed) / torch.sqrt(2 * math.pi * far)
    found = torch.where(size < limit, small, large)
    return torch.where(x < 0, -found, found) if order else found


def _k_scaled(order: int, x: Tensor) -> Tensor:
    """exp(x) K(x)."""
    near = torch.clamp(x, min=1e-300, max=_DECAYING_FROM)
    u, logarithm = near * near / 4, torch.log(near / 2)
    plain = _coefficients(order, 1)
    bessel = _series(u, plain) * (near / 2) ** order
    if order == 0:
        sums = [c * _HARMONIC[k] for k, c in enumerate(plain)]
        small = _series(u, sums) - (logarithm + _EULER) * bessel
    else:
        sums = [c * (_HARMONIC[k] + _HARMONIC[k + 1] - 2 * _EULER) for k, c in enumerate(plain)]
        small = 1 / near + logarithm * bessel - near / 4 * _series(u, sums)
    far = torch.clamp(x, min=_DECAYING_FROM)
    large = _series(1 / far, _hankel(order, 18)) * torch.sqrt(math.pi / 2 / far)
    found = torch.where(x < _DECAYING_FROM, small * torch.exp(near), large)
    return torch.where(x == 0, math.inf, torch.where(x < 0, math.nan, found))


@table.of("aten.special_bessel_j0.default")
@precise
def bessel_j0(x: Tensor) -> Tensor:
    """The first kind, order 0."""
    return _j(0, x)


@table.of("aten.special_bessel_j1.default")
@precise
def bessel_j1(x: Tensor) -> Tensor:
    """The first kind, order 1."""
    return _j(1, x)


@table.of("aten.special_bessel_y0.default")
@precise
def bessel_y0(x: Tensor) -> Tensor:
    """The second kind, order 0."""
    return _y(0, x)


@table.of("aten.special_bessel_y1.default")
@precise
def bessel_y1(x: Tensor) -> Tensor:
    """The second kind, order 1."""
    return _y(1, x)


@table.of("aten.i0.default", "aten.special_i0.default", "aten.special_modified_bessel_i0.default")
@precise
def i0(x: Tensor) -> Tensor:
    """Modified, the first kind, order 0."""
    return _i_scaled(0, x) * torch.exp(x.abs())


@table.of("aten.special_i1.default", "aten.special_modified_bessel_i1.default")
@precise
def i1(x: Tensor) -> Tensor:
    """Modified, the first kind, order 1."""
    return _i_scaled(1, x) * torch.exp(x.abs())


@table.of("aten.special_i0e.default")
@precise
def i0e(x: Tensor) -> Tensor:
    """Modified, the first kind, order 0, scaled by exp(-|x|)."""
    return _i_scaled(0, x)


@table.of("aten.special_i1e.default")
@precise
def i1e(x: Tensor) -> Tensor:
    """Modified, the first kind, order 1, scaled by exp(-|x|)."""
    return _i_scaled(1, x)


@table.of("aten.special_modified_bessel_k0.default")
@precise
def k0(x: Tensor) -> Tensor:
    """Modified, the second kind, order 0."""
    return _k_scaled(0, x) * torch.exp(-x)


@table.of("aten.special_modified_bessel_k1.default")
@precise
def k1(x: Tensor) -> Tensor:
    """Modified, the second kind, order 1."""
    return _k_scaled(1, x) * torch.exp(-x)


@table.of("aten.special_scaled_modified_bessel_k0.default")
@precise
def scaled_k0(x: Tensor) -> Tensor:
    """Modified, the second kind, order 0, scaled by exp(x)."""
    return _k_scaled(0, x)


@table.of("aten.special_scaled_modified_bessel_k1.default")
@precise
def scaled_k1(x: Tensor) -> Tensor:
    """Modified, the second kind, order 1, scaled by exp(x)."""
    return _k_scaled(1, x)


@table.of("aten.special_spherical_bessel_j0.default")
@precise
def spherical_j0(x: Tensor) -> Tensor:
    """sin(x) / x."""
    return torch.where(x == 0, 1.0, torch.sin(x) / torch.where(x == 0, 1.0, x))
