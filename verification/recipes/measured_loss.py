"""Tells what a loss computes from what it gives: one that is a function, or a class of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...frontends.recipe_losses import cross_entropy, reduced
from ...ir import ModelError
from ...ir.recipe import OF_LABELS, LossRule
from .trajectories import Nest, in_nest

LossFunction = Callable[[np.ndarray, np.ndarray], float]

_CLOSE = 1e-4
_DRAWS = 3
_MOST_CLASSES = 64
"""Classes whose weights are looked for: each needs a draw of its own."""

_SMOOTHINGS = 1e-3
"""To which a label smoothing is told."""


def measured_loss(loss: LossFunction, shape: tuple[int, ...], written: str) -> LossRule | None:
    """Return the loss that gives these values on seeded outputs; None where none known here does.

    Args:
        loss: of an output and labels.
        shape: of the net's output.
        written: how the script calls it.
    """
    axes = dict.fromkeys((1, len(shape) - 1)) if len(shape) > 1 else {}
    for measure in (_cross_entropy, _weighted):
        for axis in axes:
            found = measure(loss, shape, axis, written)
            if found is not None:
                return found
    for kind, mean in _ELEMENTWISE.items():
        found = _elementwise(loss, shape, kind, mean, written)
        if found is not None:
            return found
    return None


def _drawn(shape: tuple[int, ...], draws: int = _DRAWS) -> Iterator[tuple[np.random.Generator, np.ndarray]]:
    for seed in range(draws):
        random = np.random.default_rng(seed)
        yield random, random.standard_normal(shape).astype(np.float32)


def _given(loss: LossFunction, output: np.ndarray, labels: np.ndarray) -> float | None:
    try:
        return float(loss(output, labels))
    except ModelError:  # it ran, and gives parts of which nobody says how they add up
        raise
    except Exception:  # a loss that takes other labels may raise anything: it is not this one
        return None


def _cross_entropy(loss: LossFunction, shape: tuple[int, ...], axis: int, written: str) -> LossRule | None:
    classes = shape[axis]
    if classes < 2:
        return None
    rows: list[tuple[float, float, float, int]] = []
    for random, output in _drawn(shape):
        labels = random.integers(0, classes, [n for at, n in enumerate(shape) if at != axis])
        value = _given(loss, output, labels)
        if value is None:
            return None
        logs = _logarithms(output, axis)
        right = -np.take_along_axis(logs, labels[..., None], -1).mean()
        rows.append((value, float(right), float(-logs.mean()), labels.size))
    for reduction in ("mean", "sum"):
        times = [1 if reduction == "mean" else count for *_, count in rows]
        value, right, even, _ = rows[0]
        smoothing = round((value / times[0] - right) / (even - right) / _SMOOTHINGS) * _SMOOTHINGS
        told = [
            t * ((1 - smoothing) * r + smoothing * e) for t, (_, r, e, _) in zip(times, rows, strict=True)
        ]
        if 0 <= smoothing < 1 and np.allclose([v for v, *_ in rows], told, rtol=_CLOSE):
            rule = cross_entropy(reduction, written, smoothing=round(smoothing, 3))
            known = {k: rule.settings[k] for k in ("reduction", "label smoothing", "labels")}
            return LossRule(rule.kind, {**known, "class axis": axis}, written, measured=True)
    return None


def _weighted(loss: LossFunction, shape: tuple[int, ...], axis: int, written: str) -> LossRule | None:
    """Cross entropy whose classes have weights, as far as that tells: an ignored one weighs nothing."""
    classes = shape[axis]
    if not 2 <= classes <= _MOST_CLASSES:
        return None
    values, counts, sums = [], [], []
    for random, output in _drawn(shape, classes + _DRAWS):
        labels = random.integers(0, classes, [n for at, n in enumerate(shape) if at != axis])
        value = _given(loss, output, labels)
        if value is None:
            return None
        right = -np.take_along_axis(_logarithms(output, axis), labels[..., None], -1).reshape(-1)
        values.append(value)
        counts.append(np.bincount(labels.reshape(-1), minlength=classes))
        sums.append(np.bincount(labels.reshape(-1), right, minlength=classes))
    found, held, summed = np.asarray(values), np.asarray(counts, float), np.asarray(sums)
    if not np.isfinite(found).all():
        return None
    # the sum over classes of w * (value * count - sum) is 0: weights are known up to a factor
    weights = np.linalg.svd(found[:, None] * held - summed)[2][-1]
    weights = weights / weights[np.abs(weights).argmax()]
    weights[np.abs(weights) < _CLOSE] = 0.0
    below = held @ weights
    if (weights >= 0).all() and below.all() and np.allclose(summed @ weights / below, found, rtol=_CLOSE):
        rule = cross_entropy("mean", written)
        ignored = np.flatnonzero(weights == 0)
        settings = {"reduction": rule.settings["reduction"], "labels": "indices", "class axis": axis}
        if len(ignored) == 1 and np.allclose(weights[weights > 0], 1.0, rtol=1e-3):
            settings |= {"ignore_index": int(ignored[0]), "class weights": None}
        return LossRule(rule.kind, settings, written, measured=True)
    weights = np.linalg.lstsq(summed, found * held.sum(1), rcond=None)[0]
    if (weights > -_CLOSE).all() and np.allclose(summed @ weights, found * held.sum(1), rtol=_CLOSE):
        settings = {"reduction": OF_LABELS, "labels": "indices", "class axis": axis}
        return LossRule("cross entropy", settings, written, measured=True)
    return None


def _logarithms(output: np.ndarray, axis: int) -> np.ndarray:
    """Return the logarithms of the probabilities of classes, which are the last axis of the result."""
    wide = np.moveaxis(output.astype(np.float64), axis, -1)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))


def _elementwise(
    loss: LossFunction,
    shape: tuple[int, ...],
    kind: str,
    mean: Callable[[np.ndarray, np.ndarray], np.ndarray],
    written: str,
) -> LossRule | None:
    ratios: list[float] = []
    for random, output in _drawn(shape):
        labels = random.random(shape).astype(np.float32)
        if kind == "binary cross entropy":
            output = 1 / (1 + np.exp(-output))
        value = _given(loss, output, labels)
        if value is None:
            return None
        ratios.append(value / float(mean(output.astype(np.float64), labels.astype(np.float64)).mean()))
    if not np.allclose(ratios, ratios[0], rtol=_CLOSE) or not ratios[0]:
        return None
    count = int(np.prod(shape))
    reduction = "sum" if abs(ratios[0] / count - 1) < _CLOSE and count > 1 else "mean"
    times = ratios[0] / (count if reduction == "sum" else 1)
    rule = reduced(kind, reduction, written)
    extra = {} if abs(times - 1) < _CLOSE else {"times": float(f"{times:.3g}")}
    return LossRule(kind, {**rule.settings, **extra}, written, measured=True)


def _smooth(output: np.ndarray, labels: np.ndarray) -> np.ndarray:
    away = np.abs(output - labels)
    return np.where(away < 1, away**2 / 2, away - 0.5)


_ELEMENTWISE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "squared error": lambda output, labels: (output - labels) ** 2,
    "absolute error": lambda output, labels: np.abs(output - labels),
    "smooth absolute error": _smooth,
    "binary cross entropy of logits": lambda x, y: np.logaddexp(0, x) - x * y,
    "binary cross entropy": lambda p, y: -(y * np.log(p) + (1 - y) * np.log(1 - p)),
}


def labels_for(rule: LossRule, shape: tuple[int, ...]) -> Callable[[np.random.Generator], np.ndarray] | None:
    """Return a function that draws labels for a loss; None if its kind does not determine them."""
    if rule.kind in ("cross entropy", "negative log likelihood") and len(shape) > 1:
        axis = int(rule.settings.get("class axis") or 1)
        sizes = [n for at, n in enumerate(shape) if at != axis]
        return lambda random: random.integers(0, shape[axis], sizes)
    if rule.kind.startswith("binary"):
        return lambda random: (random.random(shape) < 0.5).astype(np.float32)
    if rule.kind and rule.kind not in ("cross entropy", "negative log likelihood"):
        return lambda random: random.standard_normal(shape).astype(np.float32)
    return None


def fitted(labels: Nest, rule: LossRule, shape: tuple[int, ...]) -> Nest:
    """Labels as one side's loss takes them: indices, or one-hot."""

    def convert(array: np.ndarray) -> np.ndarray:
        if rule.settings.get("labels") == "one-hot" and array.dtype.kind in "iu":
            return np.eye(shape[1], dtype=np.float32)[array]
        return array

    return in_nest(labels, convert)
