"""Measures how far rounding alone moves a source's results, by runs on values one unit apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ..ir import ModelError
from .compare import EPSILON, Exact, Noise, Types, Yardstick, kind_of, pick_exact, real_type
from .runners.runs import CallRecord, Run, Runner

_EXACT = 2.0**16
"""Integers below this are not changed: they are masks, counts and factors, not results of rounding."""

_PLAIN = 64
"""Units in the last place up to which no kernel has an absolute error, which small elements would show."""

_SIDES = ("inputs", "outputs")

Again = Callable[[Mapping[str, np.ndarray], bool], Run]
"""Runs a source on inputs; the flag says whether to record modules."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The rounding that a pair of runtimes may add: see `Yardstick.ulps` and `Yardstick.inner`."""

    ulps: int
    inner: float = 0.0


class Rounding:
    """The effect of rounding in one run of a source; each measurement is made once, on demand.

    Args:
        runner: the source's runner.
        run: results of the run.
        inputs: inputs of the run.
        types: whether the element types of outputs must be the same; see `Yardstick`.
        again: runs the source on other inputs; None for its runner's own way.
        exact: makes the same run in float64, where there can be one.
        exact_runner: its runner, after that run.
        cost: what the runtimes' arithmetic may cost in the whole model.
        alone: what it may cost in one call alone.
        coarsest: the coarsest element type that the source computes in.
        coarsest_in: likewise a call of it.
        note: takes what a reader of the report should know.
        measured: whether the source may run again to measure how far it moves.
        kept: numbers of inputs that are exact, and stay as they are.
    """

    def __init__(
        self,
        runner: Runner,
        run: Run,
        inputs: Mapping[str, np.ndarray],
        *,
        types: Types = "kind",
        again: Again | None = None,
        exact: Callable[[], Run | None] | None = None,
        exact_runner: Runner | None = None,
        cost: Cost,
        alone: Callable[[str], Cost] | None = None,
        coarsest: str = "float64",
        coarsest_in: Callable[[str], str] | None = None,
        note: Callable[[str], None] | None = None,
        measured: bool = True,
        kept: Sequence[float] = (),
    ) -> None:
        self._runner, self._run, self._inputs, self._coarsest = runner, run, inputs, coarsest
        self._kept = kept
        self._types: Types = types
        self._again = again or (lambda inputs, calls: runner.run(inputs, calls=calls))
        self._exact, self._exact_runner = exact, exact_runner
        self._cost, self._alone = cost, alone or (lambda _: cost)
        self._coarsest_in = coarsest_in or (lambda _: "float64")
        self._note = note or (lambda _: None)
        self._may_measure = measured
        self._measured: dict[int, _Moved | None] = {}
        self._equal: list[np.ndarray] | None = None

    def output(self, index: int) -> Yardstick:
        """Return the yardstick of an output of the model."""
        exact = None
        if self._exact is not None:
            exact = pick_exact(self._exact_arrays, index, len(self._run.outputs))
        noise: Noise = lambda ulps: self._at(self._outputs(ulps), index)  # noqa: E731
        small = self._cost.ulps <= _PLAIN and not self._cost.inner
        return Yardstick(exact, noise, self._cost.ulps, self._cost.inner, self._types, small=small)

    def largest(self, name: str) -> float | None:
        """Return how far rounding moves the output of that name at most; None if not measurable."""
        names = [n for n, _ in self._run.outputs]
        moved = self._at(self._outputs(1), names.index(name)) if name in names else None
        found = None if moved is None else float(moved.max(initial=0.0))
        return found if found is not None and np.isfinite(found) else None

    def entering(self, call: str, index: int) -> Yardstick:
        """Return the yardstick of an input of a module call in the whole model."""
        return self._edge(call, "inputs", index)

    def boundary(self, call: str, index: int) -> Yardstick:
        """Return the yardstick of an output of a module call in the whole model."""
        return self._edge(call, "outputs", index)

    def _edge(self, call: str, side: str, index: int) -> Yardstick:
        """Return the yardstick of an input or output of a module call in the whole model."""
        count = len(getattr(self._run.calls[call], side))
        exact = (
            None if self._exact is None else pick_exact(lambda: self._exact_call(call, side), index, count)
        )

        def noise(ulps: int) -> np.ndarray | None:
            moved = self._find_moves(ulps)
            return None if moved is None else self._at(moved.edges.get((call, side)), index)

        return Yardstick(exact, noise, self._cost.ulps, self._cost.inner)

    def alone(self, call: str, record: CallRecord) -> Callable[[int], Yardstick]:
        """Return the yardsticks, by index, of the outputs of a module call run alone on recorded inputs."""
        outputs = cache(lambda: self._exact_alone(call, record))
        moved = cache(lambda ulps: self._measure_alone(call, record, ulps))
        count, cost = len(record.outputs), self._alone(call)

        def yardstick(index: int) -> Yardstick:
            exact: Exact | None = None if self._exact is None else pick_exact(outputs, index, count)
            noise: Noise = lambda ulps: self._at(moved(ulps), index)  # noqa: E731
            return Yardstick(exact, noise, cost.ulps, cost.inner)

        return yardstick

    @staticmethod
    def _at(arrays: Sequence[np.ndarray] | None, index: int) -> np.ndarray | None:
        return None if arrays is None or index >= len(arrays) else arrays[index]

    def _exact_arrays(self) -> list[np.ndarray] | None:
        run = None if self._exact is None else self._exact()
        return None if run is None else [array for _, array in run.outputs]

    def _exact_call(self, call: str, side: str = "outputs") -> list[np.ndarray] | None:
        run = None if self._exact is None else self._exact()
        return getattr(run.calls[call], side) if run is not None and call in run.calls else None

    def _exact_alone(self, call: str, record: CallRecord) -> list[np.ndarray] | None:
        if self._exact_runner is None or self._exact_call(call) is None:  # that run records the arguments
            return None
        try:
            return self._exact_runner.run_module(call, record.inputs)
        except (ModelError, KeyError):
            return None

    def _outputs(self, ulps: int) -> list[np.ndarray] | None:
        moved = self._find_moves(ulps)
        return None if moved is None else moved.outputs

    def _find_moves(self, ulps: int) -> _Moved | None:
        """Return how far everything recorded moves, measured at once because it takes whole runs."""
        if not self._may_measure:
            return None
        if ulps not in self._measured:
            try:
                self._measured[ulps] = self._measure(ulps)
            except (ModelError, ValueError) as error:  # other values may lead to other shapes
                self._note(f"how far rounding moves the source could not be measured: {error}")
                self._measured[ulps] = None
        return self._measured[ulps]

    def _measure(self, ulps: int) -> _Moved:
        """Run the source on changed inputs and weights, and return how far results move."""
        arrays = [array for _, array in self._run.outputs]
        if self._equal is None:
            again = self._again(self._inputs, False).outputs
            self._equal = [_differs(a, b) for a, (_, b) in zip(arrays, again, strict=True)]
        moved = _Moved([a.copy() for a in self._equal])
        for change in make_changes(ulps):
            with self._runner.altered(change):
                inputs = change_inputs(self._inputs, change, self._coarsest, self._kept)
                run = self._again(inputs, bool(self._run.calls))
            for most, a, (_, b) in zip(moved.outputs, arrays, run.outputs, strict=True):
                np.maximum(most, measure_moves(a, b), out=most)
            for name, record in self._run.calls.items():
                for side in _SIDES if name in run.calls else ():
                    edges = zip(getattr(record, side), getattr(run.calls[name], side), strict=False)
                    found = [_largest(a, b) for a, b in edges]
                    known = moved.edges.get((name, side), found)
                    moved.edges[name, side] = [np.maximum(x, y) for x, y in zip(known, found, strict=False)]
        return moved

    def _measure_alone(self, call: str, record: CallRecord, ulps: int) -> list[np.ndarray] | None:
        """Return how far rounding moves the outputs of one call run alone."""
        try:
            arrays, coarsest = self._runner.run_module(call, record.inputs), self._coarsest_in(call)
            moved = [np.zeros(a.shape) for a in arrays]
            for change in make_changes(ulps):
                with self._runner.altered(change, call):
                    given = [_change_input(a, change, coarsest, self._kept) for a in record.inputs]
                    found = self._runner.run_module(call, given)
                for most, a, b in zip(moved, arrays, found, strict=True):
                    np.maximum(most, measure_moves(a, b), out=most)
        except (ModelError, KeyError, ValueError):
            return None
        return moved


class UnitsAlone(Rounding):
    """No effect of rounding but what the runtimes' arithmetic may cost: nothing is measured.

    Args:
        cost: in the whole model.
        types: whether the element types of outputs must be the same; see `Yardstick`.
    """

    def __init__(self, cost: Cost, types: Types) -> None:
        self._cost, self._types = cost, types

    def output(self, index: int) -> Yardstick:
        """Return the yardstick of an output of the model."""
        del index
        return Yardstick(None, _no_moves, self._cost.ulps, self._cost.inner, self._types)

    def alone(self, call: str, record: CallRecord) -> Callable[[int], Yardstick]:
        """Return the yardsticks, by index, of the outputs of a module call run alone on recorded inputs."""
        del record
        return lambda index: self._edge(call, "outputs", index)

    def _edge(self, call: str, side: str, index: int) -> Yardstick:
        del call, side, index
        return Yardstick(None, _no_moves, self._cost.ulps, self._cost.inner)


def _no_moves(_ulps: int) -> np.ndarray:
    return np.zeros(())


@dataclass(frozen=True, slots=True)
class _Moved:
    """The movement of each output element (NaN where equal runs differ), and the largest of call edges."""

    outputs: list[np.ndarray]
    edges: dict[tuple[str, str], list[np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """Changes every element of an array by some units in the last place, with seeded random signs."""

    seed: int
    ulps: int

    def __call__(self, array: np.ndarray, dtype: str = "") -> np.ndarray:
        """Return the changed array; units are those of the type `dtype` if that is coarser."""
        kind = kind_of(array)
        if kind not in "fc" or not array.size:
            return array
        name = real_type(str(array.dtype))
        epsilon = self.ulps * max(EPSILON.get(name, 2.0**-23), EPSILON.get(dtype, 0.0))
        random = np.random.default_rng([self.seed, array.size])
        wide = array if name in ("float32", "float64") else array.astype(np.float32)
        real = np.float64 if name == "float64" else np.float32
        with np.errstate(all="ignore"):
            signs = random.integers(0, 2, array.shape, np.int8) * np.int8(2) - np.int8(1)
            moved = (wide * (1 + real(epsilon) * signs.astype(real))).astype(array.dtype)
            size = np.abs(wide)
            kept = ~np.isfinite(moved) | ((wide == np.rint(wide)) & (size < _EXACT))
            least = np.nextafter(np.zeros((), moved.real.dtype), np.ones((), moved.real.dtype)).astype(real)
            below = (size > 0) & (size * real(abs(epsilon)) < least)  # subnormal: no share of one is a unit
            if below.any():
                step = signs.astype(real) * (self.ulps * least)
                moved = np.where(below, (wide + step).astype(array.dtype), moved)
        return np.where(kept, array, moved)


def make_changes(ulps: int) -> list[Change]:
    """Return changes by some units in the last place, with random signs.

    One unit is tried with three patterns. For more units, patterns and their opposites are tried, because a
    value near a decision may move to either side.
    """
    patterns = [(0, 1), (1, 1), (2, 1)] if ulps == 1 else [(0, 1), (0, -1), (1, 1), (1, -1)]
    return [Change(seed, sign * ulps) for seed, sign in patterns]


def change_inputs(
    inputs: Mapping[str, np.ndarray],
    change: Change,
    coarsest: str = "float64",
    kept: Sequence[float] = (),
) -> dict[str, np.ndarray]:
    """Return inputs, but for kept numbers, changed by units of the coarsest type of the model."""
    return {name: _change_input(array, change, coarsest, kept) for name, array in inputs.items()}


def _change_input(array: np.ndarray, change: Change, coarsest: str, kept: Sequence[float]) -> np.ndarray:
    changed = change(array, coarsest)
    if changed is array or not len(kept) or kind_of(array) != "f":
        return changed
    with np.errstate(over="ignore"):
        numbers = np.asarray(kept).astype(array.dtype).astype(np.float64)
    return np.where(np.isin(array.astype(np.float64), numbers), array, changed)


def measure_moves(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return how far each element is from its counterpart; infinite where one alone is finite."""
    if a.shape != b.shape:
        raise ValueError(f"a shape became {list(b.shape)}, from {list(a.shape)}")
    if kind_of(a) not in "fc":
        return (a != b).astype(np.float64)
    wide = np.complex128 if kind_of(a) == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(invalid="ignore"):
        found = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    return np.where(np.isnan(found), np.inf, found)


def _differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return zeros, or all NaN if two equal runs differ by more than the order of additions explains."""
    found = measure_moves(a, b)
    scale = float(np.abs(a[np.isfinite(a)].astype(np.float64)).max(initial=0.0)) if a.size else 0.0
    close = 4 * EPSILON.get(a.dtype.name, 2.0**-23) * scale if kind_of(a) in "fc" else 0.0
    return np.full(a.shape, np.nan if bool((found > close).any()) else 0.0)


def _largest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the largest move of floats as a scalar array, but each move of integers and booleans."""
    found = measure_moves(a, b)
    return found if kind_of(a) not in "fc" else np.asarray(found.max(initial=0.0))
