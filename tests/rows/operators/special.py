"""Cases of special functions and common divisors."""

import numpy as np

from .case import Case, Input, floats, integers

X = Input(floats(2, 3, 4) * 2)
P = Input(np.abs(floats(2, 3, 4)) + 0.1)
U = Input(np.tanh(floats(2, 3, 4)) * 0.9)
J, K = Input(integers(2, 3, 4, high=60) - 30), Input(integers(2, 3, 4, high=9) - 4)
_ANY = "BesselI0 BesselI1 BesselI0e BesselI1e BesselJ0 BesselJ1 Erfc Exp2 Lgamma"
_POSITIVE = "BesselK0 BesselK1 BesselK0e BesselK1e BesselY0"

CASES = [
    *(Case(f"regraft.{name}", X) for name in _ANY.split()),
    *(Case(f"regraft.{name}", P) for name in _POSITIVE.split()),
    *(Case(f"regraft.{name}", X) for name in _POSITIVE.split()),
    *(Case("regraft.Polygamma", P, n=n) for n in (1, 4)),
    *(Case(f"regraft.{name}", J, K) for name in ("Gcd", "Lcm")),
    Case("regraft.Gamma", X),
    Case("regraft.Erfinv", U),
]
