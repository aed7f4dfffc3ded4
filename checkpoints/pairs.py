"""A plain map of pairs, ``{"layer1.0": "stage1.block0", "fc.weight": "head.weight", "aux": null}``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..ir import ModelError, read_json, require_name


def read_pairs(path: Path | str) -> dict[str, str | None] | None:
    """Return path in the source -> path in the target, None for no counterpart; None for a ``renames.json``.

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


class Renaming:
    """The pairs, applied to names: the longest path that a name is or lies under tells.

    Example:
        >>> renaming = Renaming({"layer1": "stage1", "aux": None})
        >>> renaming("layer1.0.weight"), renaming("layer10.weight"), renaming("aux.bias")
        ('stage1.0.weight', 'layer10.weight', None)
    """

    def __init__(self, pairs: Mapping[str, str | None]) -> None:
        self.pairs = pairs
        self._longest = max(map(len, pairs), default=0)

    def head(self, name: str) -> str | None:
        """Return the path of the map that a name is or lies under; None where there is none."""
        end = len(name)
        while end > 0:
            if end <= self._longest and name[:end] in self.pairs:
                return name[:end]
            end = name.rfind(".", 0, end)
        return None

    def __call__(self, name: str) -> str | None:
        """Return the name on the other side; None for what has no counterpart."""
        head = self.head(name)
        if head is None:
            return name
        new = self.pairs[head]
        return None if new is None else f"{new}{name[len(head) :]}"


def inverted(pairs: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the map from the target to the source."""
    return {new: old for old, new in pairs.items() if new is not None}
