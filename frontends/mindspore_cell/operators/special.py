"""Special functions, and common divisors."""

from __future__ import annotations

import math as numbers

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
TABLE.direct(
    {
        "Digamma": "regraft.Digamma",
        "Erfc": "regraft.Erfc",
        "Erfinv": "regraft.Erfinv",
        "Gcd": "regraft.Gcd",
        "Lgamma": "regraft.Lgamma",
        "Zeta": "regraft.Zeta",
        **{f"Bessel{kind}": f"regraft.Bessel{kind}" for kind in ("I0", "I1", "I0e", "I1e", "J0", "J1", "Y0")},
        **{f"Bessel{kind}": f"regraft.Bessel{kind}" for kind in ("K0", "K1", "K0e", "K1e")},
    }
)


@TABLE.op("BesselY1")
def bessel_y1(call: Call) -> Value:
    """Lower the Bessel function Y1, whose kernel returns NaN at zero."""
    x = call.value(0)
    at_zero = call.op("Equal", x, call.scalar_like(0, x))
    return call.op("Where", at_zero, call.scalar_like(numbers.nan, x), call.op("regraft.BesselY1", x))


@TABLE.op("Polygamma")
def polygamma(call: Call) -> Value:
    """Lower Polygamma, whose order is a tensor that the graph must hold."""
    return call.op("regraft.Polygamma", call.value(1), n=call.int(0))
