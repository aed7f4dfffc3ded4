"""A plain map of pairs, ``{"layer1.0": "stage1.block0", "fc.weight": "head.weight", "aux": null}``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..ir import ModelError, read_json, require_name


def read_pairs(path: Path | str) -> dict[str, str | None] | None:
    """Path in the source -> path in the target, None for no counterpart; None for a ``renames.json``.

    Raises:
        ModelError: when the file is missing, malformed, or no object of paths (E101).
    """
    document = read_json(Path(path))
    if isinstance(document, dict) and document.get("format") == "regraft-renames":
        return None
    if (
        not isinstance(document, dict)
        or not document
        or not all(v is None or isinstance(v, (str, list, dict)) for v in document.values())
    ):
        raise ModelError(
            "E101",
            "expected an object of paths in the source and in the target",
            place=str(path),
            hint='for example {"layer1.0": "stage1.block0", "fc.weight": "head.weight", "aux": null}',
        )
    document = {k: v for k, v in document.items() if not isinstance(v, (list, dict))}  # `joins.read_fused`
    taken: set[str] = set()
    for source, target in document.items():
        require_name(source, "a path", str(path))
        if target is None:
            continue
        if require_name(target, "a path", str(path)) in taken:
            raise ModelError("E101", f"`{target}` stands for several paths of the source", place=str(path))
        taken.add(target)
    return document


def renamed(name: str, pairs: Mapping[str, str | None]) -> str | None:
    """A name by the longest path of the map that it is or lies under; None for what has no counterpart."""
    end = len(name)
    while end > 0:
        head = name[:end]
        if head in pairs:
            new = pairs[head]
            return None if new is None else f"{new}{name[end:]}"
        end = name.rfind(".", 0, end)
    return name


def inverted(pairs: Mapping[str, str | None]) -> dict[str, str | None]:
    """The map from the target to the source."""
    return {new: old for old, new in pairs.items() if new is not None}
