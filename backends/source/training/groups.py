"""The groups of parameters in train.py: which are updated alike, and what tells them from the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....ir import BackendError
from ....ir.recipe import Recipe, UpdateRule

_FIRST = 12
"""Names of parameters up to which a group is written as a list of them."""


def groups_of(recipe: Recipe, trainable: Sequence[str]) -> list[tuple[UpdateRule, list[str]]]:
    """Return parameters of one rule together, in the net's order.

    Raises:
        BackendError: where there are none (E602).
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
    return groups


def count_text(number: int) -> str:
    """Return so many parameters, in words."""
    return f"{number} parameter{'s' if number > 1 else ''}"


def group_tests(groups: Sequence[Sequence[str]], trainable: Sequence[str], name: str) -> list[str]:
    """Return, for each group, a condition that its parameters alone satisfy; empty for a group of all.

    Args:
        groups: the names in each group.
        trainable: all names.
        name: the expression that stands for a parameter's name in the condition.
    """
    found: list[str] = []
    for names in groups:
        if set(names) == set(trainable):
            found.append("")
            continue
        others = set(trainable) - set(names)
        found.append(next(_conditions(names, others, name)))
    return found


def _conditions(names: Sequence[str], others: set[str], name: str) -> Iterator[str]:
    for end in (True, False):
        mine, theirs = ({_part(n, end=end) for n in side} for side in (names, others))
        if not mine & theirs:
            parts = [f'"{p}"' for p in sorted(mine)]
            split = f'{name}.rpartition(".")[2]' if end else f'{name}.partition(".")[0]'
            yield f"{split} == {parts[0]}" if len(parts) == 1 else f"{split} in ({', '.join(parts)})"
    yield (
        f"{name} in {list(names)!r}"
        if len(names) <= len(others) or len(names) <= _FIRST
        else (f"{name} not in {sorted(others)!r}")
    )


def _part(name: str, *, end: bool) -> str:
    return name.rpartition(".")[2] if end else name.partition(".")[0]
