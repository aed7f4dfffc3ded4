"""The groups of parameters in train.py: which are updated alike, and what tells them from the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....ir import BackendError
from ....ir.recipe import DECAY, KIND, Recipe, UpdateRule

_FIRST = 12
"""Names of parameters up to which a group is written as a list of them."""


def groups_of(recipe: Recipe, trainable: Sequence[str]) -> list[tuple[UpdateRule, list[str]]]:
    """Return parameters of one rule together, in the net's order.

    Raises:
        BackendError: where there are none, and for groups that MindSpore's optimizers cannot have (E602).
    """
    found: dict[tuple[object, ...], tuple[UpdateRule, list[str]]] = {}
    for name in trainable:
        rule = recipe.rules.get(name)
        if rule is not None:
            key = (rule.kind, tuple(sorted(rule.settings.items(), key=str)), rule.rates)
            found.setdefault(key, (rule, []))[1].append(name)
    groups = list(found.values())
    if not groups:
        raise BackendError(
            "E602", "expected an optimizer over the net's parameters, got one that holds none of them"
        )
    rules = [rule for rule, _ in groups]
    same = [{k: v for k, v in r.settings.items() if k not in (DECAY, KIND)} for r in rules]
    kinds = {r.settings[KIND] for r in rules if KIND in r.settings}
    if any(s != same[0] for s in same) or len({r.kind for r in rules}) > 1 or len(kinds) > 1:
        raise BackendError(
            "E602",
            "expected groups that differ in learning rate and weight decay, got groups that differ in more",
            place=recipe.reference,
            hint="MindSpore's optimizers apply every other setting to all groups",
        )
    return groups


def count_text(number: int) -> str:
    """Return so many parameters, in words."""
    return f"{number} parameter{'s' if number > 1 else ''}"


def group_tests(groups: Sequence[Sequence[str]], trainable: Sequence[str]) -> list[str]:
    """Return a test of `p` for the parameters of each group; empty for a group of all."""
    found: list[str] = []
    for names in groups:
        if set(names) == set(trainable):
            found.append("")
            continue
        others = set(trainable) - set(names)
        found.append(next(_expressions(names, others)))
    return found


def _expressions(names: Sequence[str], others: set[str]) -> Iterator[str]:
    for end in (True, False):
        mine, theirs = ({_part(n, end=end) for n in side} for side in (names, others))
        if not mine & theirs:
            parts = ", ".join(f'"{p}"' for p in sorted(mine))
            split = 'p.name.rpartition(".")[2]' if end else 'p.name.partition(".")[0]'
            yield f"{split} in ({parts}{',' * (len(mine) == 1)})"
    yield (
        f"p.name in {list(names)!r}"
        if len(names) <= len(others) or len(names) <= _FIRST
        else (f"p.name not in {sorted(others)!r}")
    )


def _part(name: str, *, end: bool) -> str:
    return name.rpartition(".")[2] if end else name.partition(".")[0]
