"""Finds the line that registers a Cell, in the syntax tree of the classes above it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..class_source import class_source
from .registration import registrations


@dataclass(frozen=True, slots=True)
class CellPlace:
    """A Cell and the Cells above it, whose classes are searched for the line that registered it.

    Attributes:
        owner: the Cell.
        above: the Cell that holds it; None for the root.
    """

    owner: Any
    above: CellPlace | None = None

    def of_class(self) -> str:
        """Return file and line of the owner's class, empty for one of MindSpore's own."""
        found = class_source(type(self.owner))
        return f"{found.file}:{found.line}" if found else ""

    def of_registration(self, name: str) -> str:
        """Return file and line of the Cell's registration as `name`, or of the nearest user's class."""
        place = self.above
        seen = registrations(place.owner).get(name) if place is not None else None
        if seen is not None:
            return seen.place
        while place is not None:
            found = class_source(type(place.owner))
            if found:
                return f"{found.file}:{_registration(found.tree, name) or found.line}"
            place = place.above
        return ""


@lru_cache(maxsize=4096)
def _registration(tree: ast.Module, name: str) -> int | None:
    """Return the line that registers `<name>`, by assignment or insertion; a computed name matches any."""
    computed: int | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == name:
                    return node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr not in ("insert_child_to_cell", "append", "setattr"):
                continue
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value == name:
                return node.lineno
            if (
                not isinstance(first, ast.Constant)
                and node.func.attr == "insert_child_to_cell"
                and computed is None
            ):
                computed = node.lineno
    return computed
