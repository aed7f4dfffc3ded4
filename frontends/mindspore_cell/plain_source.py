"""Code that runs in PyNative and that MindSpore's compiler does not parse, written as what it does parse."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from types import CodeType, FrameType
from typing import Any

from ..class_source import class_source, is_library_class

_SELF = "self"
"""Name of the Cell's own argument that the compiler expects."""


class Attempts:
    """The `try` statements of a net's Cells that raised nothing in a run.

    Args:
        cells: every Cell of the net.
    """

    def __init__(self, cells: Sequence[Any]) -> None:
        self._raised: set[tuple[str, int]] = set()
        self._with_try = {
            name
            for cls in dict.fromkeys(map(type, cells))
            if not is_library_class(cls) and (source := class_source(cls)) is not None
            for function in ast.walk(source.tree)
            if isinstance(function, ast.FunctionDef)
            and any(isinstance(n, ast.Try) for n in ast.walk(function))
            for name in [function.name]
        }

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record, in a with block, the lines at which functions with a `try` see an exception."""
        if not self._with_try:
            yield
            return
        before = sys.gettrace()
        sys.settrace(self._entering)
        try:
            yield
        finally:
            sys.settrace(before)

    def _entering(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        del event, argument
        if frame.f_code.co_name not in self._with_try:
            return None
        frame.f_trace_lines = False
        return self._within

    def _within(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        del argument
        if event == "exception":
            self._raised.add(_place(frame.f_code, frame.f_lineno))
        return self._within

    def raised_in(self, file: str, lines: range) -> bool:
        """Whether an exception was seen at some lines of a file."""
        return any(place == file and line in lines for place, line in self._raised)


def _place(code: CodeType, line: int) -> tuple[str, int]:
    return code.co_filename, line


def written_plainly(tree: Any, file: str, offset: int, attempts: Attempts) -> Any:
    """Return a function's syntax as the compiler takes it; the tree itself where nothing is to be changed.

    The Cell's own argument is called ``self``, and a `try` of which nothing was raised is its body.

    Args:
        tree: of a module that holds one function.
        file: that it is in.
        offset: the line of the file before which the function begins.
        attempts: what the recorded run raised.
    """
    function = tree.body[0] if isinstance(tree, ast.Module) and tree.body else None
    if not isinstance(function, ast.FunctionDef):
        return tree
    own = _own_argument(function)
    plain = any(
        isinstance(node, ast.Try) and not _raised(node, file, offset, attempts) for node in ast.walk(function)
    )
    if not own and not plain:
        return tree
    found = deepcopy(tree)
    if own:
        _Renaming(own).visit(found)
    if plain:
        _Unwrapping(file, offset, attempts).visit(found)
    return found


def _own_argument(function: ast.FunctionDef) -> str:
    """Return the name of the Cell's own argument in its `construct`, where it is another than ``self``."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if function.name != "construct" or not arguments:
        return ""
    name = arguments[0].arg
    taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | {a.arg for a in arguments}
    return "" if _SELF in taken else name


def _raised(node: ast.Try, file: str, offset: int, attempts: Attempts) -> bool:
    first, last = node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
    return attempts.raised_in(file, range(first + offset, last + offset + 1))


class _Renaming(ast.NodeTransformer):
    """Calls a variable ``self``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == self._name:
            node.id = _SELF
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if node.arg == self._name:
            node.arg = _SELF
        return node


class _Unwrapping(ast.NodeTransformer):
    """Puts the body of a `try`, and what follows where nothing is raised, in its place."""

    def __init__(self, file: str, offset: int, attempts: Attempts) -> None:
        self._file, self._offset, self._attempts = file, offset, attempts

    def visit_Try(self, node: ast.Try) -> Any:
        self.generic_visit(node)
        if _raised(node, self._file, self._offset, self._attempts):
            return node
        return [*node.body, *node.orelse, *node.finalbody]
