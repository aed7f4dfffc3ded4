"""Bins the values of parameters, source over target, and the laws that they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ...ir import Array, Initializer
from ...verification.two_nets.samples import resolved

BINS = 32
_MOST = 1 << 16
"""Values of a tensor that are looked at, evenly spread: no bar moves by more than its own width in pixels."""

_FULL = 999
"""Height of the highest bar, so that a page of a thousand tensors stays small."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a net.

    Attributes:
        name: its name.
        load: gives its values.
        law: its initial distribution, if known.
    """

    name: str
    load: Callable[[], Array]
    law: Initializer | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Two tensors over the same bins; heights are 0 to 999, lists are empty for a side without values.

    Attributes:
        source: name in the source; empty for none.
        target: name in the target; empty for none.
        shape: in the source, or in the target where the source has none.
        low: the least value of either.
        high: the largest.
        heights: of the bars, of the source and of the target.
        laws: heights of what the initial laws expect in each bin, likewise.
        told: the initial laws in words, likewise.
        moments: (mean, deviation, share of values that are no number), likewise.
        apart: largest distance of the two distributions, 0 to 1; None where one has no values.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    low: float
    high: float
    heights: tuple[list[int], list[int]]
    laws: tuple[list[int], list[int]] = field(default=([], []))
    told: tuple[str, str] = ("", "")
    moments: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    apart: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def bin_pairs(pairs: Iterable[tuple[Tensor | None, Tensor | None]]) -> Iterator[Histogram]:
    """Yield one histogram per pair that has a floating-point number."""
    for pair in pairs:
        found = _bin(*pair)
        if found is not None:
            yield found


def _bin(source: Tensor | None, target: Tensor | None) -> Histogram | None:
    sides = (source, target)
    arrays = [None if side is None else side.load() for side in sides]
    shape = next((tuple(a.shape) for a in arrays if a is not None), ())
    samples = [_sample(array) for array in arrays]
    finite = [s for s in samples if s is not None and s.size]
    if not finite:
        return None
    low, high = min(float(s.min()) for s in finite), max(float(s.max()) for s in finite)
    if low == high:  # one bar in the middle
        width = abs(low) / 2 or 0.5
        low, high = low - width, high + width
    edges = np.linspace(low, high, BINS + 1)
    shares = [_shares(sample, edges) for sample in samples]
    expected = [
        None if side is None or not len(share) else _expected(side.law, shape, edges)
        for side, share in zip(sides, shares, strict=True)
    ]
    most = max(float(s.max()) for s in [*shares, *(e for e in expected if e is not None)] if len(s)) or 1.0
    apart = None
    if all(len(s) for s in shares):
        apart = round(float(np.abs(np.cumsum(shares[0]) - np.cumsum(shares[1])).max()), 4)
    return Histogram(
        source.name if source else "",
        target.name if target else "",
        shape,
        low,
        high,
        (_heights(shares[0], most), _heights(shares[1], most)),
        (_heights(expected[0], most), _heights(expected[1], most)),
        (_told(source), _told(target)),
        (_moments(arrays[0], samples[0]), _moments(arrays[1], samples[1])),
        apart,
    )


def _sample(array: Array | None) -> Array | None:
    """Return some of the finite values, in float64; None for what is no floating-point number."""
    if array is None or not _is_float(array):
        return None
    flat = array.reshape(-1)
    taken = flat[:: max(1, -(-flat.size // _MOST))].astype(np.float64)
    return taken[np.isfinite(taken)]


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _shares(sample: Array | None, edges: Array) -> Array:
    if sample is None or not sample.size:
        return np.zeros(0)
    return np.histogram(sample, edges)[0] / sample.size


def _expected(law: Initializer | None, shape: tuple[int, ...], edges: Array) -> Array | None:
    """Return the share of values that a law expects in each bin; None where it is no simple one."""
    distribution = resolved(law, shape)
    if distribution is None:
        return None
    if distribution.kind == "constant":
        return np.histogram(np.array(distribution.numbers[:1]), edges)[0].astype(np.float64)
    if distribution.kind != "trunc_normal" and not distribution.numbers[1]:
        return None
    with np.errstate(all="ignore"):  # degenerate bounds give no number, which is not drawn
        shares = np.diff(distribution.cumulative(edges))
    return shares if np.isfinite(shares).all() else None


def _heights(shares: Array | None, most: float) -> list[int]:
    return [] if shares is None else [int(v) for v in np.rint(shares / most * _FULL)]


def _told(tensor: Tensor | None) -> str:
    """Return a law in words, its numbers rounded; empty where none is known."""
    if tensor is None or tensor.law is None or tensor.law.law == "unknown":
        return ""
    numbers = [f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in tensor.law.arguments]
    return f"{tensor.law.law}({', '.join(numbers)})"


def _moments(array: Array | None, sample: Array | None) -> tuple[float, ...]:
    if array is None or sample is None or not sample.size:
        return ()
    looked = max(1, len(range(0, array.size, max(1, -(-array.size // _MOST)))))
    with np.errstate(over="ignore"):
        moments = (float(sample.mean()), float(sample.std()))
    return (*(v if np.isfinite(v) else 0.0 for v in moments), round(1 - sample.size / looked, 6))
