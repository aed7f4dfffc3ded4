"""Finds Cells whose class leaves paths out of their Parameters' names: auto_prefix=False."""

from __future__ import annotations

import ast
from typing import Any

from ..class_source import ClassSource, class_source


def prefix_left_out(part: Any) -> tuple[ClassSource, ast.Call] | None:
    """(class, call) of the constructor that a Cell's class gives auto_prefix=False; None where it does not.

    Args:
        part: the Cell, or None.
    """
    if getattr(part, "_auto_prefix", True):
        return None
    for cls in type(part).__mro__:
        source = None if cls is object else class_source(cls)
        for node in () if source is None else ast.walk(source.tree):
            if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "__init__":
                continue
            named = [k.value for k in node.keywords if k.arg == "auto_prefix"]
            given = [*named, *node.args][:1]
            if source and given and isinstance(given[0], ast.Constant) and given[0].value is False:
                return source, node
    return None


def expected_name(model: Any, path: str) -> str:
    """Return the name that MindSpore gives a parameter: its path, without what Cells leave out at its head.

    A Cell names its children's parameters by their paths in it when they are inserted, whatever they were
    called before; one with auto_prefix=False leaves them as they are.

    Args:
        model: the Cell.
        path: of the parameter in it.
    """
    while path.count(".") and not getattr(model, "_auto_prefix", True):
        first, _, path = path.partition(".")
        model = getattr(model, "_cells", {}).get(first)
    return path
