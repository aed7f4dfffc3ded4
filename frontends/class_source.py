"""The source of a user's class: its file, where it begins, and its syntax tree with the file's lines."""

from __future__ import annotations

import ast
import inspect
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

_LIBRARIES = ("mindspore", "torch")


class ClassSource(NamedTuple):
    """The source of a class.

    Attributes:
        file: the file's name without its folder.
        line: the first line, a decorator's where it has one.
        tree: its syntax tree, with the file's line numbers.
        whole_file: the file with its folder.
    """

    file: str
    line: int
    tree: ast.Module
    whole_file: str


@lru_cache(maxsize=1024)
def class_source(cls: type) -> ClassSource | None:
    """Return the source of a class; None for a framework's own, and for one made at run time."""
    if is_library_class(cls):
        return None
    try:
        file = inspect.getsourcefile(cls)
        lines, first = inspect.getsourcelines(cls)
        is_nested = lines[0][:1].isspace()
        tree = ast.parse(("if True:\n" if is_nested else "") + "".join(lines))
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    ast.increment_lineno(tree, first - 1 - is_nested)
    return ClassSource(Path(file or "").name, first, tree, file or "")


def is_library_class(cls: type) -> bool:
    """Whether a class is a framework's own."""
    return (cls.__module__ or "").partition(".")[0] in _LIBRARIES


def object_name(code: CodeType) -> str:
    """Return the name that a method gives its object: ``self``, as most people call it."""
    return code.co_varnames[0] if code.co_argcount else "self"
