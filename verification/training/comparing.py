"""Compares one training step: gradients of every parameter, running statistics, values after the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...formats.renames import computed
from ...ir import Graph
from ..compare import DEFAULTS, EPSILON, IMPLAUSIBLE, MULTIPLE, WITNESSED
from ..report import TrainingRow
from ..runners.runs import Run
from ..two_nets.pairing import Pairing
from .pairs import Pair, paired
from .step import LEARNING_RATE, Step, Trained

_NOISE = 64
"""Allowed error of a target, as a multiple of the source's rounding, where there is nothing else."""

_SMALL = 1e-3
"""Share of the largest gradient that a tolerance is relative to at least, if nothing could be measured."""


@dataclass(frozen=True, slots=True)
class TrainingComparison:
    """The steps of both sides, and of the source in float64 where that can be had.

    Attributes:
        noise: how far rounding alone moves what `as_run` calls by a name, where that can be measured.
    """

    graph: Graph
    source: Step
    target: Step
    exact: Step | None
    ulps: int
    noise: Callable[[str], float | None]

    def rows(self, target: Pairing | Path) -> list[TrainingRow]:
        """Return one row per parameter and floating-point buffer of the source, in its order."""
        pairs = paired(self.graph, self.source.tensors, self.target.tensors, target)
        held = [t for t in self.source.tensors.values() if t.before.dtype.name in EPSILON]
        statistics = [_scale(t.forward) for t in held if not t.trainable and _is_moved(t)]
        largest = (max((_scale(t.gradient) for t in held), default=0.0), max(statistics, default=0.0))
        rows = [row for pair in pairs if (row := self._row(pair, largest)) is not None]
        known = {pair.target for pair in pairs}
        return rows + [
            TrainingRow(name, name, passed=False, reason="trained in the target, not in the source at all")
            for name, trained in self.target.tensors.items()
            if name not in known and trained.trainable
        ]

    def _row(self, pair: Pair, largest: tuple[float, float]) -> TrainingRow | None:
        """Return the row of a pair; None for integers, such as counters."""
        name = " + ".join(pair.sources)
        source = _sum_gradients(self.source, pair)
        if source.before.dtype.name not in EPSILON:
            return None  # a counter of batches, a table of positions
        if pair.target not in self.target.tensors:
            reached = bool(_scale(source.gradient)) or _is_moved(source)
            reason = "not in the target" if reached else "not in the target; nothing reaches it in the source"
            return TrainingRow(name, pair.target, passed=not reached, reason=reason)
        target = self.target.tensors[pair.target]
        if computed(pair.transform):
            reason = "not compared: its values are computed from several parameters"
            return TrainingRow(name, pair.target, passed=None, reason=reason)
        if source.before.shape != target.before.shape:
            found = f"expected shape {list(source.before.shape)}, got {list(target.before.shape)}"
            return TrainingRow(name, pair.target, passed=False, reason=found)
        if not np.array_equal(_wide(source.before), _wide(target.before), equal_nan=True):
            return TrainingRow(name, pair.target, passed=False, reason="the sides start from other values")
        exact = None if self.exact is None else _sum_gradients(self.exact, pair)
        if not source.trainable and not target.trainable:
            return self._statistic(name, pair.target, source, target, exact, largest[1])
        return self._gradient(name, pair.target, source, target, exact, largest[0])

    def _statistic(
        self,
        name: str,
        paired_with: str,
        source: Trained,
        target: Trained,
        exact: Trained | None,
        largest: float,
    ) -> TrainingRow:
        """Compare a buffer after the forward."""
        mine, other = _wide(source.forward), _wide(target.forward)
        epsilon = _coarser(source, target)
        precise = None if exact is None else _wide(exact.forward)
        noise = self._noise("forward", name)
        tolerance, error, remark = self._tolerance(mine, other, precise, epsilon, largest, noise)
        passed = error <= tolerance  # NaN fails
        frozen = passed and not _is_moved(source)
        reason = "frozen" if frozen else remark if passed else f"{error:.3g} off after the forward"
        return TrainingRow(
            name,
            paired_with,
            statistic_max_abs=_distance(mine, other),
            tolerance=tolerance,
            passed=passed,
            reason=reason,
        )

    def _gradient(
        self,
        name: str,
        paired_with: str,
        source: Trained,
        target: Trained,
        exact: Trained | None,
        largest: float,
    ) -> TrainingRow:
        """Compare a gradient, and the values after the step."""
        mine, other = _gradient_of(source), _gradient_of(target)
        undefined = np.isnan(mine)
        if undefined.any() and np.array_equal(undefined, np.isnan(other)):
            source, target = _clear_undefined(source, undefined), _clear_undefined(target, undefined)
            exact = None if exact is None else _clear_undefined(exact, undefined)
            row = self._gradient(name, paired_with, source, target, exact, largest)
            return replace(row, reason=row.reason or "NaN in places, in the same ones on both sides")
        distance, scale = _distance(mine, other), _scale(mine)
        epsilon = _coarser(source, target)
        precise = None if exact is None else _gradient_of(exact)
        noise = self._noise("gradient", name)
        tolerance, error, remark = self._tolerance(mine, other, precise, epsilon, largest, noise)
        step = _distance(_wide(source.after), _wide(target.after))
        allowed = LEARNING_RATE * max(tolerance, distance) + 4 * epsilon * _scale(source.before)
        if source.trainable != target.trainable:
            sides = ("trained", "frozen") if source.trainable else ("frozen", "trained")
            reason = f"{sides[0]} in the source, {sides[1]} in the target"
        elif not error <= tolerance:  # NaN fails too
            lost = scale and not _scale(other)
            reason = "no gradient reaches it in the target" if lost else f"the gradient is {error:.3g} off"
        elif not step <= allowed:
            reason = f"{step:.3g} apart after the step, though the gradients agree"
        else:
            reason = ""
        return TrainingRow(
            name,
            paired_with,
            gradient_max_abs=distance,
            gradient_max_rel=distance / scale if scale else 0.0 if not distance else float("inf"),
            step_max_abs=step,
            step_tolerance=allowed,
            tolerance=tolerance,
            passed=not reason,
            reason=reason or remark,
            frozen="" if source.trainable == target.trainable else "target" if source.trainable else "source",
        )

    def _noise(self, kind: str, sources: str) -> Callable[[], float | None]:
        """Return how far rounding alone moves the sum of a row's parameters."""

        def largest() -> float | None:
            found = [self.noise(f"{kind} {name}") for name in sources.split(" + ")]
            return None if None in found else sum(f for f in found if f is not None)

        return largest

    def _tolerance(
        self,
        mine: np.ndarray,
        other: np.ndarray,
        exact: np.ndarray | None,
        epsilon: float,
        largest: float,
        noise: Callable[[], float | None],
    ) -> tuple[float, float, str]:
        """Return (tolerance, the target's error, a remark), by the rules of `compare`."""
        scale, apart = _scale(mine), _distance(mine, other)
        close = self.ulps * epsilon * scale
        remark = "no gradient on either side" if not scale and not _scale(other) else ""
        if apart <= close:
            return close, apart, remark
        own = None if exact is None else _distance(mine, exact)
        plausible = own is not None and own <= IMPLAUSIBLE * scale
        if own is not None and exact is not None and plausible:
            off = _distance(other, exact)
            if off <= MULTIPLE * own + close:
                return MULTIPLE * own + close, off, ""
        moved = noise()
        if moved is not None and own is not None and (plausible or own <= WITNESSED * moved):
            moved = max(moved, own)
        known = own if moved is None else moved
        if known is not None and max(scale, known) <= self.ulps * epsilon * largest:
            return _NOISE * known + epsilon * largest, apart, "rounding only: it is 0 or nearly"
        if moved is not None:
            return MULTIPLE * moved + close, apart, ""
        name = next(n for n, e in EPSILON.items() if e == epsilon)
        relative = max(DEFAULTS[name], self.ulps * epsilon)
        return relative * max(scale, _SMALL * largest), apart, remark


def as_run(step: Step) -> Run:
    """Return a step as a run, whose outputs are its own and then every tensor of the step."""
    found = list(step.outputs)
    for name, trained in step.tensors.items():
        found.append((f"gradient {name}", _gradient_of(trained)))
        found.append((f"forward {name}", trained.forward))
    return Run(found)


def divergence(graph: Graph, rows: Sequence[TrainingRow]) -> str | None:
    """Describe where training first goes wrong; None if it does not.

    Statistics follow the forward pass, so the first module in call order is at fault. Errors of gradients
    propagate backwards, so it is the last module in call order whose gradients are off.
    """
    order = _call_order(graph)
    failed = [row for row in rows if row.passed is False]
    failed = [row for row in failed if not row.frozen] or failed
    statistics = [row for row in failed if row.statistic_max_abs is not None]
    if statistics:
        first = min(statistics, key=lambda row: order.get(_holder(row.parameter, order), (len(order), 0))[0])
        return f"{first.parameter}: the first running statistic to differ in call order"
    gradients = [row for row in failed if row.gradient_max_abs is not None]
    if gradients:
        last = max(gradients, key=lambda row: order.get(_holder(row.parameter, order), (0, -1))[1])
        return (
            f"{last.parameter}: the last gradient in call order to differ (errors propagate back from there)"
        )
    return failed[0].parameter if failed else None


def _call_order(graph: Graph) -> dict[str, tuple[int, int]]:
    """Return module path -> (place of its first call, of its last)."""
    found: dict[str, tuple[int, int]] = {}
    for place, name in enumerate(graph.modules.call_names().values()):
        path = name.rpartition("#")[0]
        found[path] = (found.get(path, (place, place))[0], place)
    return found


def _holder(parameter: str, order: Mapping[str, tuple[int, int]]) -> str:
    """Return the innermost called module on the parameter's path."""
    path = parameter.partition(" + ")[0]
    while path:
        path = path.rpartition(".")[0]
        if path in order:
            return path
    return ""


def _sum_gradients(step: Step, pair: Pair) -> Trained:
    """Return the source's side of a pair in the target's layout; gradients of tied parameters add up."""
    parts = [step.tensors[name] for name in pair.sources]
    first = parts[0]
    gradients = [
        pair.applied(p.gradient, name)
        for name, p in zip(pair.sources, parts, strict=True)
        if p.gradient is not None
    ]
    before, after = pair.applied(first.before), pair.applied(first.after)
    gradient = gradients[0] if gradients else None
    if len(parts) > 1 and gradients:
        gradient = np.sum(gradients, axis=0)
        after = before - LEARNING_RATE * gradient
    return Trained(before, pair.applied(first.forward), after, gradient, any(p.trainable for p in parts))


def _clear_undefined(trained: Trained, undefined: np.ndarray) -> Trained:
    """Return a tensor with a gradient of zero, and unchanged by the step, where its gradient is undefined."""
    gradient = None if trained.gradient is None else np.where(undefined, 0, trained.gradient)
    after = np.where(undefined, trained.before, trained.after)
    return replace(trained, gradient=gradient, after=after)


def _gradient_of(trained: Trained) -> np.ndarray:
    """Return the gradient in float64; zeros if the framework gave none."""
    return np.zeros(trained.before.shape) if trained.gradient is None else _wide(trained.gradient)


def _is_moved(trained: Trained) -> bool:
    """Whether the forward itself changed the tensor."""
    return not np.array_equal(trained.before, trained.forward, equal_nan=True)


def _coarser(source: Trained, target: Trained) -> float:
    return max(EPSILON[source.before.dtype.name], EPSILON.get(target.before.dtype.name, 0.0))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference; equal infinities, as in masks, do not differ."""
    with np.errstate(invalid="ignore"):
        return float(np.where(a == b, 0.0, np.abs(a - b)).max(initial=0.0))


def _scale(array: np.ndarray | None) -> float:
    """Return the largest finite magnitude."""
    if array is None:
        return 0.0
    wide = _wide(array)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
