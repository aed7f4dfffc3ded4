"""Arithmetic on dimensions that may be symbolic: products and quotients of numbers and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod

from ...ir import Dim


def _parts(dim: Dim) -> tuple[int, Counter[str]] | None:
    """A dimension as a coefficient and its symbols; None when unknown."""
    if dim is None:
        return None
    if isinstance(dim, int):
        return dim, Counter()
    factors = dim.split("*")
    numbers = [int(f) for f in factors if f.isdigit()]
    return prod(numbers), Counter(f for f in factors if not f.isdigit())


def _text(number: int, symbols: Counter[str]) -> Dim:
    names = sorted(symbols.elements())
    if not names or not number:
        return number
    return "*".join(names if number == 1 else [str(number), *names])


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dimensions, None when one is unknown.

    Example:
        >>> product([2, "N", 3])
        '6*N'
    """
    number, symbols = 1, Counter[str]()
    for dim in dims:
        parts = _parts(dim)
        if parts is None:
            return None
        number *= parts[0]
        symbols += parts[1]
    return _text(number, symbols)


def quotient(dim: Dim, divisor: Dim) -> Dim:
    """The exact quotient of two dimensions, None when there is none or it is unknown.

    Example:
        >>> quotient("6*N", 3), quotient("6*N", "N"), quotient("N", 2)
        ('2*N', 6, None)
    """
    over, under = _parts(dim), _parts(divisor)
    if over is None or under is None or not under[0] or over[0] % under[0] or under[1] - over[1]:
        return None
    return _text(over[0] // under[0], over[1] - under[1])
