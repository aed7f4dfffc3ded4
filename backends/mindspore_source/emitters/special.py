"""Special functions whose kernels are as accurate as the expansions; the others are written out.

Measured on CPU, in float16, float32 and float64: `ops.erfinv` is 1e-5 off from 0.98 on and 0.3 at 1 - 1e-6,
`ops.digamma` 3e-4 near its poles, `ops.bessel_y1` NaN at 0, and `ops.logaddexp2` NaN where both are infinite.
`ops.igamma`, which nothing here stands for, is 1e-3 off at 1e4 and 1e-2 at 1e6.
"""

from __future__ import annotations

from ...source.emitting import EmitterTable, Expression, Refused, View
from ...source.expressions import Helper, call

TABLE = EmitterTable()

_FLOATING = {
    "Lgamma": "lgamma",
    "Erfc": "erfc",
    "Exp2": "exp2",
    "BesselJ0": "bessel_j0",
    "BesselJ1": "bessel_j1",
    "BesselY0": "bessel_y0",
    "BesselI0": "bessel_i0",
    "BesselI1": "bessel_i1",
    "BesselI0e": "bessel_i0e",
    "BesselI1e": "bessel_i1e",
    "BesselK0": "bessel_k0",
    "BesselK1": "bessel_k1",
    "BesselK0e": "bessel_k0e",
    "BesselK1e": "bessel_k1e",
}
_WHOLE = {"Gcd": "gcd", "Lcm": "lcm"}


def _require(view: View, *dtypes: str) -> None:
    if view.type(0).dtype not in dtypes:
        raise Refused


@TABLE.call(*(f"regraft.{name}" for name in _FLOATING))
def unary(view: View) -> Expression:
    """Emit ops.lgamma and its kin."""
    _require(view, "float16", "float32", "float64")
    return call(f"ops.{_FLOATING[view.operator.op_type]}", view.tensor(0))


@TABLE.call("regraft.Log1p", "regraft.Expm1")
def near_zero(view: View) -> Expression:
    """Emit a call of the emitted file's own log1p, expm1."""
    return call(Helper(view.operator.op_type.lower()), view.tensor(0))


@TABLE.call(*(f"regraft.{name}" for name in _WHOLE))
def divisors(view: View) -> Expression:
    """Emit ops.gcd, ops.lcm."""
    _require(view, "int32", "int64")
    return call(f"ops.{_WHOLE[view.operator.op_type]}", view.tensor(0), view.tensor(1))


@TABLE.call("regraft.Polygamma")
def polygamma(view: View) -> Expression:
    """Emit ops.polygamma, whose order is a tensor."""
    _require(view, "float32", "float64")
    if not view.operator.int("n"):
        raise Refused
    return call("ops.polygamma", call("Tensor", view.operator.int("n")), view.tensor(0))
