"""Tests of samples: of one against a distribution, of two against each other (Kolmogorov and Smirnov)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import erf, erfc, exp, isclose, pi, prod, sqrt

import numpy as np

from ...frontends.infer_initializers import drawn
from ...ir import Initializer

MOST = 65536
"""Values of a tensor that are looked at: they tell scales that differ by three per cent."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A law with its arguments worked out for one tensor.

    Attributes:
        kind: "constant", "uniform", "normal" or "trunc_normal".
        numbers: the value; the bounds; mean and deviation; mean, deviation and bounds.
    """

    kind: str
    numbers: tuple[float, ...]

    def close(self, other: Distribution) -> bool:
        """Whether two are one, up to a thousandth."""
        return self.kind == other.kind and all(
            isclose(a, b, rel_tol=1e-3, abs_tol=1e-9)
            for a, b in zip(self.numbers, other.numbers, strict=True)
        )

    def cumulative(self, x: np.ndarray) -> np.ndarray:
        """The share of values at most `x`."""
        first, second, *rest = (*self.numbers, 0.0)
        if self.kind == "constant":
            return (x >= first).astype(np.float64)
        if self.kind == "uniform":
            return np.clip((x - first) / (second - first), 0.0, 1.0)
        share = _normal((x - first) / second)
        if self.kind == "normal":
            return share
        low, high = _normal((np.array(rest[:2]) - first) / second)
        return np.clip((share - low) / (high - low), 0.0, 1.0)


_STEPS = np.linspace(-9.0, 9.0, 18001)
"""Deviations at which the normal law is computed; between them it is off by 3e-8, a sample by 1e-5."""


@cache
def _shares() -> np.ndarray:
    """Return the share of a normal law's values up to each of `_STEPS`."""
    return np.array([0.5 * (1 + erf(z / sqrt(2))) for z in _STEPS.tolist()])


def _normal(z: np.ndarray) -> np.ndarray:
    return np.interp(z, _STEPS, _shares())


def resolved(law: Initializer | None, shape: tuple[int, ...]) -> Distribution | None:
    """The distribution of a law for a tensor of this shape; None where it is no simple one.

    Example:
        >>> resolved(Initializer.of("he_uniform", a=5 ** 0.5, mode="fan_in"), (8, 4))
        Distribution(kind='uniform', numbers=(-0.5, 0.5))
    """
    if law is None:
        return None
    constants = {"zeros": 0.0, "ones": 1.0, "constant": law.number("value", 0.0)}
    if law.law in constants:
        return Distribution("constant", (constants[law.law],))
    if law.law == "uniform":
        return Distribution("uniform", (law.number("low", -1.0), law.number("high", 1.0)))
    if law.law == "normal":
        return Distribution("normal", (law.number("mean", 0.0), law.number("std", 1.0)))
    if law.law == "trunc_normal":
        names = (("mean", 0.0), ("std", 1.0), ("low", -2.0), ("high", 2.0))
        mean, std, low, high = (law.number(*pair) for pair in names)
        far = min(mean - low, high - mean) > 4.5 * std  # torch's default bounds of 2 cut nothing of std 0.02
        return (
            Distribution("normal", (mean, std))
            if far
            else Distribution("trunc_normal", (mean, std, low, high))
        )
    if len(shape) < 2 or 0 in shape:
        return None
    field = prod(shape[2:])
    fans = {"fan_in": shape[1] * field, "fan_out": shape[0] * field}
    if law.law.startswith("he_"):
        gain = sqrt(2 / (1 + law.number("a", 0.0) ** 2))
        std = gain / sqrt(fans[str(law.argument("mode", "fan_in"))])
    elif law.law.startswith("xavier_"):
        std = law.number("gain", 1.0) * sqrt(2 / sum(fans.values()))
    else:
        return None
    if law.law.endswith("normal"):
        return Distribution("normal", (0.0, std))
    bound = round(std * sqrt(3), 12)
    return Distribution("uniform", (-bound, bound))


def sample(values: np.ndarray) -> np.ndarray:
    """At most `MOST` values of a tensor that are drawn, flat, in float64, sorted."""
    flat = drawn(np.asarray(values))
    return np.sort(flat[:: -(-flat.size // MOST) or 1].astype(np.float64))


def two_samples(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """(largest distance of the empirical distributions, its probability under one law), of sorted samples."""
    every = np.concatenate([a, b])
    shares = [np.searchsorted(side, every, side="right") / len(side) for side in (a, b)]
    statistic = float(np.abs(shares[0] - shares[1]).max())
    return statistic, _probability(statistic, len(a) * len(b) / (len(a) + len(b)))


def one_sample(values: np.ndarray, law: Distribution) -> float:
    """The probability that a sorted sample of a law is as far from it as this one."""
    if law.kind == "constant":
        return 1.0 if np.allclose(values, law.numbers[0], rtol=1e-6, atol=1e-12) else 0.0
    n = len(values)
    below = law.cumulative(values)
    steps = np.arange(n + 1) / n
    return _probability(float(max((steps[1:] - below).max(), (below - steps[:-1]).max())), n)


def probability_of(values: np.ndarray, law: Distribution) -> float:
    """The probability that a sorted sample of a law is as far from it as this one, in any of several ways.

    Besides `one_sample`: no value of a uniform law lies beyond its bounds, and of many some come near them;
    the squares of a normal law add up to what they should; and no continuous law gives one value throughout.
    """
    found = [one_sample(values, law)]
    n = len(values)
    if law.kind == "constant":
        return found[0]
    if values[0] == values[-1] and (n > 1 or values[0] in (0.0, 1.0)):
        return 0.0
    if law.kind == "uniform":
        low, high = law.numbers
        margin = 1e-6 * (high - low)
        if values[0] < low - margin or values[-1] > high + margin:
            return 0.0
        for gap in (values[0] - low, high - values[-1]):
            found.append(min(1.0, (1 - max(gap, 0.0) / (high - low)) ** n))
        middle, half = (low + high) / 2, (high - low) / 2
        farthest = max(middle - values[0], values[-1] - middle)  # a narrower law comes near neither bound
        found.append(min(1.0, max(farthest, 0.0) / half) ** n)
    if law.kind == "normal" and n > 7:
        mean, deviation = law.numbers
        ratio = float((((values - mean) / deviation) ** 2).sum()) / n
        spread = 2 / (9 * n)  # Wilson and Hilferty: the cube root of a chi-square is nearly normal
        away = abs(ratio ** (1 / 3) - (1 - spread)) / sqrt(spread)
        found.append(erfc(away / sqrt(2)))
    return float(min(1.0, min(found) * len(found)))


def _probability(statistic: float, size: float) -> float:
    """Kolmogorov's limit law, with Stephens's correction for samples of finite size."""
    x = (sqrt(size) + 0.12 + 0.11 / sqrt(size)) * statistic
    if x < 1:  # the series in its other form, which converges there
        return (
            1.0 - sqrt(2 * pi) / x * sum(exp(-((2 * k - 1) ** 2) * pi**2 / (8 * x**2)) for k in (1, 2, 3))
            if x
            else 1.0
        )
    return max(0.0, min(1.0, 2 * sum((-1) ** (k - 1) * exp(-2 * k**2 * x**2) for k in range(1, 6))))


def looks_like(values: np.ndarray) -> Initializer | None:
    """A usual law that a sorted sample passes for; None when it passes for none."""
    if values[0] == values[-1]:
        named = {0.0: "zeros", 1.0: "ones"}.get(float(values[0]))
        return Initializer.of(named) if named else Initializer.of("constant", value=float(values[0]))
    if len(values) < 100:
        return None
    bound = float(np.abs(values).max()) * (len(values) + 1) / len(values)
    for law in (
        Initializer.of("uniform", low=-bound, high=bound),
        Initializer.of("normal", mean=0.0, std=float(np.sqrt((values**2).mean()))),
    ):
        found = resolved(law, ())
        if found is not None and one_sample(values, found) > 1e-3:
            return law
    return None
