"""The mutants that are the same function, as listed by hand, each with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

Row = tuple[str, str, str, str, str]
"""Patterns of net, target, kind and place, and the reason."""

LIST = Path(__file__).with_name("equivalent.json")


def unused(keys: Iterable[str]) -> list[str]:
    """Rows of the list that none of these mutants matches: they say nothing any more."""
    left = {json.dumps(row) for row in _listed()}
    for key in keys:
        left -= {json.dumps(row) for row in _listed() if _matches(key, row)}
    return sorted(left)


def equivalence(key: str) -> str:
    """Why a mutant is the right target after all; "" where it is not listed.

    Args:
        key: ``net | target | kind | place``.
    """
    return next((row[-1] for row in _listed() if _matches(key, row)), "")


def _matches(key: str, row: Row) -> bool:
    parts = key.split(" | ", 3)
    return all(fnmatchcase(part, pattern) for part, pattern in zip(parts, row[:4], strict=True))


@cache
def _listed() -> list[Row]:
    rows = json.loads(LIST.read_text(encoding="utf-8"))
    return [(r["net"], r["target"], r["kind"], r["place"].replace("[", "[[]"), r["reason"]) for r in rows]
