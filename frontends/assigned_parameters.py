"""Assignments to what a part of a part holds, ``self.b.weight = self.a.weight``, in a model's classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .class_source import class_source


@dataclass(frozen=True, slots=True)
class AssignedParameter:
    """One assignment to an attribute of a part of `self`, or of a model that a file makes.

    Attributes:
        path: of what is assigned, below `self`.
        value: path of what it is assigned, below the same; empty where that is another expression.
        text: what is assigned as source code, ``self.b.weight``.
        file: the file's name; empty for one that was not read from a class.
        line: of the assignment.
        whole_file: the file with its folder; likewise.
    """

    path: str
    value: str
    text: str
    file: str
    line: int
    whole_file: str = ""


def assigned_in_class(cls: type) -> Iterator[AssignedParameter]:
    """Yield the assignments below `self` in a class of the user's, and in those that it comes from."""
    for each in cls.__mro__:
        source = None if each is object else class_source(each)
        if source is not None:
            for found in assigned_in(source.tree, own=True):
                path, value, text, line = found
                yield AssignedParameter(path, value, text, source.file, line, source.whole_file)


def assigned_in(tree: ast.AST, *, own: bool) -> Iterator[tuple[str, str, str, int]]:
    """Yield (path, path of the value or nothing, text, line) of assignments two attributes deep or more.

    Args:
        tree: the syntax of a class or of a file.
        own: whether they begin at `self`, or at any other name.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        root, path = _chain(target)
        if "." not in path or not isinstance(target, ast.Attribute) or (root == "self") is not own:
            continue
        begins, value = _chain(node.value)
        yield path, value if begins == root else "", ast.unparse(target), node.lineno


def _chain(node: ast.expr) -> tuple[str, str]:
    """Return the first name of a chain of attributes and numbers, and its path; empty for no chain."""
    steps: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            steps.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if type(node.slice.value) is not int or node.slice.value < 0:
                return "", ""
            steps.append(str(node.slice.value))
            node = node.value
        elif isinstance(node, ast.Name):
            return node.id, ".".join(reversed(steps))
        else:
            return "", ""
