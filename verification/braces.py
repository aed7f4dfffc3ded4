"""Folds numbers in paths together, as a shell would write them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def braced(paths: Iterable[str]) -> list[str]:
    """Return paths with numbers folded together, as a shell would write them.

    Example:
        >>> braced(["stem", "layer1.0.conv1", "layer1.0.conv2", "layer1.1.conv1", "layer1.1.conv2"])
        ['stem', 'layer1.{0,1}.conv{1,2}']
    """
    items = [tuple((part,) for part in re.split(r"(\d+)", path)) for path in dict.fromkeys(paths)]
    merged = True
    while merged:
        merged = False
        for place in range(max(map(len, items), default=0) - 1, 0, -1):
            groups: dict[object, list[tuple[tuple[str, ...], ...]]] = {}
            for item in items:
                free = place < len(item) and place % 2  # the parts at odd places are the numbers
                key = (item[:place], item[place + 1 :]) if free else item
                groups.setdefault(key, []).append(item)
            if len(groups) < len(items):
                merged = True
                items = [
                    group[0]
                    if len(group) == 1
                    else (
                        *group[0][:place],
                        tuple(n for item in group for n in item[place]),
                        *group[0][place + 1 :],
                    )
                    for group in groups.values()
                ]
    return ["".join(_alternatives(part) for part in item) for item in items]


def _alternatives(part: tuple[str, ...]) -> str:
    if len(part) == 1:
        return part[0]
    numbers = sorted(map(int, part))
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{{{numbers[0]}..{numbers[-1]}}}"
    return f"{{{','.join(map(str, numbers))}}}"
