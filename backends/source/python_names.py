"""Finds the names that emitted Python uses, in its syntax tree."""

from __future__ import annotations

import ast

from ...ir import BackendError


def names_of(text: str) -> tuple[set[str], set[str]]:
    """Return the names that Python reads (variables, functions, modules; no attributes), and those it calls.

    Raises:
        BackendError: when it is no Python, which is a defect of the backend.

    Example:
        >>> read, called = names_of("y = ops.relu(Tensor(x))")
        >>> sorted(read), sorted(called)
        (['Tensor', 'ops', 'x', 'y'], ['Tensor'])
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BackendError("E602", f"the emitted source does not parse: {error}", place="model.py") from error
    read: set[str] = set()
    called: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            read.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
    return read, called
