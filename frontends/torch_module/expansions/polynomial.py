"""Orthogonal polynomials: Chebyshev's by their trigonometric form, others of a fixed degree by recurrence."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .table import Expansions, Inexpressible

table = Expansions()

_MOST = 64
"""Of what degree a polynomial is unrolled."""


def _overloads(name: str) -> list[str]:
    return [f"aten.special_{name}.{overload}" for overload in ("default", "n_scalar", "x_scalar")]


def _places(x: Tensor | float, n: Tensor | float) -> Tensor:
    """Where a polynomial is taken; a number at as many places as there are degrees."""
    if isinstance(x, Tensor):
        return x
    assert isinstance(n, Tensor), "torch has no overload for two numbers"
    return torch.full_like(n, x, dtype=n.dtype if n.dtype.is_floating_point else torch.get_default_dtype())


def _recurrence(
    first: float, second: Callable[[Tensor], Tensor], step: Callable[..., Tensor]
) -> Callable[..., Tensor]:
    """p0 = first, p1 = second(x), p(k+1) = step(x, k, p(k), p(k-1)).

    Of degrees that are data all are computed and one is taken; NaN stands for those above the largest.
    """

    def polynomial(x: Tensor | float, n: Tensor | float) -> Tensor:
        x = _places(x, n)
        if not isinstance(n, Tensor) and n > _MOST:
            raise Inexpressible(f"its degree {n} is above {_MOST}")
        degree = n if isinstance(n, Tensor) else int(n)
        last = _MOST // 2 if isinstance(degree, Tensor) else max(degree, 1)
        found = [torch.full_like(x, first), second(x)]
        for k in range(1, last):
            found.append(step(x, k, found[-1], found[-2]))
        if not isinstance(degree, Tensor):
            return torch.zeros_like(x) if degree < 0 else found[degree]
        whole = torch.trunc(degree)
        of_data = torch.where(whole > last, math.nan, 0.0) * x
        for k, value in enumerate(found):
            of_data = torch.where(whole == k, value, of_data)
        return of_data

    return polynomial


_RECURRENCES = {
    "hermite_polynomial_h": (lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - 2 * k * q),
    "hermite_polynomial_he": (lambda x: x, lambda x, k, p, q: x * p - k * q),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}
for _name, (_second, _step) in _RECURRENCES.items():
    table.of(*_overloads(_name))(_recurrence(1.0, _second, _step))


def _chebyshev(kind: str, shifted: bool) -> Callable[..., Tensor]:
    """cos(n t) and its kin for x = cos(t); beyond [-1, 1] the same with hyperbolic functions."""

    def polynomial(x: Tensor | float, n: Tensor | float) -> Tensor:
        x = _places(x, n)
        result = x.dtype
        x = x.double() * 2 - 1 if shifted else x.double()
        degree = torch.trunc(n.double()) if isinstance(n, Tensor) else float(int(n))
        if not isinstance(degree, Tensor):
            degree = torch.full_like(x, degree)
        size = x.abs()
        odd = torch.remainder(degree, 2) == 1
        sign = torch.where((x < 0) & odd, -1.0, 1.0)
        theta = torch.acos(torch.clamp(x, -1, 1).float()).double()  # ONNX Runtime has it in float32 only
        far = torch.clamp(size, min=1)
        eta = torch.log(far + torch.sqrt(far * far - 1))
        if kind == "t":
            inside, outside = torch.cos(degree * theta), sign * _cosh(degree * eta)
        elif kind == "u":
            inside = torch.sin((degree + 1) * theta) / torch.sin(theta)
            outside = sign * _sinh((degree + 1) * eta) / _sinh(eta)
        else:  # v and w are each other's mirror: w(x) = (-1)**n v(-x)
            third = kind == "v"
            half = (degree + 0.5) * theta
            inside = (
                torch.cos(half) / torch.cos(theta / 2) if third else torch.sin(half) / torch.sin(theta / 2)
            )
            near, far = (
                _cosh((degree + 0.5) * eta) / _cosh(eta / 2),
                (_sinh((degree + 0.5) * eta) / _sinh(eta / 2)),
            )
            positive, negative = (near, far) if third else (far, near)
            outside = torch.where(x > 0, positive, sign * negative)
        found = torch.where(size < 1, inside, torch.where(size > 1, outside, _at_one(kind, x, degree)))
        return torch.where(degree < 0, 0.0, found).to(result)

    return polynomial


def _cosh(x: Tensor) -> Tensor:
    return (torch.exp(x) + torch.exp(-x)) / 2


def _sinh(x: Tensor) -> Tensor:
    return (torch.exp(x) - torch.exp(-x)) / 2


def _at_one(kind: str, x: Tensor, degree: Tensor) -> Tensor:
    """The values at -1 and 1."""
    sign = torch.where((x < 0) & (torch.remainder(degree, 2) == 1), -1.0, 1.0)
    if kind == "t":
        return sign
    if kind == "u":
        return sign * (degree + 1)
    large = 2 * degree + 1
    return torch.where(x > 0, 1.0 if kind == "v" else large, sign * (large if kind == "v" else 1.0))


for _kind in "tuvw":
    for _shifted in (False, True):
        _base = f"{'shifted_' if _shifted else ''}chebyshev_polynomial_{_kind}"
        table.of(*_overloads(_base))(_chebyshev(_kind, _shifted))
