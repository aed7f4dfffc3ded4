"""A part of a suite: the cases whose names hold a pattern, or a few of each group."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...ir import UsageError
from .case import Case


def chosen(cases: Sequence[Case], only: str = "", sample: int = 0) -> list[Case]:
    """Return some of the cases, in their order.

    Args:
        cases: of a suite.
        only: regular expression that a case's title holds, such as "^resnet.* -> onnx$".
        sample: how many names of each group, spread over it; 0 for all.

    Raises:
        UsageError: for no expression, or one that no case holds.
    """
    try:
        expression = re.compile(only)
    except re.error as error:
        raise UsageError("E001", f"--only expected a regular expression, got `{only}`: {error}") from error
    found = [case for case in cases if expression.search(case.title)]
    if not found:
        raise UsageError("E001", f"--only expected an expression that a case holds, got `{only}`")
    if not sample:
        return found
    groups: dict[str, list[str]] = {}
    for case in found:
        groups.setdefault(case.group, []).append(case.name)
    kept: set[tuple[str, str]] = set()
    for group, names in groups.items():
        own = list(dict.fromkeys(names))
        every = -(-len(own) // sample)
        kept |= {(group, name) for name in own[::every]}
    return [case for case in found if (case.group, case.name) in kept]
