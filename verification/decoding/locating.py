"""Says where a decoder's steps go wrong: in its one pass too, in a cache, or in how a step reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .feeding import Pair
from .stepping import DecoderRunner, Traced

_CLOSE = 1e-3
"""Difference relative to the largest value up to which entries of caches count as one."""

Wrong = tuple[str, DecoderRunner, int, Traced]
"""A side, how it ran, the first step that differs, and its run."""


def explain(
    names: Sequence[str],
    count: int,
    reference: DecoderRunner,
    wanted: Traced,
    wrong: Sequence[Wrong],
    tried: Sequence[tuple[str, DecoderRunner]],
    streams: Mapping[str, np.ndarray],
) -> list[str]:
    """Return lines on the first step that differs.

    Args:
        names: those of the outputs.
        count: the number of tokens.
        reference: the run that the others were compared with.
        wanted: its results.
        wrong: the runs that differ.
        tried: all that were compared.
        streams: the tokens.
    """
    stepped = sorted((w for w in wrong if w[1].steps), key=lambda w: w[2])
    passes = {side: (way, step) for side, way, step, _ in wrong if not way.steps}
    what = "its steps" if reference.steps else f"one pass over {count} tokens"
    if not stepped:
        side, (_, step) = next(iter(passes.items()))
        return [f"first divergence: token {step} of one pass of the {side} over {count}: its steps are right"]
    side, way, step, found = stepped[0]
    origin = "source" if reference.feeder.feeding.ports.side == "source" else "target"
    lines = [
        f"first divergence: step {step} of the {side}: `{names[0]}` is not that of {what} of the {origin}"
    ]
    own = next((w for s, w in tried if s == side and not w.steps), None)
    if reference.feeder is way.feeder and not reference.steps:
        own = reference
    if side in passes:
        at = passes[side][1]
        lines.append(
            f"  its one pass over {count} tokens differs too, from token {at}: the cache may be right"
        )
    elif own is not None:
        lines.append(f"  its one pass over {count} tokens is right: its cache, positions or mask are not")
    if side not in passes:
        whole = wanted if own is reference else own.trace(streams) if own is not None else wanted
        lines += _explain_caches(way, found, whole, step, count)
    return lines


def _explain_caches(way: DecoderRunner, found: Traced, whole: Traced, step: int, count: int) -> list[str]:
    """Return a line on the first cache that is not that of the pass."""
    pairs = list(way.feeder.feeding.pairs.values())
    outputs = way.feeder.feeding.ports.outputs
    passes = list(whole.caches.values())
    finals = passes if len(passes) == len(pairs) else [None] * len(pairs)
    known = 0
    begun = count - len(next(iter(found.caches.values()), []))
    for after in range(1, step + 1):
        for pair, final in zip(pairs, finals, strict=True):
            kept = found.caches[pair.input.name]
            if not 0 < after - begun <= len(kept):
                continue
            told = _explain_cache(kept[: after - begun], None if final is None else final[-1], pair, after)
            if told:
                return [f"  the cache `{outputs[pair.output].name}` {told}"]
            known += told is not None
    if not known:
        return []
    return ["  every cache is that of the pass: a step reads it with another mask or position"]


def _explain_cache(
    kept: Sequence[np.ndarray], whole: np.ndarray | None, pair: Pair, after: int
) -> str | None:
    """Return what is wrong with a cache after a step; empty if nothing is, None if it cannot be told."""
    cache = kept[-1]
    if cache.dtype.kind != "f":
        return None
    axis = pair.axis
    if axis is None:
        axis = _written_axis(kept)
        if axis is None:
            return None
        places = _places(kept[-2] if len(kept) > 1 else np.zeros_like(cache), cache, axis)
        if places and places != [after - 1]:
            return f"takes token {after} in place {', '.join(str(p + 1) for p in places)}"
    elif cache.shape[axis] != after:
        return f"holds {_many(cache.shape[axis])} after step {after}"
    if whole is None or whole.ndim != cache.ndim:
        return None
    ours, theirs = (np.moveaxis(a, axis, 0).astype(np.float64) for a in (cache, whole))
    ours, theirs = ours[:after], theirs[:after]
    if ours.shape != theirs.shape:
        return None
    places = [_find(entry, theirs) for entry in ours]
    if all(at == place for at, place in enumerate(places)):
        return ""
    if None not in places and len(set(places)) == len(places):
        order = " ".join(str(p + 1) for p in places if p is not None)
        return f"holds tokens {order} in this order after step {after}"
    at = next(a for a, place in enumerate(places) if place != a)
    other = places[at]
    if other is not None:
        return f"holds token {other + 1} in the place of token {at + 1} after step {after}"
    turned = _rotation(ours[at], theirs[at])
    if turned is not None:
        by = f" by {turned:+d}, as position {at + turned} in place of {at}" if turned else ""
        return f"has token {at + 1} rotated{by or ' by other angles'} after step {after}"
    return f"differs from the pass's at token {at + 1} after step {after}"


def _many(count: int) -> str:
    return f"{count} token" if count == 1 else f"{count} tokens"


def _find(entry: np.ndarray, among: np.ndarray) -> int | None:
    """Return the place of an entry; None if it is not there."""
    scale = float(np.abs(among).max(initial=0.0)) * _CLOSE
    return next((at for at, other in enumerate(among) if bool((np.abs(entry - other) <= scale).all())), None)


def _written_axis(kept: Sequence[np.ndarray]) -> int | None:
    """Return the axis of a cache of fixed size of which the first step wrote one entry alone."""
    first = kept[0]
    return next(
        (
            axis
            for axis in range(1, first.ndim)
            if first.shape[axis] > 1 and len(_places(np.zeros_like(first), first, axis)) == 1
        ),
        None,
    )


def _places(before: np.ndarray, after: np.ndarray, axis: int) -> list[int]:
    """Return the places along an axis that changed."""
    changed = np.moveaxis(before != after, axis, 0)
    return [int(at) for at in np.flatnonzero(changed.reshape(len(changed), -1).any(1))]


def _rotation(ours: np.ndarray, theirs: np.ndarray) -> int | None:
    """Return by how many positions rotary angles differ, 0 for other angles; None if none do."""
    size = ours.shape[-1]
    if size % 2:
        return None
    half = size // 2
    for first, second in ((slice(0, half), slice(half, None)), (slice(0, None, 2), slice(1, None, 2))):
        a = ours[..., first] + 1j * ours[..., second]
        b = theirs[..., first] + 1j * theirs[..., second]
        if np.allclose(np.abs(a), np.abs(b), rtol=_CLOSE, atol=_CLOSE * float(np.abs(b).max(initial=0.0))):
            turns = np.angle(a * b.conj())[..., 0]  # the first pair turns by one radian a position
            mean = float(np.median(turns))
            whole = bool(np.abs(turns - mean).max(initial=0.0) < 0.05) and abs(mean - round(mean)) < 0.05
            return round(mean) if whole else 0
    return None
