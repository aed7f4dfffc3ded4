"""Branches that were to share parameters and came apart: one structure, names that differ in a prefix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir import Graph, Parameter, PassError
from ..base import Change

_LEAST = 2  # pairs of parameters that make a branch, and not two layers of one name


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch whose parameters have the names of another's behind a prefix.

    Attributes:
        prefix: what its names begin with.
        pairs: (name in the other branch, name in this one), in the graph's order.
    """

    prefix: str
    pairs: tuple[tuple[str, str], ...]


def find_branches(graph: Graph) -> list[Branch]:
    """Return the branches that are copies of other layers under a prefix, by their structure alone.

    All parameters with the prefix must be copies, of the same shapes: two parts of a net that resemble each
    other are none. Frameworks whose models are made of modules tell shared modules from copied ones.
    """
    if graph.origin.has_modules or graph.origin.framework != "mxnet":
        return []
    named: dict[str, Parameter] = {}
    for parameter in graph.parameters():
        named.setdefault(parameter.declared, parameter)
    found: dict[str, list[tuple[str, str]]] = {}
    for name in named:
        for at in range(1, len(name)):
            if (
                not name[at - 1].isalnum()
                and name[at:] in named
                and named[name[at:]].type == named[name].type
            ):
                found.setdefault(name[:at], []).append((name[at:], name))
    return [
        Branch(prefix, tuple(pairs))
        for prefix, pairs in found.items()
        if len(pairs) >= _LEAST
        and len(pairs) == sum(name.startswith(prefix) for name in named)
        and not any(first.startswith(prefix) for first, _ in pairs)
    ]


def report_branch(graph: Graph, branch: Branch) -> Change:
    """Return the finding for a branch, with what to type.

    It is a warning where values are equal, as of a copy, or unknown. Where all differ both were trained, and
    that two nets (a teacher and its student) are to differ is as likely: a note then.
    """
    (first, second), *others = branch.pairs
    more = f" and {len(others)} more pairs" if others else ""
    members = tuple(f"`{a}`, `{b}`" for a, b in branch.pairs)
    apart, known = _count_different(graph, branch)
    what = f"`{first}`, `{second}`{more} are one structure under the prefix `{branch.prefix}`: "
    if known and apart == known:
        what += (
            "two branches of other values, which have trained apart if they were to share their parameters"
        )
    else:
        what += "two branches that train apart, where one was to share its parameters"
        what += f" ({known - apart} of {known} pairs have equal values)" if known else ""
    return Change(
        "TW109",
        what,
        place=second,
        severity="note" if known and apart == known else "warning",
        fixed=False,
        members=members,
        advice=f'`--pass "tie-weights:tie=*+{branch.prefix}*"` of `regraft rewrite`: each pair becomes one',
    )


def _count_different(graph: Graph, branch: Branch) -> tuple[int, int]:
    """Return how many pairs have other values, and how many tell: those that are not one number each."""
    named = {parameter.declared: parameter.data for parameter in graph.parameters()}
    apart = known = 0
    for pair in branch.pairs:
        data = [named[name] for name in pair]
        if any(d.load is None or not d.shape for d in data):
            continue
        one, other = (d.numpy() for d in data)
        equal = np.array_equal(one, other)
        if not equal or (one != one.reshape(-1)[:1]).any():
            known, apart = known + 1, apart + (not equal)
    return apart, known


def expand_pattern(graph: Graph, group: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the groups that one with ``*`` stands for, itself where there is none.

    Raises:
        PassError: E501 when nothing matches, or not every name has its counterparts.
    """
    if not any("*" in name for name in group):
        return [group]
    if not all(name.count("*") == 1 for name in group):
        raise PassError("E501", f"expected one `*` in every name, got `tie={'+'.join(group)}`")
    named = {parameter.declared for parameter in graph.parameters()}
    before, _, after = max(group, key=len).partition("*")
    if not before and not after:
        raise PassError("E501", f"expected a name besides `*`, got `tie={'+'.join(group)}`")
    least = len(before) + len(after)
    parts = sorted(
        name[len(before) : len(name) - len(after)]
        for name in named
        if name.startswith(before) and name.endswith(after) and len(name) > least
    )
    if not parts:
        raise PassError("E501", f"expected parameters called `{before}*{after}`, got none")
    groups = [tuple(name.replace("*", part) for name in group) for part in parts]
    missing = [name for names in groups for name in names if name not in named]
    if missing:
        raise PassError("E501", f"expected a parameter called `{missing[0]}`, got none")
    return groups
