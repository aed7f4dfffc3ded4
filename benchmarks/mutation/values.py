"""Faults in the values of weights: one array at a time, and two that change places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from .mutants import generator

Change = Callable[[np.ndarray], np.ndarray]


def weight_faults(name: str, array: np.ndarray) -> Iterator[tuple[str, Change]]:
    """(kind, change) of every fault that changes the array's values and neither shape nor type."""
    if array.dtype.kind != "f" or not array.size or not np.any(array):
        return
    random = generator(name)
    place = tuple(int(random.integers(0, n)) for n in array.shape)
    candidates: list[tuple[str, Change]] = [
        ("weight x 1.0001", lambda a: a * a.dtype.type(1.0001)),
        ("weight x 1.00001", lambda a: a * a.dtype.type(1.00001)),
        ("weight zeroed", np.zeros_like),
        ("weight through float16", lambda a: a.astype(np.float16).astype(a.dtype)),
        ("weight negated", np.negative),
        ("weight: one element moved", lambda a: _moved(a, place)),
        ("weight: two channels swapped", _swapped),
    ]
    if array.ndim >= 2 and array.shape[0] == array.shape[1]:
        candidates.append(("weight transposed", lambda a: np.swapaxes(a, 0, 1)))
    if array.ndim == 4 and array.shape[2] == array.shape[3] > 1:
        candidates.append(("kernel transposed", lambda a: np.swapaxes(a, 2, 3)))
        candidates.append(("kernel flipped", lambda a: a[:, :, ::-1, ::-1]))
    for kind, change in candidates:
        if not np.array_equal(change(array), array):
            yield kind, change


def _moved(array: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
    """One element moved by a tenth of what such elements are."""
    new = array.copy()
    new[place] += array.dtype.type(0.1 * float(np.abs(array).mean()))
    return new


def _swapped(array: np.ndarray) -> np.ndarray:
    """The first two entries along axis 0 that differ change places."""
    for i in range(1, array.shape[0] if array.ndim else 0):
        if not np.array_equal(array[0], array[i]):
            new = array.copy()
            new[[0, i]] = array[[i, 0]]
            return new
    return array


def exchanges(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, name) of arrays of one shape that can change places with effect."""
    names = [n for n, a in arrays.items() if a.dtype.kind == "f" and a.size]
    for i, first in enumerate(names):
        twins = (n for n in names[i + 1 :] if arrays[n].shape == arrays[first].shape)
        for second in list(twins)[:3]:
            if np.array_equal(arrays[first], arrays[second]):
                continue
            near = first.rpartition(".")[0] == second.rpartition(".")[0]
            yield (
                ("weights of one layer exchanged" if near else "weights of two layers exchanged"),
                first,
                second,
            )
