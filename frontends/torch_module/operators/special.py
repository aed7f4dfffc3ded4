"""Lowerings of special functions, orthogonal polynomials and common divisors."""

from __future__ import annotations

import math as numbers

from ....ir import Value
from ....ir.composites.polynomial import FAMILIES, MOST
from ...lowering_table import Lowering, LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")

_UNARY = {
    "lgamma special_gammaln": "Lgamma",
    "digamma special_psi special_digamma": "Digamma",
    "erfc special_erfc": "Erfc",
    "special_erfcx": "Erfcx",
    "erfinv special_erfinv": "Erfinv",
    "exp2 special_exp2": "Exp2",
    "special_ndtri": "Ndtri",
    "special_log_ndtr": "LogNdtr",
    "special_bessel_j0": "BesselJ0",
    "special_bessel_j1": "BesselJ1",
    "i0 special_i0 special_modified_bessel_i0": "BesselI0",
    "special_i1 special_modified_bessel_i1": "BesselI1",
    "special_i0e": "BesselI0e",
    "special_i1e": "BesselI1e",
    "special_spherical_bessel_j0": "SphericalBesselJ0",
}
_POSITIVE = {
    "special_bessel_y0": "BesselY0",
    "special_bessel_y1": "BesselY1",
    "special_modified_bessel_k0": "BesselK0",
    "special_modified_bessel_k1": "BesselK1",
    "special_scaled_modified_bessel_k0": "BesselK0e",
    "special_scaled_modified_bessel_k1": "BesselK1e",
}
"""Functions that torch leaves undefined below zero, where the composite is infinite."""


def _unary(composite: str) -> Lowering[Call]:
    return lambda call: call.op(f"regraft.{composite}", call.operand(call.first, call.dtype))


def _of_positive(composite: str) -> Lowering[Call]:
    def lower(call: Call) -> Value:
        x = call.operand(call.first, call.dtype)
        below = call.op("Less", x, call.scalar_like(0, x))
        return call.op("Where", below, call.scalar_like(numbers.nan, x), call.op(f"regraft.{composite}", x))

    return lower


for _names, _composite in _UNARY.items():
    TABLE.op(*(f"aten.{name}.default" for name in _names.split()))(_unary(_composite))
for _name, _composite in _POSITIVE.items():
    TABLE.op(f"aten.{_name}.default")(_of_positive(_composite))


@TABLE.op("aten.polygamma.default", "aten.special_polygamma.default")
def polygamma(call: Call) -> Value:
    """Return the n-th derivative of digamma."""
    return call.op("regraft.Polygamma", call.operand("self", call.dtype), n=call.int("n"))


@TABLE.op("aten.special_zeta.default", "aten.special_zeta.other_scalar", "aten.special_zeta.self_scalar")
def zeta(call: Call) -> Value:
    """Hurwitz's zeta function."""
    return call.op("regraft.Zeta", call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.logaddexp2.default")
def logaddexp2(call: Call) -> Value:
    """Return the logarithm to base 2 of a sum of powers of two."""
    return call.op("regraft.LogAddExp2", call.operand("self", call.dtype), call.operand("other", call.dtype))


@TABLE.op("aten.frexp.Tensor")
def frexp(call: Call) -> list[Value]:
    """Mantissa in [1/2, 1) and exponent."""
    return call.ops("regraft.Frexp", call.value("self"), outputs=2)


@TABLE.op("aten.gcd.default", "aten.lcm.default")
def divisors(call: Call) -> Value:
    """Return the greatest common divisor, or the least common multiple."""
    composite = "Gcd" if "gcd" in call.operator else "Lcm"
    operands = call.operand("self", call.dtype), call.operand("other", call.dtype)
    return call.op(f"regraft.{composite}", *operands)


def _polynomial(family: str) -> Lowering[Call]:
    def polynomial(call: Call) -> Value:
        degree = call.arg("n")
        if isinstance(degree, Value):
            operands = call.operand("x", call.dtype), call.operand("n", call.dtype)
            return call.op("regraft.Polynomial", *operands, family=family)
        if "chebyshev" not in family and int(degree) > MOST:
            raise call.unsupported(f"expected a degree of {MOST} or less, got {degree}")
        x = call.operand("x", call.dtype)
        return call.op("regraft.Polynomial", x, family=family, degree=int(degree))

    return polynomial


for _family in FAMILIES:
    _base, _, _kind = _family.rpartition("_")
    TABLE.op(
        *(f"aten.special_{_base}_polynomial_{_kind}.{form}" for form in ("default", "n_scalar", "x_scalar"))
    )(_polynomial(_family))
