"""Finds a value of one run among those of another: equal, or with its axes in another order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np

SAME, SHAPED, TURNED = "same", "shaped", "turned"
"""Relations of two equal values: same layout, other axis sizes in one order, axes in another order."""

_MOST_TURNED = 5
"""Axes of a value that is looked for in every order of them."""


@dataclass(frozen=True, slots=True)
class _Print:
    """Numbers that the order of elements does not change."""

    size: int
    numbers: tuple[float, ...]


def _print(array: np.ndarray) -> _Print:
    if not array.size:
        return _Print(0, (0.0, 0.0, 0.0, 0.0))
    flat = np.abs(array) if array.dtype.kind == "c" else array
    flat = np.nan_to_num(flat.astype(np.float64), nan=7e7, posinf=3e8, neginf=-3e8)
    flat = np.clip(flat, -3e8, 3e8)
    spread = float(np.sqrt((flat**2).mean()))
    return _Print(array.size, (float(flat.max()), float(flat.min()), spread, float(flat.mean())))


def is_plain(array: np.ndarray) -> bool:
    """Whether a value is one number throughout, which many values are by chance."""
    if not array.size:
        return True
    if array.size == 1:
        number = complex(array.reshape(())[()])
        return not np.isfinite(number) or number == round(number.real)
    return bool((array == array.flat[0]).all())


def are_close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether two arrays of one shape are equal up to a share of the largest value that is no filling."""
    if a.shape != b.shape:
        return False
    if not a.size:
        return True
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(invalid="ignore"):
        both = np.isfinite(x) & np.isfinite(y)
        if not both.all():
            odd = ~both
            if not np.array_equal(x[odd], y[odd], equal_nan=True):
                return False
            x, y = x[both], y[both]
    if not x.size:
        return True
    sizes = np.maximum(np.abs(x), np.abs(y)).reshape(-1)
    return bool((np.abs(x - y).reshape(-1) <= tolerance * _scales(sizes)).all())


_FILLING, _FAR = 1e3, 1e3
"""From where a number may stand for minus infinity (-1e4, -1e9), and how far the others are below it then."""


def _scales(sizes: np.ndarray) -> np.ndarray | float:
    """Return what differences are a share of: the largest value; beside a filling the largest of the others.

    Scores that are masked with -1e9 would be equal to any others but for this.
    """
    largest = float(sizes.max())
    others = sizes[sizes < 0.9 * largest] if largest >= _FILLING else sizes[:0]
    if not others.size or (rest := float(others.max())) > largest / _FAR:
        return largest
    return np.maximum(sizes, rest)


def relation(a: np.ndarray, b: np.ndarray, tolerance: float) -> str:
    """Return the relation of two equal values; empty if they are not equal."""
    if a.size != b.size:
        return ""
    if a.shape == b.shape and are_close(a, b, tolerance):
        return SAME
    if a.shape != b.shape and are_close(a.reshape(-1), b.reshape(-1), tolerance):
        return SHAPED
    mine, theirs = np.squeeze(a), np.squeeze(b)
    if mine.ndim == theirs.ndim <= _MOST_TURNED and sorted(mine.shape) == sorted(theirs.shape):
        for order in permutations(range(mine.ndim)):
            turned = mine.transpose(order)
            if turned.shape == theirs.shape and are_close(turned, theirs, tolerance):
                return TURNED
    return ""


@dataclass(slots=True)
class Pool:
    """Values to be found again.

    Args:
        values: (name, array).
        tolerance: how close equal values are, as a share of the largest.
    """

    values: Iterable[tuple[Any, np.ndarray]]
    tolerance: float
    _by_size: dict[int, list[tuple[Any, np.ndarray, _Print]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.values:
            self._by_size.setdefault(array.size, []).append((name, array, _print(array)))

    def find(self, array: np.ndarray) -> list[tuple[Any, str]]:
        """Return (name, how it lies) of the values that are equal to an array."""
        held = self._by_size.get(array.size)
        if not held:
            return []
        mine = _print(array)
        scale = max(abs(mine.numbers[0]), abs(mine.numbers[1]), 1e-30)
        found: list[tuple[Any, str]] = []
        for name, other, theirs in held:
            apart = max(abs(a - b) for a, b in zip(mine.numbers, theirs.numbers, strict=True))
            if apart <= 4 * self.tolerance * scale and (how := relation(array, other, self.tolerance)):
                found.append((name, how))
        return found
