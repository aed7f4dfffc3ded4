"""The names that emitted Python uses, from its syntax tree."""

from __future__ import annotations

import ast

from ....ir import BackendError


def used_names(text: str) -> set[str]:
    """Every name that is read: variables, functions and modules, no attributes."""
    return {node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name)}


def called_names(text: str) -> set[str]:
    """The names that are called, ``Tensor(…)``."""
    calls = (node.func for node in ast.walk(_parsed(text)) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise BackendError("E602", f"the emitted source does not parse: {error}", place="model.py") from error
