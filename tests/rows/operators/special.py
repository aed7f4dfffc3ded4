"""Cases of special functions and common divisors."""

import numpy as np

from .case import Case, Input, floats, integers

X = Input(floats(2, 3, 4) * 2)
P = Input(np.abs(floats(2, 3, 4)) + 0.1)
U = Input(np.tanh(floats(2, 3, 4)) * 0.9)
J, K = Input(integers(2, 3, 4, high=60) - 30), Input(integers(2, 3, 4, high=9) - 4)
_ANY = "BesselI0 BesselI1 BesselI0e BesselI1e BesselJ0 BesselJ1 Erfc Exp2 Expm1 Lgamma"
_POSITIVE = "BesselK0 BesselK1 BesselK0e BesselK1e BesselY0"

_FOUR = Input(floats(2, 5, 8)), Input(floats(2, 5, 8, seed=1))

CASES = [
    *(
        Case("regraft.Fourier", *_FOUR[: 1 + both], outputs=2, axis=axis, norm=norm, inverse=inverse)
        for both, axis, norm, inverse in ((0, 2, "backward", 0), (1, 1, "ortho", 1), (1, -1, "forward", 0))
    ),
    Case("regraft.Fourier", _FOUR[0], outputs=2, compared=1, axis=1),
    *(Case("regraft.Fourier", _FOUR[0], outputs=2, half=1, axis=1, inverse=n, norm="ortho") for n in (0, 1)),
    *(Case("regraft.RealFourier", *_FOUR, n=n, inverse=n % 2) for n in (14, 15)),
    Case("regraft.RealFourier", *_FOUR, n=9, axis=1, norm="forward"),
    *(Case(f"regraft.{name}", X) for name in _ANY.split()),
    *(Case(f"regraft.{name}", P) for name in _POSITIVE.split()),
    *(Case(f"regraft.{name}", X) for name in _POSITIVE.split()),
    *(Case("regraft.Polygamma", P, n=n) for n in (1, 4)),
    *(Case(f"regraft.{name}", J, K) for name in ("Gcd", "Lcm")),
    Case("regraft.Gamma", X),
    Case("regraft.Log1p", P),
    Case("regraft.Erfinv", U),
]
