"""One symbolic integer: the sizes of dimensions, as polynomials of names and of divisions rounded down.

The text form is that of types: ``N``, ``6*N``, ``2*N+x_1-1``, ``((x_2-1)//2)+1``. Any other text is one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

Dim = int | str | None
"""A dimension: a number, a symbol or expression such as ``N`` or ``2*N``, or None when unknown."""

_LONGEST = 400  # characters of a text that is read as arithmetic
_MOST_TERMS = 100
_MOST_POWER = 8
_TOKEN = re.compile(r"\s*([0-9]{1,18}(?![\w.])|[A-Za-z_]\w*(?![.])|//|\*\*|[-+*()])")


@dataclass(frozen=True, slots=True)
class Quotient:
    """An inexact division, rounded down."""

    above: Size
    below: Size

    def __str__(self) -> str:
        return f"({_operand(self.above)}//{_operand(self.below)})"


Factors = tuple[str | Quotient, ...]
"""Names and divisions that are multiplied, in the order of their texts; none in a constant."""


@dataclass(frozen=True, slots=True)
class Size:
    """An integer polynomial of dimension names, in canonical form: equal polynomials compare equal.

    Attributes:
        terms: (factors, coefficient other than 0), those with most factors first.
    """

    terms: tuple[tuple[Factors, int], ...]

    @staticmethod
    def of(value: Size | int | str) -> Size:
        """Return the size of a number, or the one that a text denotes."""
        if isinstance(value, Size):
            return value
        if isinstance(value, str):
            return _read(value)
        return Size((((), value),)) if value else Size(())

    @property
    def number(self) -> int | None:
        """The value of a size without names; None where it depends on a name."""
        if not self.terms:
            return 0
        factors, coefficient = self.terms[0]
        return None if factors else coefficient

    @property
    def dim(self) -> int | str:
        """The size as types write it: a number, or a text such as ``2*N``."""
        number = self.number
        return str(self) if number is None else number

    @property
    def names(self) -> frozenset[str]:
        """Every name in the size."""
        found: set[str] = set()
        for factors, _ in self.terms:
            for each in factors:
                found |= {each} if isinstance(each, str) else each.above.names | each.below.names
        return frozenset(found)

    def __add__(self, other: Size | int) -> Size:
        total = dict(self.terms)
        for factors, coefficient in Size.of(other).terms:
            total[factors] = total.get(factors, 0) + coefficient
        return _collect(total)

    def __sub__(self, other: Size | int) -> Size:
        return self + Size.of(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        total: dict[Factors, int] = {}
        for left, a in self.terms:
            for right, b in Size.of(other).terms:
                factors = tuple(sorted(left + right, key=str))
                total[factors] = total.get(factors, 0) + a * b
        return _collect(total)

    def __floordiv__(self, other: Size | int) -> Size:
        below = Size.of(other)
        exact = self.divide(below)
        if exact is not None:
            return exact
        if below.number == 0:
            raise ZeroDivisionError(f"{self} // 0")
        if self.number is not None and below.number is not None:
            return Size.of(self.number // below.number)
        return _collect({(Quotient(self, below),): 1})

    def divide(self, other: Size | int) -> Size | None:
        """Return the exact quotient by a product of numbers and names; None where there is none."""
        below = Size.of(other)
        if len(below.terms) != 1:
            return None
        ((under, divisor),) = below.terms
        found: dict[Factors, int] = {}
        for factors, coefficient in self.terms:
            left = list(factors)
            for each in under:
                if each not in left:
                    return None
                left.remove(each)
            if coefficient % divisor:
                return None
            found[tuple(left)] = coefficient // divisor
        return _collect(found)

    def substitute(self, values: Mapping[str, Size | int]) -> Size:
        """Return the size with names replaced by sizes; names that `values` does not have stay."""
        total = Size(())
        for factors, coefficient in self.terms:
            term = Size.of(coefficient)
            for each in factors:
                if isinstance(each, Quotient):
                    term *= each.above.substitute(values) // each.below.substitute(values)
                else:
                    term *= Size.of(values[each]) if each in values else Size((((each,), 1),))
            total += term
        return total

    def differs(self, other: Size | int) -> bool:
        """Whether two sizes differ for all values, from 1 on, of their names."""
        apart = self - other
        if apart.number is not None:
            return apart.number != 0
        constant = sum(coefficient for factors, coefficient in apart.terms if not factors)
        if constant % gcd(*(coefficient for factors, coefficient in apart.terms if factors)):
            return True
        if any(isinstance(each, Quotient) for factors, _ in apart.terms for each in factors):
            return False  # which may be any number
        from_zero = apart.substitute({name: Size.of(1) + Size((((name,), 1),)) for name in apart.names})
        signs = {coefficient > 0 for _, coefficient in from_zero.terms}
        return len(signs) == 1 and any(not factors for factors, _ in from_zero.terms)

    def __str__(self) -> str:
        terms = self.terms
        if not terms:
            return "0"
        if len(terms) == 2 and terms[0][1] < 0 < terms[1][1]:
            terms = terms[::-1]  # 3-N
        text = ""
        for factors, coefficient in terms:
            shown = [str(abs(coefficient))] if abs(coefficient) != 1 or not factors else []
            text += "-" if coefficient < 0 else "+" if text else ""
            text += "*".join([*shown, *map(str, factors)])
        return text


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions; None when one is unknown.

    Example:
        >>> product([2, "N", 3])
        '6*N'
    """
    total = Size.of(1)
    for dim in dims:
        if dim is None:
            return None
        total *= Size.of(dim)
    return total.dim


def quotient(dim: Dim, divisor: Dim) -> Dim:
    """Return the exact quotient of two dimensions; None when there is none or it is unknown.

    Example:
        >>> quotient("6*N", 3), quotient("6*N", "N"), quotient("N", 2)
        ('2*N', 6, None)
    """
    if dim is None or divisor is None or divisor == 0:
        return None
    found = Size.of(dim).divide(Size.of(divisor))
    return None if found is None else found.dim


def is_computed(dim: Dim) -> bool:
    """Return whether a size is an expression, as ``N-2`` is, or unknown: such a size may be 0."""
    return dim is None or (isinstance(dim, str) and not dim.isidentifier())


def differ(a: Dim, b: Dim) -> bool:
    """Whether two dimensions cannot be equal.

    Example:
        >>> differ(2, 3), differ("N", 3), differ("2*N", 3), differ("N+1", "N"), differ("N", "M")
        (True, False, True, True, False)
    """
    if a == b or a is None or b is None:
        return False
    if isinstance(a, int) and isinstance(b, int):
        return True
    return _differ(a, b)


@lru_cache(maxsize=4096)
def _differ(a: int | str, b: int | str) -> bool:
    return Size.of(a).differs(Size.of(b))


def broadcast(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the shape that operands broadcast to, by NumPy's rule.

    Raises:
        ValueError: where two sizes along an axis differ and none is 1.

    Example:
        >>> broadcast(("N", 1, 3), (4, 1)), broadcast(("N",), ("M",)), broadcast(("N",), (4,))
        (('N', 4, 3), (None,), (4,))
    """
    found: list[Dim] = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for axis, size in enumerate(shape, len(found) - len(shape)):
            before = found[axis]
            if before == 1 or before == size:
                found[axis] = size
            elif size == 1:
                continue
            elif isinstance(before, int) and isinstance(size, int):
                raise ValueError(f"sizes {before} and {size} do not spread over one another")
            else:  # a size that is a number other than 1 leaves no choice
                found[axis] = next((s for s in (before, size) if isinstance(s, int)), None)
    return tuple(found)


def at_sizes(dim: Dim, sizes: Mapping[str, int]) -> Dim:
    """Return a dimension with numbers in place of names.

    Example:
        >>> at_sizes("2*N+1", {"N": 3}), at_sizes("M", {"N": 3})
        (7, 'M')
    """
    if not isinstance(dim, str):
        return dim
    return sizes[dim] if dim in sizes else Size.of(dim).substitute(sizes).dim


def _collect(total: Mapping[Factors, int]) -> Size:
    """Return the size of a sum of terms, in its one canonical form."""
    terms = [(factors, coefficient) for factors, coefficient in total.items() if coefficient]
    if len(terms) > 1:
        terms.sort(key=lambda term: (-len(term[0]), [str(each) for each in term[0]]))
    return Size(tuple(terms))


def _operand(size: Size) -> str:
    text = str(size)
    ((factors, coefficient), *more) = size.terms or (((), 0),)
    plain = not more and (not factors or (coefficient == 1 and len(factors) == 1)) and coefficient >= 0
    return text if plain else f"({text})"


# -- reading -----------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _read(text: str) -> Size:
    if text.isidentifier():
        return Size((((text,), 1),))
    try:
        return _Reader(text).whole()
    except (ValueError, ArithmeticError):
        return Size((((text,), 1),))


class _Reader:
    """Reads a sum of products.

    Args:
        text: what is read.
    """

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text) <= _LONGEST and (found := _TOKEN.match(text, at)):
            self._tokens.append(found[1])
            at = found.end()
        if at < len(text) or not self._tokens:
            raise ValueError(text)
        self._tokens.append("")
        self._at = 0

    def whole(self) -> Size:
        found = self._sum()
        if self._next():
            raise ValueError("expected the end")
        return found

    def _next(self) -> str:
        return self._tokens[self._at]

    def _take(self, *tokens: str) -> str:
        """Read the next token if it is one of these; return an empty text otherwise."""
        found = self._next()
        if found not in tokens:
            return ""
        self._at += 1
        return found

    def _sum(self) -> Size:
        sign = -1 if self._take("-") else 1
        total = self._product() * sign
        while sign := self._take("+", "-"):
            total += self._product() * (1 if sign == "+" else -1)
        return _check_terms(total)

    def _product(self) -> Size:
        total = self._power()
        while operator := self._take("*", "//"):
            total = total * self._power() if operator == "*" else total // self._power()
            _check_terms(total)
        return total

    def _power(self) -> Size:
        base = self._atom()
        if not self._take("**"):
            return base
        power = self._next()
        if not power.isdigit() or int(power) > _MOST_POWER:
            raise ValueError(power)
        self._at += 1
        total = Size.of(1)
        for _ in range(int(power)):
            total = _check_terms(total * base)
        return total

    def _atom(self) -> Size:
        token = self._next()
        self._at += 1
        if token == "(":
            found = self._sum()
            if not self._take(")"):
                raise ValueError("expected `)`")
            return found
        if token.isdigit():
            return Size.of(int(token))
        if not token.isidentifier():
            raise ValueError(token)
        return Size((((token,), 1),))


def _check_terms(size: Size) -> Size:
    if len(size.terms) > _MOST_TERMS:
        raise ValueError("expected fewer terms")
    return size
