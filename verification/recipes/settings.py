"""Two training scripts compared setting by setting, parameter by parameter; equal differences become one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...ir.recipe import EPSILON_PLACE, LossRule, Recipe, Setting
from .advice import advise
from .rates import compare_rates
from .report import RecipeRow

_UNLESS = {"ignore_index": -100, "class weights": None}
"""Settings that one loss has and another has not -> the value that is as good as none."""

_ABSENT: dict[str, Setting] = {"maximize": False, "centralised gradients": False}
"""Settings that a rule without them has all the same."""

_USUAL = 1e-7
"""An epsilon up to which it matters little where Adam adds it."""

_LONG = 90
"""Characters of a value that are shown: the weights of many classes have more."""

_TINY = 1e-8
"""An epsilon up to which Adagrad's, which MindSpore has none of, matters little."""


def compare_settings(source: Recipe, target: Recipe, pairs: Sequence[tuple[str, str]]) -> list[RecipeRow]:
    """Every setting that differs, those that count first.

    Args:
        source: the source's script.
        target: the target's.
        pairs: (parameter of the source, the target's), one of several where one side keeps them in one.
    """
    rows = [*_losses(source.loss, target.loss, target), *_options(source, target)]
    rows += _updates(source, target, pairs)
    return sorted(rows, key=lambda row: not row.counts)


def _losses(source: LossRule, target: LossRule, recipe: Recipe) -> Iterator[RecipeRow]:
    if not source.kind or not target.kind:
        return  # compared by what they give
    if source.kind != target.kind:
        yield RecipeRow(
            "loss",
            f"{source.kind} ({source.written})",
            f"{target.kind} ({target.written})",
            advice=source.kind,
        )
        return
    for name in dict.fromkeys([*source.settings, *target.settings]):
        if name == "class axis" or _unmeasured(name, source) or _unmeasured(name, target):
            continue
        mine, theirs = (s.settings.get(name, _UNLESS.get(name)) for s in (source, target))
        if mine == theirs:
            continue
        why, advice = advise(name, mine, theirs, recipe, ())
        harmless = name == "labels" or (
            name == "ignore_index" and None in (mine, theirs) and -100 in (mine, theirs)
        )
        if name == "labels":
            why, advice = "the labels were cast for the comparison", ""
        if name == "reduction" and "mean" not in (mine, theirs):
            harmless, why, advice = True, "the gradients are the same", ""
        yield RecipeRow(name, _text(mine), _text(theirs), not harmless, (), why, advice)


def _unmeasured(name: str, loss: LossRule) -> bool:
    """Whether values do not show a setting of a loss that was told from values."""
    return loss.measured and name not in loss.settings


def _options(source: Recipe, target: Recipe) -> Iterator[RecipeRow]:
    for name in source.options:
        mine, theirs = source.options[name], target.options[name]
        if mine != theirs:
            why, advice = advise(name, mine, theirs, target, ())
            # what float32 does without, and a loop that multiplies and divides again
            counts = name != "loss scaler" or target.options["precision"] is not None
            yield RecipeRow(name, _text(mine), _text(theirs), counts, why=why, advice=advice)


def _updates(source: Recipe, target: Recipe, pairs: Sequence[tuple[str, str]]) -> Iterator[RecipeRow]:
    """Differences of the update rules, folded: one row for all parameters that differ alike."""
    found: dict[tuple[str, Setting, Setting], list[str]] = {}
    rates: dict[tuple[int, int], list[str]] = {}
    held = [(mine, theirs) for mine, theirs in pairs if mine in source.rules or theirs in target.rules]
    schedules: dict[tuple[int, int], tuple[Sequence[float], Sequence[float]]] = {}
    for mine, theirs in held:
        a, b = source.rules.get(mine), target.rules.get(theirs)
        if a is None or b is None:
            found.setdefault(("trained", _yes(a is not None), _yes(b is not None)), []).append(theirs)
            continue
        key = (id(a.rates), id(b.rates))
        schedules[key] = (a.rates, b.rates)
        rates.setdefault(key, []).append(theirs)
        if a.kind != b.kind:
            found.setdefault(("update", a.kind, b.kind), []).append(theirs)
            continue
        for name in dict.fromkeys([*a.settings, *b.settings]):
            known = [s.get(name, _ABSENT.get(name)) for s in (a.settings, b.settings)]
            if None not in known and known[0] != known[1]:  # None: it follows from another that differs
                found.setdefault((name, known[0], known[1]), []).append(theirs)
    yield from _rates(schedules, rates, len(held))
    for (name, mine, theirs), names in found.items():
        some = tuple(dict.fromkeys(names)) if len(names) < len(held) else ()
        why, advice = advise(name, mine, theirs, target, names if some else ())
        if name == "update":
            mine, theirs = f"{mine} ({source.optimizer})", f"{theirs} ({target.optimizer})"
            advice = f"the update of {source.optimizer}"
        epsilon = target.rules[names[0]].settings.get("epsilon") if names[0] in target.rules else None
        counts = _counts(name, mine, theirs, epsilon)
        yield RecipeRow(name, _text(mine), _text(theirs), counts, some, why, advice)


def _counts(name: str, mine: Setting, theirs: Setting, epsilon: Setting) -> bool:
    if name == "epsilon" and 0.0 in (mine, theirs):
        return not all(isinstance(v, float) and v <= _TINY for v in (mine, theirs))
    # where it is added matters beside gradients as small as it is: beside few, where it is as small as usual
    return name != EPSILON_PLACE or (isinstance(epsilon, float) and epsilon > _USUAL)


def _rates(
    schedules: Mapping[tuple[int, int], tuple[Sequence[float], Sequence[float]]],
    held: Mapping[tuple[int, int], list[str]],
    count: int,
) -> Iterator[RecipeRow]:
    folded: dict[tuple[str, str, str, str], list[str]] = {}
    for key, (mine, theirs) in schedules.items():
        found = compare_rates(mine, theirs)
        if found is not None:
            row = (found.source, found.target, found.why, found.advice)
            folded.setdefault(row, []).extend(held[key])
    for (mine, theirs, why, advice), names in folded.items():
        some = tuple(names) if len(names) < count else ()
        yield RecipeRow("learning rate", mine, theirs, True, some, why, advice)


def compare_values(
    source: Sequence[float], target: Sequence[float], source_loss: LossRule, target_loss: LossRule
) -> RecipeRow | None:
    """The difference of two losses on the same outputs and labels; None where they agree."""
    a, b = np.asarray(source), np.asarray(target)
    if np.allclose(a, b, rtol=1e-4, atol=1e-6):
        return None
    ratio = b / a if a.all() else a
    same = bool(a.all()) and np.allclose(ratio, ratio[0], rtol=1e-3)
    why = f"{ratio[0]:.4g} times the source's on every batch" if same else "on equal outputs and labels"
    return RecipeRow(
        "loss",
        f"{a[0]:.5g} (`{source_loss.written}`)",
        f"{b[0]:.5g} (`{target_loss.written}`)",
        why=why,
        advice=f"a loss that computes the same as `{source_loss.written}`",
    )


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _text(value: Setting) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return _yes(value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
