"""Explains how arrays of two pipelines differ: layout, order of channels, scale, shift, labels, padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from .explanation import CLOSE, Explanation, affine, fit
from .sequences import explain_sequences, explain_vectors
from .vectors import explain_numbers

_SHIFTS = 3
"""Pixels by which an image is looked for elsewhere."""


def explain_values(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Return what makes samples of the second pipeline those of the first; empty for nothing."""
    shapes = {a.shape for a in first} | {b.shape for b in second}
    rank = {len(s) for s in shapes}
    if rank == {0} or (rank == {1} and max((s[0] for s in shapes), default=0) == 1):
        return _explain_labels(
            np.array([a.reshape(-1)[0] for a in first]), np.array([b.reshape(-1)[0] for b in second])
        )
    if rank == {0, 1}:
        return _explain_one_hot(first, second)
    if rank == {1}:
        found = _explain_shares(first, second)
        return found or explain_numbers(first, second) or explain_sequences(first, second)
    if rank == {2} and len(shapes) > 1:
        return explain_vectors(first, second)
    if rank == {2} and {s[-1] for s in shapes} == {4} and (found := explain_numbers(first, second)):
        return found
    if rank == {3} or rank == {2}:
        return (
            _explain_own_statistics(first, second)
            or _explain_grey(first, second)
            or _explain_images(first, second)
        )
    return []


# -- labels ------------------------------------------------------------------------------------------------


def _explain_labels(a: np.ndarray, b: np.ndarray) -> list[Explanation]:
    if a.dtype.kind not in "iufb" or b.dtype.kind not in "iufb":
        return []
    gap = np.unique(b.astype(np.float64) - a.astype(np.float64))
    if len(gap) == 1 and gap[0]:
        return [Explanation(f"labels are larger by {gap[0]:g}", f"take {gap[0]:g} off the labels")]
    pairs = {(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=False)}
    if len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs}) and len(pairs) > 1:
        shown = ", ".join(f"{x} is {y}" for x, y in sorted(pairs)[:4])
        return [
            Explanation(
                f"labels count the classes in another order: {shown}", "give both one list of classes"
            )
        ]
    return []


def _explain_one_hot(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    hot, plain = (first, second) if first[0].ndim else (second, first)
    if all(int(h.argmax()) == int(p) for h, p in zip(hot, plain, strict=False)):
        if first[0].ndim:
            return [Explanation("labels are numbers of classes, not one-hot vectors", "make them one-hot")]
        return [
            Explanation("labels are one-hot vectors, not numbers of classes", "leave out the one-hot step")
        ]
    return []


def _explain_shares(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Explain labels that are shares of classes: one-hot ones that one side smooths or mixes."""
    if len({v.shape for side in (first, second) for v in side}) != 1 or len(first[0]) < 2:
        return []
    a, b = (
        np.stack(list(side)[: min(len(first), len(second))]).astype(np.float64) for side in (first, second)
    )
    if any((v < 0).any() or not np.allclose(v.sum(1), 1, atol=1e-4) for v in (a, b)):
        return []
    rates = _smoothing(a), _smoothing(b)
    if rates[0] == rates[1]:
        return []
    if None in rates:
        if rates[0] is None:
            text = "labels are of one class each, those of the first are mixed of several (MixUp or CutMix)"
            return [Explanation(text, "mix the samples of a batch as the first does")]
        text = "labels are mixed of several classes (MixUp or CutMix), those of the first are of one each"
        return [Explanation(text, "leave out the mixing")]
    if (a.argmax(1) != b.argmax(1)).any():
        return []
    text = f"one-hot labels are smoothed by {rates[1]:g}, those of the first by {rates[0]:g}"
    return [Explanation(text, f"smooth them by {rates[0]:g}")]


def _smoothing(labels: np.ndarray) -> float | None:
    """Return the rate by which one-hot labels are smoothed, 0 for not at all; None for other labels."""
    rate = round(float(labels.min()) * labels.shape[1], 4)
    hot = np.eye(labels.shape[1])[labels.argmax(1)]
    return rate if np.allclose(labels, hot * (1 - rate) + rate / labels.shape[1], atol=1e-4) else None


# -- images ------------------------------------------------------------------------------------------------


def _explain_images(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    found: list[Explanation] = []
    if first[0].ndim == 3 and second[0].ndim == 3:
        order = _layout(first[0], second[0])
        if order is None:
            return []
        if order != (0, 1, 2):
            axes = "".join("CHW"[i] if _channel_axis(first[0]) == 0 else "HWC"[i] for i in range(3))
            theirs = "".join(axes[order.index(i)] for i in range(3))
            found.append(Explanation(f"the layout is {theirs}, not {axes}", f"change the axes to {axes}"))
            second = [b.transpose(order) for b in second]
    if len({x.shape for side in (first, second) for x in side}) > 1:
        return found
    a = np.stack(list(first)[: len(second)]).astype(np.float64)
    b = np.stack(list(second)[: len(first)]).astype(np.float64)
    axis = 1 + _channel_axis(first[0]) if first[0].ndim == 3 else None
    best: tuple[float, Explanation | None, np.ndarray] | None = None
    for explanation, moved, kept in _moves(b, axis):
        slope, shift, left = fit(a[kept], moved, axis)
        if best is None or left < best[0] - CLOSE:
            best = left, explanation, np.stack([slope, shift])
    assert best is not None
    left, explanation, law = best
    if left > CLOSE:
        return found
    if explanation is not None:
        found.append(explanation)
    slope, shift = law
    scale = float(a.std()) or 1.0
    if not (np.allclose(slope, 1, atol=1e-3) and np.allclose(shift, 0, atol=1e-3 * scale)):
        found.append(affine(slope, shift))
    return found


def _explain_grey(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Explain images of three equal channels where the other side has colours."""
    grey = [
        all(v.ndim == 3 and bool((v == v.take([0], _channel_axis(v))).all()) for v in side)
        for side in (first, second)
    ]
    if grey[0] == grey[1]:
        return []
    if grey[1]:
        return [
            Explanation("images are grey, those of the first have colours", "read them in colour, as RGB")
        ]
    return [Explanation("images have colours, those of the first are grey", "read them in grey")]


def _explain_own_statistics(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Explain images that one side normalises by the mean and deviation of each, and the other does not."""
    pairs = list(zip(first, second, strict=False))
    if len(pairs) < 2 or any(a.shape != b.shape or not a.size for a, b in pairs):
        return []
    own = [
        all(abs(float(v.mean())) < CLOSE and abs(float(v.std()) - 1) < CLOSE for v in side)
        for side in zip(*pairs, strict=True)
    ]
    if own[0] == own[1]:
        return []
    axis = 1 + _channel_axis(first[0]) if first[0].ndim == 3 else None
    fits = [fit(a[None].astype(np.float64), b[None].astype(np.float64), axis) for a, b in pairs]
    if max(left for *_, left in fits) > CLOSE * 10:
        return []
    if own[1]:
        text = "each image is normalised by its own mean and deviation, not by fixed ones"
        return [Explanation(text, "normalise by the mean and standard deviation of the first")]
    text = "images are normalised by fixed numbers, not each by its own mean and deviation"
    return [Explanation(text, "subtract each image's mean, and divide by its deviation")]


def _layout(a: np.ndarray, b: np.ndarray) -> tuple[int, ...] | None:
    """Return the order of the second's axes in which it has the shape and looks of the first."""
    fitting = [order for order in permutations(range(3)) if tuple(b.shape[i] for i in order) == a.shape]
    if a.shape == b.shape and _channel_axis(a) == _channel_axis(b):
        fitting = [(0, 1, 2), *[o for o in fitting if o != (0, 1, 2)]]
    best: tuple[float, tuple[int, ...]] | None = None
    for order in fitting:
        left = fit(a[None].astype(np.float64), b.transpose(order)[None].astype(np.float64), None)[2]
        if best is None or left < best[0] - 0.05:
            best = left, order
    if best is None:
        spaces = [_channel_axis(x) for x in (a, b)]
        return None if spaces[0] == spaces[1] else ((2, 0, 1) if spaces[0] == 0 else (1, 2, 0))
    return best[1]


def _channel_axis(a: np.ndarray) -> int:
    return 0 if a.shape[0] in (1, 3, 4) and (a.shape[-1] not in (1, 3, 4) or a.shape[0] <= a.shape[-1]) else 2


def _moves(b: np.ndarray, axis: int | None):
    """Yield explanations of another place or order, with the values, and where they stand in the first."""
    whole = (slice(None),) * b.ndim
    yield None, b, whole
    if axis is not None and b.shape[axis] == 3:
        yield (
            Explanation("channels are in the other order (BGR against RGB)", "reverse the channels"),
            np.flip(b, axis),
            whole,
        )
    rows, columns = [i for i in range(1, b.ndim) if i != axis]
    yield (
        Explanation("images are mirrored from left to right", "leave out the flip"),
        np.flip(b, columns),
        whole,
    )
    yield Explanation("images are upside down", "leave out the flip"), np.flip(b, rows), whole
    if b.shape[rows] == b.shape[columns]:
        yield (
            Explanation("rows and columns are exchanged", "exchange height and width"),
            b.swapaxes(rows, columns),
            whole,
        )
    for dy in range(-_SHIFTS, _SHIFTS + 1):
        for dx in range(-_SHIFTS, _SHIFTS + 1):
            if (dy, dx) == (0, 0) or b.shape[rows] <= 2 * _SHIFTS or b.shape[columns] <= 2 * _SHIFTS:
                continue
            here, there = list(whole), list(whole)
            for place, step in ((rows, dy), (columns, dx)):
                n = b.shape[place]
                here[place] = slice(max(step, 0), n + min(step, 0))
                there[place] = slice(max(-step, 0), n + min(-step, 0))
            text = f"images are shifted by {dy} rows and {dx} columns"
            yield Explanation(text, "crop at the same place"), b[tuple(here)], tuple(there)
