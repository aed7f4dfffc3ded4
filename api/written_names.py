"""Says findings about renamed parameters in the names that the written files have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ..formats.renames import read_renames
from ..passes.base import Change

_CODES = ("RP102", "RP103")
_NOW = re.compile(r"`([^`]+)` is now called `([^`]+)`")


def in_written_names(changes: Sequence[Change], files: Sequence[Path]) -> list[Change]:
    """Return findings with the names of parameters that `renames.json` states: a layer's own.

    A parameter that a pass renamed, and that the target calls as the source does, has no finding.

    Args:
        changes: what the passes found.
        files: the written files.
    """
    path = next((file for file in files if file.name.endswith("renames.json")), None)
    if path is None or not any(change.code in _CODES for change in changes):
        return list(changes)
    rows = cast("list[Mapping[str, Any]]", read_renames(path)["parameters"])
    names = {str(row["source_path"]): str(row["target"]) for row in rows if row["source"] and row["target"]}
    found: list[Change] = []
    for change in changes:
        if change.code not in _CODES:
            found.append(change)
            continue
        stated = _NOW.fullmatch(change.message)
        if stated is None or stated[1] != names.get(stated[2], stated[2]):
            members = tuple(_stated(member, names) for member in change.members)
            place = names.get(change.place, change.place)
            found.append(
                replace(change, message=_stated(change.message, names), members=members, place=place)
            )
    return found


def _stated(text: str, names: Mapping[str, str]) -> str:
    return _NOW.sub(lambda m: f"`{m[1]}` is now called `{names.get(m[2], m[2])}`", text)
