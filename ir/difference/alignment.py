"""Aligns two lists whose items have keys, as a text's lines are aligned."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

_MOST = 1 << 22
"""Product of two lists' lengths up to which all their pairs are looked at."""

_STRETCHES = (1, 4, 16, 64)
"""Numbers of keys in a row that are looked for in longer lists, in which single keys repeat."""


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of places with equal keys, increasing on both sides.

    Keys that both lists have once are anchors (patience diff), so that long lists cost linear time where they
    are alike; between anchors the longest common runs are paired.

    Args:
        a: keys of the first list.
        b: keys of the second.
    """
    pairs: list[tuple[int, int]] = []
    stack = [(0, len(a), 0, len(b))]
    while stack:
        i, end_a, j, end_b = stack.pop()
        while i < end_a and j < end_b and a[i] == b[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        while i < end_a and j < end_b and a[end_a - 1] == b[end_b - 1]:
            end_a, end_b = end_a - 1, end_b - 1
            pairs.append((end_a, end_b))
        if i == end_a or j == end_b:
            continue
        small = (end_a - i) * (end_b - j) <= _MOST
        anchors: list[tuple[int, int]] = []
        for n in _STRETCHES[:1] if small else _STRETCHES:
            anchors = anchors or _anchors(a[i:end_a], b[j:end_b], n)
        if anchors:
            anchors = [(i + x, j + y) for x, y in anchors]
            pairs += anchors
            starts = [(i, j), *((x + 1, y + 1) for x, y in anchors)]
            ends = [*anchors, (end_a, end_b)]
            stack += [(p, r, q, s) for (p, q), (r, s) in zip(starts, ends, strict=True)]
        elif small:
            matcher = SequenceMatcher(None, a[i:end_a], b[j:end_b], autojunk=False)
            for block in matcher.get_matching_blocks():
                pairs += [(i + block.a + k, j + block.b + k) for k in range(block.size)]
    return sorted(pairs)


def gaps(pairs: Sequence[tuple[int, int]], n: int, m: int) -> list[tuple[range, range]]:
    """Return the stretches of two lists of lengths `n` and `m` that lie between aligned pairs."""
    found: list[tuple[range, range]] = []
    i = j = 0
    for x, y in [*pairs, (n, m)]:
        if x > i or y > j:
            found.append((range(i, x), range(j, y)))
        i, j = x + 1, y + 1
    return found


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable], n: int) -> list[tuple[int, int]]:
    """Return the longest increasing list of places at which `n` keys in a row begin that both have once."""
    stretches = [list(zip(*(side[k:] for k in range(n)), strict=False)) for side in (a, b)]
    first, second = map(Counter, stretches)
    places = {key: y for y, key in enumerate(stretches[1]) if second[key] == 1}
    once = [(x, places[key]) for x, key in enumerate(stretches[0]) if first[key] == 1 and key in places]
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for at, (_, y) in enumerate(once):
        k = bisect_left(tails, y)
        before.append(last[k - 1] if k else -1)
        if k == len(tails):
            tails.append(y)
            last.append(at)
        else:
            tails[k], last[k] = y, at
    found: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(once[at])
        at = before[at]
    return found[::-1]
