"""Finds the first transform in which two chains of transforms differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from .explaining import explain_values
from .explanation import AFFINE
from .result import Finding
from .stages import KINDS, UNKNOWN, VALUES, Stage, apart

_ROUNDING = 1.01
"""Steps of an 8-bit image up to which two images are one: what rounding does."""


def compare_chains(first: Sequence[Stage], second: Sequence[Stage]) -> list[Finding]:
    """Return what the transforms do differently, those first that come first.

    Transforms that say which pixels an image has are compared one by one, with what they give for the same
    samples; those that change numbers are compared by what they make of 0 and of 255 together.
    """
    findings = [*_compare_functions(first, second), *_compare_decoding(first, second)]
    findings = findings or compare_fillings(first, second)
    if not findings:
        findings += compare_pixels(*([s for s in chain if s.kind in _PLACED] for chain in (first, second)))
    return [*findings, *_compare_numbers(first, second)]


_PLACED = {*KINDS.values()} - VALUES - {"decode"}
"""Kinds that say which pixels an image has."""


def pixels(values: np.ndarray) -> np.ndarray:
    """Return an image as rows, columns, channels from 0 to 255."""
    image = values.astype(np.float64)
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim == 3 and image.shape[0] in (1, 3, 4) and image.shape[-1] not in (1, 3, 4):
        image = image.transpose(1, 2, 0)
    return image * 255 if values.dtype.kind == "f" and np.abs(image).max(initial=0.0) <= 1.5 else image


def difference(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """Return the mean and largest difference of images in steps of 8 bits; None where their sizes differ."""
    pairs = [(pixels(a), pixels(b)) for a, b in zip(first, second, strict=False)]
    if not pairs or any(a.shape != b.shape for a, b in pairs):
        return None
    gaps = [np.abs(a - b) for a, b in pairs]
    return float(np.mean([g.mean() for g in gaps])), float(max(g.max(initial=0.0) for g in gaps))


def effect(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> str:
    """Describe how far pixels move."""
    found = difference(first, second)
    if found is None:
        return (
            ""
            if not first or not second
            else f"sizes {list(pixels(first[0]).shape)} and {list(pixels(second[0]).shape)}"
        )
    return f"pixels differ by {found[0]:.2g} of 255 on average, {found[1]:.3g} at most"


def _compare_functions(first: Sequence[Stage], second: Sequence[Stage]) -> list[Finding]:
    """Compare what functions of the user's own do to images, which no setting says."""
    found: list[list[Finding]] = [[], []]
    for side, chain in enumerate((first, second)):
        for before, stage in pairwise(chain):
            if stage.kind != UNKNOWN or not before.values or not stage.values:
                continue
            pair = [[pixels(v) for v in s.values] for s in (before, stage)]
            reasons = [r for r in explain_values(*pair) if not r.message.startswith(AFFINE)]
            gap = difference(before.values, stage.values)
            moved = gap is None or gap[1] > _ROUNDING
            if reasons or (moved and not _is_scaled(*pair)):
                text = reasons[0].message if reasons else "changes pixels"
                where = (stage.line, 0) if side == 0 else (0, stage.line)
                moved = effect(before.values, stage.values)
                found[side].append(
                    Finding(stage.name, text, where, reasons[0].advice if reasons else "", moved)
                )
    texts = [{f.message for f in side} for side in found]
    return [
        replace(f, message=f"{f.stage} in the {'second' if side else 'first'} alone: {f.message}")
        for side in (1, 0)
        for f in found[side]
        if f.message not in texts[1 - side]
    ]


def _is_scaled(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> bool:
    """Whether images differ by a scale and a shift alone."""
    return all(a.shape == b.shape for a, b in zip(before, after, strict=False)) and bool(
        explain_values(before, after)
    )


def _compare_decoding(first: Sequence[Stage], second: Sequence[Stage]) -> list[Finding]:
    """Compare the decoded images: a decoder may give the channels in another order."""
    for stage in second:
        if stage.kind != "decode":
            continue
        mine = next((s for s in first if s.kind == "decode"), None)
        if mine is not None and mine.values and stage.values:
            found = difference(mine.values, stage.values)
            if found is not None and found[1] > 3:
                reasons = explain_values(mine.values, stage.values)
                text = reasons[0].message if reasons else "the decoded images differ"
                advice = reasons[0].advice if reasons else ""
                places = (mine.line, stage.line)
                return [Finding("Decode", text, places, advice, effect(mine.values, stage.values))]
    return []


def compare_fillings(first: Sequence[Stage], second: Sequence[Stage]) -> list[Finding]:
    """Compare where transforms stand that write a constant: Normalize changes what was written before it."""
    sides = [[(s, is_late) for s, is_late in _by_normalise(chain) if _fills(s)] for chain in (first, second)]
    if len(sides[0]) != len(sides[1]):
        return []
    return [
        Finding(
            other.name,
            f"{other.name} comes {'after' if late else 'before'} Normalize, in the first "
            f"{'before' if late else 'after'} it: what it fills in is another value",
            (mine.line, other.line),
            f"put {other.name} {'before' if late else 'after'} Normalize",
            of_law=mine.random,
        )
        for (mine, is_late), (other, late) in zip(*sides, strict=True)
        if mine.kind == other.kind and is_late != late and not apart(mine, other)
    ]


def _by_normalise(chain: Sequence[Stage]) -> list[tuple[Stage, bool]]:
    """Return the transforms, and whether each comes after the normalisation; none where 0 stays 0 in it."""
    at = next((i for i, s in enumerate(chain) if s.kind == "normalise"), None)
    moves = at is not None and bool(np.any(chain[at].settings.get("mean", 1)))
    return [(s, i > at) for i, s in enumerate(chain)] if at is not None and moves else []


def _fills(stage: Stage) -> bool:
    """Whether a transform writes a constant into images, as padding by reflection does not."""
    if stage.settings.get("padding_mode", "constant") != "constant":
        return False
    padded = stage.kind == "random crop" and bool(np.any(stage.settings.get("padding", 0)))
    return padded or stage.kind in ("pad", "random rotation", "random erasing")


def compare_pixels(one: Sequence[Stage], two: Sequence[Stage]) -> list[Finding]:
    """Compare transforms that say which pixels an image has, up to the first that gives other pixels."""
    findings: list[Finding] = []
    kinds = [s.kind for s in one], [s.kind for s in two]
    if kinds[0] != kinds[1]:
        return [_missing(one, two)]
    for at, (mine, other) in enumerate(zip(one, two, strict=True)):
        unlike = apart(mine, other)
        given = difference(mine.values, other.values)
        is_same = given is not None and given[1] <= _ROUNDING
        if mine.random and unlike:
            findings.append(_settings_finding(mine, other, unlike))
            if is_same:
                continue
            break
        if is_same:
            continue
        if unlike:
            findings.append(_settings_finding(mine, other, unlike))
        else:
            reasons = explain_values([pixels(v) for v in mine.values], [pixels(v) for v in other.values])
            text = reasons[0].message if reasons else "equal settings give other pixels"
            advice = reasons[0].advice if reasons else ""
            moved = effect(mine.values, other.values)
            places = mine.line, other.line
            if at == 0 and not mine.random:  # the same transform: the images that it is given differ
                text = reasons[0].message if reasons else "the images that are read differ"
                findings.append(Finding("Decode", f"before {other.name}: {text}", places, advice, moved))
            else:
                findings.append(Finding(other.name, f"{other.name}: {text}", places, advice, moved))
        break  # what follows reads other pixels
    return findings


def _missing(one: Sequence[Stage], two: Sequence[Stage]) -> Finding:
    """Return the finding of the first transform that only one side has, or that stands elsewhere."""
    kinds = [s.kind for s in one], [s.kind for s in two]
    at = next((i for i, (a, b) in enumerate(zip(*kinds, strict=False)) if a != b), min(map(len, kinds)))
    mine, other = (side[at] if at < len(side) else None for side in (one, two))
    places = (mine.line if mine else 0, other.line if other else 0)
    if sorted(kinds[0]) == sorted(kinds[1]) and mine and other:
        text = f"{other.name} comes where the first has {mine.name}: the order of transforms differs"
        return Finding(other.name, text, places, f"put {mine.name} there")
    if mine and (other is None or mine.kind not in kinds[1]):
        text, advice = f"{mine.name} is missing in the second", f"add {mine.name}{_shown(mine.settings)}"
        return Finding(mine.name, text, places, advice, of_law=mine.random)
    assert other is not None
    text, advice = f"{other.name} is not in the first", f"leave out {other.name}"
    return Finding(other.name, text, places, advice, of_law=other.random)


def _settings_finding(mine: Stage, other: Stage, unlike: dict[str, tuple[Any, Any]]) -> Finding:
    parts = "; ".join(f"{name}={_text(b)}, the first has {_text(a)}" for name, (a, b) in unlike.items())
    values = ", ".join(f"{name}={_text(a)}" for name, (a, _) in unlike.items())
    text, advice = f"{other.name}: {parts}", f"{other.name} with {values}"
    if list(unlike) == ["antialias"] and other.given == "array" and not other.antialias:
        advice = f"{other.name} of PIL images, which it smooths: Decode(to_pil=True)"
    moved = "" if mine.random else effect(mine.values, other.values)
    places = mine.line, other.line
    return Finding(other.name, text, places, advice, moved, mine.random)


def _shown(settings: dict[str, Any]) -> str:
    return f"({', '.join(f'{k}={_text(v)}' for k, v in settings.items())})" if settings else ""


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


# -- numbers -----------------------------------------------------------------------------------------------


def _compare_numbers(first: Sequence[Stage], second: Sequence[Stage]) -> list[Finding]:
    """Compare mean and standard deviation of both chains in the units of an 8-bit image."""
    laws = _law(first), _law(second)
    if laws[0] is None or laws[1] is None:
        return []
    channels = max(len(law[0]) for law in laws if law is not None)
    mine, other = (
        [np.broadcast_to(np.asarray(v, float), channels) for v in law[:2]] for law in laws if law is not None
    )
    if all(np.allclose(a, b, rtol=2e-3, atol=1e-6) for a, b in zip(mine, other, strict=True)):
        return []
    stages = [law[2] for law in laws if law is not None]
    named = next((s for s in (stages[1], stages[0]) if s is not None), None)
    ranges = [_range(scale, shift) for scale, shift in (mine, other)]
    text = f"values go from {ranges[1]} and not from {ranges[0]}"
    advice = ""
    normal = [s for s in stages if s is not None and s.kind == "normalise"]
    inner = [_before(chain, stage) for chain, stage in zip((first, second), normal, strict=False)]
    if len(normal) == 2 and not apart(*normal) and inner[0] != inner[1] and None not in inner:
        text = f"{normal[1].name} gets values from {_span(inner[1])} and not from {_span(inner[0])}"
        advice = f"give {normal[1].name} values from {_span(inner[0])}"
    elif len(normal) == 2:
        moments = f"{_moments(*other)} instead of {_moments(*mine)}"
        text = f"{normal[1].name}: mean and deviation, in steps of 8 bits, {moments}"
        if inner[1] is not None:
            mean, deviation = -mine[1] / mine[0], 1 / mine[0]
            scale, shift = inner[1]
            advice = (
                f"{normal[1].name}(mean={_numbers(mean * scale + shift)}, std={_numbers(deviation * scale)})"
            )
    elif len(normal) == 1:
        missing = stages[1] is None or stages[1].kind != "normalise"
        text = f"Normalize is {'missing in the second' if missing else 'not in the first'}: {text}"
        advice = f"{'add' if missing else 'leave out'} {normal[0].name}"
    places = tuple(s.line if s is not None else 0 for s in stages)
    return [Finding(named.name if named else "numbers", text, (places[0], places[1]), advice)]


def _law(chain: Sequence[Stage]) -> tuple[list[float], list[float], Stage | None] | None:
    """Return scale and shift by channel of a chain on an 8-bit image, and the stage that decides them."""
    scale, shift, named = [1.0], [0.0], None
    for before, stage in zip([None, *chain], chain, strict=False):
        found = _step(stage, before)
        if found is None:
            return None
        a, b = found
        n = max(len(a), len(scale))
        scale, shift = (list(np.broadcast_to(v, n)) for v in (scale, shift))
        a, b = list(np.broadcast_to(a, n)), list(np.broadcast_to(b, n))
        scale, shift = (
            [x * y for x, y in zip(scale, a, strict=True)],
            [x * y + z for x, y, z in zip(shift, a, b, strict=True)],
        )
        if stage.kind in ("normalise", "tensor", "scale"):
            named = (
                stage if named is None or stage.kind == "normalise" or named.kind != "normalise" else named
            )
    return [float(v) for v in scale], [float(v) for v in shift], named


def _before(chain: Sequence[Stage], until: Stage) -> tuple[float, float] | None:
    """Return scale and shift of what comes before a stage."""
    law = _law(chain[: list(chain).index(until)])
    return None if law is None else (law[0][0], law[1][0])


def _step(stage: Stage, before: Stage | None) -> tuple[list[float], list[float]] | None:
    """Return factor and summand of one stage; those of a function are measured, None where they cannot be."""
    settings = stage.settings
    if stage.kind == UNKNOWN:
        if before is None or not before.values or not stage.values:
            return None
        low, high = (sorted((float(v.min()), float(v.max())) for v in s.values)[0] for s in (before, stage))
        factor = (high[1] - high[0]) / (low[1] - low[0]) if low[1] > low[0] else 1.0
        return [factor], [high[0] - factor * low[0]]
    if stage.kind == "normalise":
        mean, deviation = np.atleast_1d(settings["mean"]), np.atleast_1d(settings["std"])
        return list(1 / deviation), list(-mean / deviation)
    if stage.kind == "tensor":
        return [1 / 255], [0.0]
    if stage.name == "Rescale":
        return [float(settings["scale"])], [float(settings["shift"])]
    if stage.kind == "scale":
        wide = str(settings.get("dtype", "float32")).startswith("float")
        return [1 / 255 if wide and settings.get("scale", True) else 1.0], [0.0]
    return [1.0], [0.0]


def _range(scale: np.ndarray, shift: np.ndarray) -> str:
    low, high = float(np.min(shift)), float(np.max(scale * 255 + shift))
    return f"{low:.3g} to {high:.3g}"


def _span(law: tuple[float, float] | None) -> str:
    return "?" if law is None else f"{law[1]:.4g} to {law[0] * 255 + law[1]:.4g}"


def _moments(scale: np.ndarray, shift: np.ndarray) -> str:
    return f"{_numbers(-shift / scale)} and {_numbers(1 / scale)}"


def _numbers(values: np.ndarray) -> str:
    return f"[{', '.join(f'{v + 0.0:.5g}' for v in values)}]"
