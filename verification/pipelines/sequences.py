"""Explains how sequences of two pipelines differ: padding, cuts, tokens at the ends, masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from .explanation import Explanation

_OVERLAP = 2
"""Values that two cut sequences must share, at least, to be parts of one."""
_EXTRA = 2
"""Tokens at an end up to which they are named."""

Padding = tuple[float | None, str]
"""The value and the side of padding; (None, "") for none."""


def explain_sequences(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Return what makes sequences of the second pipeline those of the first; empty for nothing."""
    pairs = list(zip(first, second, strict=False))
    if all(np.array_equal(x, y) for x, y in pairs):
        return []
    if _are_marks(first) and _are_marks(second) and all(np.array_equal(y, 1 - x) for x, y in pairs):
        return [Explanation("0 and 1 are exchanged", "exchange 0 and 1: 1 marks what the first marks")]
    padded = _explain_padding(first, second)
    if padded:
        return padded
    for mine, other in product(_paddings(first), _paddings(second)):
        cores = [(_strip(x, mine), _strip(y, other)) for x, y in pairs]
        found = _explain_ends(cores, is_mark=_are_marks(first) and _are_marks(second), alike=mine == other)
        if found is not None:
            return [found]
    short = [min(len(x), len(y)) for x, y in pairs]
    lengths = [max(len(x) for x in side) for side in (first, second)]
    if lengths[0] != lengths[1] and all(
        np.array_equal(x[:n], y[:n]) for (x, y), n in zip(pairs, short, strict=True)
    ):
        text = f"sequences end after {lengths[1]} values and not after {lengths[0]}"
        return [Explanation(text, f"cut them to {lengths[0]}")]
    return []


def explain_vectors(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Return what makes sequences of vectors, padded batch by batch, those of the first."""
    fills: set[tuple[float, float]] = set()
    for x, y in zip(first, second, strict=False):
        if x.shape != y.shape:
            return []
        differing = np.flatnonzero([not np.array_equal(a, b) for a, b in zip(x, y, strict=True)])
        for row in differing:
            if np.ptp(x[row]) or np.ptp(y[row]):
                return []
            fills.add((float(x[row].flat[0]), float(y[row].flat[0])))
    if len(fills) != 1:
        return []
    mine, other = fills.pop()
    return [Explanation(f"sequences are padded with {other:g} instead of {mine:g}", f"pad with {mine:g}")]


def _are_marks(values: Sequence[np.ndarray]) -> bool:
    """Whether sequences are masks: each value is 0 or 1."""
    return all(np.isin(v, (0, 1)).all() for v in values)


def _paddings(values: Sequence[np.ndarray]) -> list[Padding]:
    """Return how the sequences may be padded, the likeliest first; no padding is the last."""
    found: list[Padding] = []
    for side, at in (("end", -1), ("beginning", 0)):
        ends = Counter(float(v[at]) for v in values if len(v))
        found += [(value, side) for value, _ in ends.most_common(2)]
    return [*found, (None, "")]


def _strip(x: np.ndarray, padding: Padding) -> np.ndarray:
    """Return a sequence without its padding."""
    value, side = padding
    if value is None or not len(x):
        return x
    kept = np.flatnonzero(x != value)
    if not len(kept):
        return x[:0]
    return x[: kept[-1] + 1] if side == "end" else x[kept[0] :]


def _explain_padding(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[Explanation]:
    """Return how two paddings of equal sequences differ."""
    for mine, other in product(_paddings(first), _paddings(second)):
        cores = [(_strip(x, mine), _strip(y, other)) for x, y in zip(first, second, strict=False)]
        if not all(np.array_equal(x, y) for x, y in cores) or not any(len(x) for x, _ in cores):
            continue
        found: list[Explanation] = []
        if None not in (mine[0], other[0]) and mine[0] != other[0]:
            text = f"sequences are padded with {other[0]:g} instead of {mine[0]:g}"
            found.append(Explanation(text, f"pad with {mine[0]:g}"))
        if mine[1] and other[1] and mine[1] != other[1]:
            text = f"sequences are padded at the {other[1]}, not at the {mine[1]}"
            found.append(Explanation(text, f"pad at the {mine[1]}"))
        lengths = [{len(x) for x in side} for side in (first, second)]
        if lengths[0] != lengths[1]:
            text = f"sequences are padded to {_listed(lengths[1])} and not to {_listed(lengths[0])}"
            found.append(Explanation(text, f"pad to {_listed(lengths[0])}"))
        if found:
            return found
    return []


def _explain_ends(
    cores: Sequence[tuple[np.ndarray, np.ndarray]], *, is_mark: bool, alike: bool
) -> Explanation | None:
    """Return how sequences without their padding differ at an end: other cuts, or tokens more or less."""
    most = [max((len(x) for x in side), default=0) for side in zip(*cores, strict=True)]
    differing = [(x, y) for x, y in cores if not np.array_equal(x, y)]
    for extra in range(1, _EXTRA + 1):
        for text, advice, fits in _ENDS:
            if is_mark and "begin" in text:
                continue  # equal marks show no side
            if all(fits(x, y, extra, most) for x, y in cores):
                shown = _tokens(cores, extra, text)
                if is_mark:
                    text, advice, shown = (
                        text.replace("tokens", "marks"),
                        "mark as many values as the first",
                        "",
                    )
                many = text if extra > 1 else text.replace("tokens", "token").replace("marks", "mark")
                return Explanation(many.format(extra) + shown, advice)
    if most[0] > most[1] and all(np.array_equal(x[: most[1]], y) for x, y in cores):
        return Explanation(f"sequences are cut after {most[1]} values", f"keep {most[0]} values")
    if most[1] > most[0] and all(np.array_equal(x, y[: most[0]]) for x, y in cores):
        return Explanation(
            f"sequences are not cut after {most[0]} values", f"cut them after {most[0]} values"
        )
    for text, advice, kept in _CUTS:
        if differing and alike and all(_overlap(*(pair if kept else pair[::-1])) for pair in differing):
            return Explanation(text, advice)
    return None


_Fits = Callable[[np.ndarray, np.ndarray, int, Sequence[int]], bool]


def _longer_at_end(x: np.ndarray, y: np.ndarray, extra: int, most: Sequence[int]) -> bool:
    """Whether the second has tokens more at its end, as far as it is not cut."""
    if len(y) == len(x) + extra:
        return np.array_equal(y[: len(x)], x)
    return len(y) == most[1] == len(x) and np.array_equal(y[: len(y) - extra], x[: len(x) - extra])


def _longer_at_beginning(x: np.ndarray, y: np.ndarray, extra: int, most: Sequence[int]) -> bool:
    """Whether the second has tokens more at its beginning, as far as it is not cut at its end."""
    kept = y[extra:]
    return np.array_equal(kept, x) or (
        len(y) == most[1] and len(kept) > 0 and np.array_equal(kept, x[: len(kept)])
    )


def _turned(fits: _Fits) -> _Fits:
    return lambda x, y, extra, most: fits(y, x, extra, most[::-1])


_ENDS: tuple[tuple[str, str, _Fits], ...] = (
    ("sequences end with {} tokens more", "leave out the tokens at the end", _longer_at_end),
    ("sequences lack {} tokens at their end", "add the tokens at the end", _turned(_longer_at_end)),
    ("sequences begin with {} tokens more", "leave out the tokens at the beginning", _longer_at_beginning),
    (
        "sequences lack {} tokens at their beginning",
        "add the tokens at the beginning",
        _turned(_longer_at_beginning),
    ),
)
"""Message, advice, and the test that a pair of sequences has to pass."""

_CUTS = (
    ("sequences are cut at their beginning, not at their end", "cut them at their end", True),
    ("sequences are cut at their end, not at their beginning", "cut them at their beginning", False),
)


def _tokens(cores: Sequence[tuple[np.ndarray, np.ndarray]], extra: int, text: str) -> str:
    """Return the tokens that one side has more."""
    for x, y in cores:
        longer, shorter = (y, x) if "more" in text else (x, y)
        if len(longer) == len(shorter) + extra:
            found = longer[:extra] if "begin" in text else longer[len(longer) - extra :]
            return f": {', '.join(str(v) for v in found)}"
    return ""


def _overlap(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the second goes on where the first is cut, and begins later."""
    return len(x) == len(y) and any(
        np.array_equal(x[step:], y[: len(y) - step]) for step in range(1, len(x) - _OVERLAP + 1)
    )


def _listed(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)[:3]))
