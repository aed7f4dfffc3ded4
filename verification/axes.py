"""Puts the values at a target's modules into the source's order of axes, where a pass moved transposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations

import numpy as np

from .compare import kind_of
from .runners.runs import CallRecord, ForwardingRunner, Run, Runner

_SAMPLE = 4096
"""Elements of an array that are looked at to tell its axes."""

_ALIKE = 1e-2
"""Distance of equal values relative to the largest; how far they may really be apart is judged elsewhere."""

_RANKS = (3, 4)

Perm = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axes:
    """The Transposes that map a target's values of a call to the source's; None where not needed."""

    inputs: tuple[Perm | None, ...]
    outputs: tuple[Perm | None, ...]

    def turn(self, record: CallRecord) -> CallRecord:
        """Return a record of the target in the source's order."""
        return replace(
            record, inputs=_turn(record.inputs, self.inputs), outputs=_turn(record.outputs, self.outputs)
        )


def find_axes(source: Run, target: Run) -> dict[str, Axes]:
    """Return, by call, the order of axes of the target's values; only of calls where one differs.

    Args:
        source: what the source recorded.
        target: what the target recorded, whose outputs are the source's.
    """
    found: dict[str, Axes] = {}
    for call, record in target.calls.items():
        own = source.calls.get(call)
        if own is not None:
            samples = _Samples()
            axes = Axes(samples.perms(own.inputs, record.inputs), samples.perms(own.outputs, record.outputs))
            if any((*axes.inputs, *axes.outputs)):
                found[call] = axes
        source.release()
        target.release()
    return found


class TurnedRunner(ForwardingRunner):
    """A target whose modules take and give values in the source's order of axes.

    Args:
        runner: the target's own.
        axes: from `find_axes`.
    """

    def __init__(self, runner: Runner, axes: Mapping[str, Axes]) -> None:
        super().__init__(runner)
        self._axes = axes

    def turned(self, run: Run) -> Run:
        """Return a run with the values at modules in the source's order."""
        calls = {c: self._axes[c].turn(r) if c in self._axes else r for c, r in run.calls.items()}
        return replace(run, calls=calls)

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the model; see `Runner`."""
        return self.turned(self._runner.run(inputs, calls=calls))

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one module call on its own; see `Runner`."""
        axes = self._axes.get(call)
        if axes is None:
            return self._runner.run_module(call, inputs)
        return _turn(self._runner.run_module(call, _turn_back(inputs, axes.inputs)), axes.outputs)

    def run_with(self, inputs: Mapping[str, np.ndarray], given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the model with other values in place of what some calls return; see `Runner`."""
        turned = {
            call: _turn_back(outputs, self._axes[call].outputs) if call in self._axes else outputs
            for call, outputs in given.items()
        }
        return self.turned(self._runner.run_with(inputs, turned))


class _Samples:
    """Some elements of arrays, taken once each."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[np.ndarray, str, np.ndarray, float]] = {}

    def perms(self, wanted: Sequence[np.ndarray], arrays: Sequence[np.ndarray]) -> tuple[Perm | None, ...]:
        """Return, for each array, what turns it into one of those wanted; None where nothing needs to."""
        return tuple(self._perm(wanted, array) for array in arrays)

    def _perm(self, wanted: Sequence[np.ndarray], array: np.ndarray) -> Perm | None:
        if array.ndim not in _RANKS or any(self._is_alike(own, array) for own in wanted):
            return None
        for perm in permutations(range(array.ndim)):
            turned = array.transpose(perm)
            if any(own.shape == turned.shape and self._is_alike(own, turned) for own in wanted):
                return perm
        return None

    def _is_alike(self, a: np.ndarray, b: np.ndarray) -> bool:
        if a.shape != b.shape or not a.size:
            return False
        _, kind, x, largest = self._sample(a)
        _, other, y, _ = self._sample(b)
        if kind != other:
            return False
        with np.errstate(invalid="ignore"):
            off = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        return bool(np.all(off <= _ALIKE * largest))

    def _sample(self, array: np.ndarray) -> tuple[np.ndarray, str, np.ndarray, float]:
        """Return an array, its kind, some of its elements, and the largest finite one of them."""
        found = self._known.get(id(array))
        if found is None:
            kind = kind_of(array)
            some = np.asarray(array.flat[_places(array.size)])
            some = some.astype(np.complex128 if kind == "c" else np.float64)
            largest = float(np.abs(some[np.isfinite(some)]).max(initial=0.0))
            found = self._known[id(array)] = (array, kind, some, largest)
        return found


@cache
def _places(size: int) -> np.ndarray:
    """Return the indices of the elements that are looked at."""
    return np.linspace(0, size - 1, min(size, _SAMPLE)).astype(np.int64)


def _turn(arrays: Sequence[np.ndarray], perms: Sequence[Perm | None]) -> list[np.ndarray]:
    if len(arrays) != len(perms):
        return list(arrays)
    return [
        a if p is None else np.ascontiguousarray(a.transpose(p)) for a, p in zip(arrays, perms, strict=True)
    ]


def _turn_back(arrays: Sequence[np.ndarray], perms: Sequence[Perm | None]) -> list[np.ndarray]:
    return _turn(arrays, [None if p is None else tuple(int(a) for a in np.argsort(p)) for p in perms])
