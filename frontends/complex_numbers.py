"""Arithmetic of complex numbers as pairs of parts: a framework's tensors, terms of a graph, or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex tensor, or number, as its real and its imaginary part."""

    real: Any
    imag: Any

    def conj(self) -> Complex:
        """Return the conjugates."""
        return Complex(self.real, -self.imag)

    def __add__(self, other: Any) -> Complex:
        y = parts(other)
        return Complex(self.real + y.real, _sum(self.imag, y.imag))

    def __sub__(self, other: Any) -> Complex:
        y = parts(other)
        return Complex(self.real - y.real, self.imag if _is_zero(y.imag) else self.imag - y.imag)

    def __mul__(self, other: Any) -> Complex:
        x, y = self, parts(other)
        if _is_zero(x.imag):
            x, y = y, x
        if _is_zero(y.imag):
            return Complex(x.real * y.real, x.imag * y.real)
        return Complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)

    def __truediv__(self, other: Any) -> Complex:
        x, y = self, parts(other)
        if _is_zero(y.imag):
            return Complex(x.real / y.real, x.imag / y.real)
        length = y.real * y.real + y.imag * y.imag
        real, imag = x.real * y.real + x.imag * y.imag, x.imag * y.real - x.real * y.imag
        return Complex(real / length, imag / length)


def parts(x: Any) -> Complex:
    """Return the parts of a tensor or number that may be real, whose imaginary part is then the number 0."""
    if isinstance(x, Complex):
        return x
    return Complex(x.real, x.imag) if isinstance(x, (int, float, complex)) else Complex(x, 0)


def _sum(a: Any, b: Any) -> Any:
    return a if _is_zero(b) else b if _is_zero(a) else a + b


def _is_zero(imag: Any) -> bool:
    return isinstance(imag, (int, float)) and imag == 0
