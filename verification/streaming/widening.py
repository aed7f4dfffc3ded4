"""Widens arrays of narrow floating-point numbers."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod

import numpy as np

_UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Element type -> half a unit in the last place of 1."""

_PLAIN = 128
"""Largest multiple of a half that is taken for exact."""

_ONE = 1e-6
"""Relative difference up to which two numbers are one."""


class Scratch:
    """Memory for widened weights that is used again and again, as new memory costs more than to fill it.

    Args:
        size: bytes of it; what does not fit gets memory of its own.
    """

    def __init__(self, size: int) -> None:
        self._memory, self._end = np.empty(size // 4, np.float32), 0

    def reset(self) -> None:
        """Take all memory back: what was taken before is overwritten."""
        self._end = 0

    def take(self, shape: Sequence[int]) -> np.ndarray:
        """Return an array of float32 of any values."""
        start, self._end = self._end, self._end + prod(shape)
        if self._end <= self._memory.size:
            return self._memory[start : self._end].reshape(shape)
        self._end = start
        return np.empty(shape, np.float32)


class Recycled:
    """Memory for widened weights that is used again when nothing refers to an array on it any more.

    Args:
        size: bytes that are kept for later use at most.
    """

    def __init__(self, size: int) -> None:
        self._room, self._free = size // 4, list[np.ndarray]()

    def take(self, shape: Sequence[int]) -> np.ndarray:
        """Return an array of float32 of any values; what views of it are made of must be this very object."""
        wanted = prod(shape)
        fitting = [at for at, memory in enumerate(self._free) if wanted <= memory.size <= 2 * wanted]
        memory = self._free.pop(fitting[-1]) if fitting else np.empty(wanted, np.float32)
        array = memory[:wanted].reshape(shape)
        weakref.finalize(array, self._give_back, memory).atexit = False
        return array

    def _give_back(self, memory: np.ndarray) -> None:
        self._free.append(memory)
        while sum(each.size for each in self._free) > self._room:
            self._free.pop(0)


def widen_array(array: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return an array in float32 if it is narrower: a copy then, exact.

    Args:
        array: any array.
        out: float32 of its shape, for the copy of bfloat16.
    """
    if array.dtype.name == "bfloat16":
        wide = np.empty(array.shape, np.uint32) if out is None else out.view(np.uint32)
        np.left_shift(
            array.view(np.uint16), 16, out=wide, dtype=np.uint32
        )  # cast in small buffers on the way
        return wide.view(np.float32)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def half_unit(array: np.ndarray) -> np.ndarray:
    """Return half a unit in the last place of each narrow number; 0 for those that nothing was rounded to.

    Powers of two, multiples of a half up to 128, and infinities are taken for exact.
    """
    wide = widen_array(array).astype(np.float64)
    finite = np.isfinite(wide)
    fraction, exponent = np.frexp(np.where(finite, wide, 0.0))
    exact = (np.abs(fraction) == 0.5) | ((np.abs(wide) <= _PLAIN) & (2 * wide == np.rint(2 * wide)))
    rounded = finite & (wide != 0) & ~exact
    return np.where(rounded, np.ldexp(_UNITS[array.dtype.name], exponent - 1), 0.0)


def rounded_from(number: float, step: float, literals: Sequence[float]) -> float | None:
    """Return the one of some numbers that is rounded to another one; None without one, or with several.

    Args:
        number: what it was rounded to.
        step: half a unit in its last place.
        literals: the numbers.
    """
    near = [literal for literal in literals if abs(literal - number) <= step]
    return near[0] if near and max(near) - min(near) <= _ONE * abs(number) else None


def largest_move(array: np.ndarray, other: np.ndarray) -> float:
    """Return how far floating-point values are from others at most; 0 for other elements."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(np.abs(array - other), nan=0.0, posinf=0.0).max())
