"""Where a construct leaves MindSpore: values that go to NumPy, which no compiled graph can hold."""

from __future__ import annotations

import ast
from typing import Any

from ..class_source import class_source


def lines_to_numpy(cls: Any) -> list[str]:
    """File and line of every ``.asnumpy()`` in the construct of a class, or in its functions called there."""
    for each in cls.__mro__:
        found = class_source(each) if "construct" in vars(each) else None
        if found is not None:
            functions = {n.name: n for n in ast.walk(found.tree) if isinstance(n, ast.FunctionDef)}
            return [f"{found.file}:{line}" for line in _lines(functions, "construct", set())]
    return []


def _lines(functions: dict[str, ast.FunctionDef], name: str, seen: set[str]) -> list[int]:
    """Lines in a function of a class, and in those of the same class that it calls."""
    seen.add(name)
    lines: list[int] = []
    for node in ast.walk(functions[name]) if name in functions else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "asnumpy":
            lines.append(node.func.end_lineno or node.lineno)
        elif isinstance(node.func.value, ast.Name) and node.func.value.id == "self":
            lines += [] if node.func.attr in seen else _lines(functions, node.func.attr, seen)
    return list(dict.fromkeys(lines))
