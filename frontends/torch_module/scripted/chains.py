"""Recognises methods that call each child of a module once, in order, as a Sequential does."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .archive import Function

_MODULE, _VALUE = "module", "value"


def is_chain(function: Function, children: Sequence[str]) -> bool:
    """Whether a method gives its one input to the first child, that one's output to the next, and so on.

    Args:
        function: the method.
        children: names of all children, in order.
    """
    arguments = function.node.args
    if len(arguments.args) != 2 or arguments.defaults or not children:
        return False
    itself, given = (argument.arg for argument in arguments.args)
    names: dict[str, tuple[str, object]] = {given: (_VALUE, 0)}

    def found(node: ast.expr) -> tuple[str, object] | None:
        """Return a child by its name, or a value by the number of children that were called for it."""
        if isinstance(node, ast.Name):
            return names.get(node.id)
        if isinstance(node, ast.Attribute) and _is(node.value, itself):
            return _MODULE, node.attr
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Name):
            of_self = node.func.id == "getattr" and len(node.args) == 2 and _is(node.args[0], itself)
            name = node.args[1] if of_self else None
            return (_MODULE, name.value) if isinstance(name, ast.Constant) else None
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "forward" or node.keywords:
            return None
        called, operands = found(node.func.value), [found(item) for item in node.args]
        if called is None or called[0] != _MODULE or len(operands) != 1 or operands[0] is None:
            return None
        kind, count = operands[0]
        if kind != _VALUE or not isinstance(count, int) or children[count : count + 1] != [called[1]]:
            return None
        return _VALUE, count + 1

    for node in function.node.body:
        if isinstance(node, ast.Return):
            return node.value is not None and found(node.value) == (_VALUE, len(children))
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            return False
        value = found(node.value)
        if value is None:
            return False
        names[node.targets[0].id] = value
    return False


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
