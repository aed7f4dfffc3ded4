"""Two training scripts compared setting by setting, parameter by parameter; equal differences become one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...ir.recipe import ABSENT, EPSILON_PLACE, INSIDE, LossRule, Recipe, Setting
from .advice import Asked, advise
from .rates import compare_rates
from .report import RecipeRow

_UNLESS = {"ignore_index": -100, "class weights": None}
"""Settings that one loss has and another has not -> the value that is as good as none."""

_USUAL = 1e-7
"""An epsilon up to which it matters little where Adam adds it."""

_LONG = 90
"""Characters of a value that are shown: the weights of many classes have more."""

_TINY = 1e-8
"""An epsilon up to which it matters little where Adagrad adds it to a sum that starts above 0."""

_KEYS = {
    "clip norm": ("clip_norm",),
    "clip value": ("clip_value",),
    "gradients times": ("loss_scale", "optimizer"),
    "loss scaler": ("loss_scale",),
    "precision": ("precision",),
    "averaged weights": ("ema",),
}
"""Setting of the loop -> keys of a recipe that state it."""


def compare_settings(source: Recipe, target: Recipe, pairs: Sequence[tuple[str, str]]) -> list[RecipeRow]:
    """Return every setting that differs, those that count first.

    Args:
        source: the source's script.
        target: the target's.
        pairs: (parameter of the source, the target's), one of several where one side keeps them in one.
    """
    rows = [*_losses(source.loss, target.loss, target), *_options(source, target)]
    rows += _updates(source, target, pairs)
    return sorted(rows, key=lambda row: not row.counts)


def _losses(source: LossRule, target: LossRule, recipe: Recipe) -> Iterator[RecipeRow]:
    place = recipe.place_of("loss")
    if not source.kind or not target.kind:
        return  # compared by what they give
    if source.kind != target.kind:
        why, advice = advise(Asked("loss", source.kind, target.kind, recipe, (), source.settings))
        mine, theirs = (f"{rule.kind} (`{rule.written}`)" for rule in (source, target))
        yield RecipeRow("loss", mine, theirs, why=why, advice=advice, place=place)
        return
    for name in dict.fromkeys([*source.settings, *target.settings]):
        if name == "class axis" or _unmeasured(name, source) or _unmeasured(name, target):
            continue
        mine, theirs = (s.settings.get(name, _UNLESS.get(name)) for s in (source, target))
        if mine == theirs:
            continue
        why, advice = advise(Asked(name, mine, theirs, recipe, (), source.settings))
        harmless = name == "labels" or (
            name == "ignore_index" and None in (mine, theirs) and -100 in (mine, theirs)
        )
        if name == "labels":
            why, advice = "the labels were cast for the comparison", ""
        if name == "reduction" and "mean" not in (mine, theirs):
            harmless, why, advice = True, "the gradients are the same", ""
        yield RecipeRow(name, _text(mine), _text(theirs), not harmless, (), why, advice, place)


def _unmeasured(name: str, loss: LossRule) -> bool:
    """Whether values do not show a setting of a loss that was told from values."""
    return loss.measured and name not in loss.settings


def _options(source: Recipe, target: Recipe) -> Iterator[RecipeRow]:
    for name in source.options:
        mine, theirs = source.options[name], target.options[name]
        if mine != theirs:
            why, advice = advise(Asked(name, mine, theirs, target))
            # what float32 does without, and a loop that multiplies and divides again
            counts = name != "loss scaler" or target.options["precision"] is not None
            place = target.place_of(*_KEYS.get(name, ()))
            yield RecipeRow(name, _text(mine), _text(theirs), counts, why=why, advice=advice, place=place)


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
            known = [s.get(name, ABSENT.get(name)) for s in (a.settings, b.settings)]
            if None not in known and known[0] != known[1]:  # None: it follows from another that differs
                found.setdefault((name, known[0], known[1]), []).append(theirs)
    yield from _rates(schedules, rates, len(held), target)
    place = target.place_of("optimizer")
    back = {theirs: mine for mine, theirs in held}
    for (name, mine, theirs), names in found.items():
        some = tuple(dict.fromkeys(names)) if len(names) < len(held) else ()
        rules = [side.get(n) for side, n in ((source.rules, back[names[0]]), (target.rules, names[0]))]
        settings = [{} if rule is None else rule.settings for rule in rules]
        shown = names if some else ()
        why, advice = advise(Asked(name, mine, theirs, target, shown, settings[0], source.optimizer))
        if name == "update":
            mine, theirs = f"{mine} (`{source.optimizer}`)", f"{theirs} (`{target.optimizer}`)"
        counts = _counts(name, *settings)
        yield RecipeRow(name, _text(mine), _text(theirs), counts, some, why, advice, place)


def _counts(name: str, mine: Mapping[str, Setting], theirs: Mapping[str, Setting]) -> bool:
    """Whether two update rules train differently by a setting."""
    epsilon = theirs.get("epsilon")
    if name in ("epsilon", INSIDE) and mine.get(_SUM) and theirs.get(_SUM):
        return not all(isinstance(s["epsilon"], float) and s["epsilon"] <= _TINY for s in (mine, theirs))
    # where it is added matters beside gradients as small as it is: beside few, where it is as small as usual
    return name != EPSILON_PLACE or (isinstance(epsilon, float) and epsilon > _USUAL)


_SUM = "sum of squares starts at"


def _rates(
    schedules: Mapping[tuple[int, int], tuple[Sequence[float], Sequence[float]]],
    held: Mapping[tuple[int, int], list[str]],
    count: int,
    recipe: Recipe,
) -> Iterator[RecipeRow]:
    folded: dict[tuple[str, str, str, str], list[str]] = {}
    for key, (mine, theirs) in schedules.items():
        found = compare_rates(mine, theirs)
        if found is not None:
            row = (found.source, found.target, found.why, found.advice)
            folded.setdefault(row, []).extend(held[key])
    place = recipe.place_of("schedule", "optimizer")
    for (mine, theirs, why, advice), names in folded.items():
        some = tuple(names) if len(names) < count else ()
        fix = advice or advise(Asked("learning rate", mine, theirs, recipe))[1]
        yield RecipeRow("learning rate", mine, theirs, True, some, why, fix, place)


def compare_values(
    source: Sequence[float], target: Sequence[float], source_loss: LossRule, recipe: Recipe
) -> RecipeRow | None:
    """Return the difference of two losses on the same outputs and labels; None where they agree."""
    a, b = np.asarray(source), np.asarray(target)
    if np.allclose(a, b, rtol=1e-4, atol=1e-6):
        return None
    ratio = b / a if a.all() else a
    same = bool(a.all()) and np.allclose(ratio, ratio[0], rtol=1e-3)
    why = f"{ratio[0]:.4g} times the source's on every batch" if same else "on equal outputs and labels"
    parts, theirs = source_loss.parts, recipe.loss.parts
    if parts and theirs and parts != theirs and parts[0] == theirs[0]:  # both by key, or both in order
        why += "; a loop weighs the parts that the losses give"
        place = recipe.place_of("loss_weights")
        return RecipeRow(
            "loss_weights", parts, theirs, why=why, advice=f"`loss_weights={parts}`", place=place
        )
    return RecipeRow(
        "loss",
        f"{a[0]:.5g} (`{source_loss.written}`)",
        f"{b[0]:.5g} (`{recipe.loss.written}`)",
        why=why,
        advice=f"a loss that computes the same as `{source_loss.written}`",
        place=recipe.place_of("loss"),
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
