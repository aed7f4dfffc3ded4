"""The lines of a training script that build what it returns: loss, optimizer, the loop's settings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from .constructions import construction_of
from .training_script import RecipeFunction, Script
from .whose_code import is_users_file


def places_of(script: Script, function: RecipeFunction) -> dict[str, str]:
    """Return key of a recipe -> file and line that make its value; "" -> where the recipe returns.

    A Cell, Module or optimizer whose construction nobody watched has the line of its key.

    Args:
        script: what the recipe returned.
        function: the recipe.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not is_users_file(code.co_filename):
        return {}
    file = Path(code.co_filename).name
    found = {key: f"{file}:{line}" for key, line in _lines(function, code)}
    rate = getattr(script.optimizer, "learning_rate", None)
    for key, part in (
        ("loss", script.loss),
        ("optimizer", script.optimizer),
        ("schedule", rate if script.schedule is None else script.schedule),
    ):
        place = _place(part)
        if place:
            found[key] = place
    return found


def _place(part: Any) -> str:
    """Return the line that constructs an object, or that defines a function; empty where nobody knows."""
    try:
        made = construction_of(part)
    except TypeError:  # what cannot be referred to weakly
        return ""
    if made is not None:
        return made.place
    code = getattr(part, "__code__", None)
    if isinstance(code, CodeType) and is_users_file(code.co_filename):
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    return ""


def _lines(function: RecipeFunction, code: CodeType) -> Iterator[tuple[str, int]]:
    """Yield (key, line) of what the recipe's text returns by name, the last one of each counts."""
    yield "", code.co_firstlineno
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 1) + first - 1
        if isinstance(node, ast.Return):
            yield "", line
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, key.lineno + first - 1
        elif isinstance(node, ast.Call):
            yield from ((k.arg, k.value.lineno + first - 1) for k in node.keywords if k.arg is not None)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield from [(str(node.slice.value), line)] if isinstance(node.ctx, ast.Store) else []
