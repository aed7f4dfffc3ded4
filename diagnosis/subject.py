"""The subject of a diagnosis: the live model, its graph, and the file that made it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from ..frontends.class_source import class_source, is_library_class
from ..frontends.python_file import file_module, raised_below
from ..frontends.registry import frontend_of_model
from ..ir import Graph, ModelError


@dataclass(frozen=True)
class Subject:
    """A model and where it comes from.

    Attributes:
        graph: the model's graph, or its static part alone.
        reference: what the user called it, ``file.py:Name``; empty for a live model.
    """

    graph: Graph
    reference: str = ""

    @property
    def model(self) -> Any:
        """The live model; None for one that was read as data."""
        return self.graph.origin.model

    @property
    def framework(self) -> str:
        """The framework's name."""
        return self.graph.origin.framework

    @cached_property
    def file(self) -> Path | None:
        """The user's file that defines the model; None where there is none."""
        return Path(self._named_file) if self._named_file else _file_of(type(self.model))

    @property
    def name(self) -> str:
        """The name in that file: of an instance, a factory or a class."""
        where, _, name = self.reference.rpartition(":")
        return name.partition(".")[0] if where else type(self.model).__name__

    @cached_property
    def module(self) -> ModuleType | None:
        """The executed module of that file."""
        if self._named_file:
            return file_module(self._named_file)
        return sys.modules.get(type(self.model).__module__)

    @cached_property
    def raised(self) -> ModelError | None:
        """The exception that the file raised after the model."""
        return raised_below(self._named_file) if self._named_file else None

    @property
    def _named_file(self) -> str:
        """The file that the reference names; empty where it names none."""
        where = self.reference.rpartition(":")[0]
        return where if where.endswith(".py") else ""

    @cached_property
    def syntax(self) -> ast.Module | None:
        """The file's syntax tree, without docstrings of what it imports."""
        return None if self.file is None else parse_file(self.file)

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """The statements at the top of the file that the model is made of, others left out."""
        return [] if self.syntax is None else belonging(self.syntax, self.name)

    def place(self, line: int) -> str:
        """Return a line of the file, as findings name it."""
        return f"{self.file.name}:{line}" if self.file is not None else ""

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield (path, live Cell or Module) of the model and all that is registered in it, each once."""
        yield from live_parts(self.model)


def live_parts(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, Cell or Module) of a live model and all that is registered in it, each once."""
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", root)] if root is not None else []
    while stack:
        path, part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield path, part
        children = vars(part).get("_cells") or vars(part).get("_modules") or {}
        stack += [
            (f"{path}.{name}" if path else name, child)
            for name, child in reversed(children.items())
            if child is not None
        ]


def is_model_class(value: object) -> bool:
    """Whether a class makes Cells or Modules."""
    return isinstance(value, type) and any(
        cls.__name__ in ("Cell", "Module") and (cls.__module__ or "").startswith(("mindspore.nn", "torch.nn"))
        for cls in value.__mro__
    )


def classes_of(module: ModuleType) -> list[tuple[str, type]]:
    """Return (name, class) of the Cell and Module classes that a file defines itself."""
    return [
        (name, value)
        for name, value in vars(module).items()
        if is_model_class(value) and value.__module__ == module.__name__
    ]


def resolve_name(name: ast.expr, module: ModuleType | None) -> Any:
    """Resolve an expression such as ``nn.Conv2d`` in a module, through modules alone; None if it fails."""
    names: list[str] = []
    while isinstance(name, ast.Attribute):
        names.append(name.attr)
        name = name.value
    if not isinstance(name, ast.Name) or module is None:
        return None
    found: Any = vars(module).get(name.id)
    for each in reversed(names):
        if not isinstance(found, ModuleType):
            return None
        found = getattr(found, each, None)
    return found


def is_model(value: object) -> bool:
    """Whether a value is a live Cell or Module."""
    return not isinstance(value, type) and frontend_of_model(value) is not None


def class_place(cls: type, member: str = "") -> str:
    """Return file and line of a class of the user's, or of a function in it."""
    found: Any = vars(cls).get(member) if member else cls
    try:
        file = inspect.getsourcefile(cls)
        _, line = inspect.getsourcelines(found)
    except (OSError, TypeError):  # made at run time
        return ""
    return f"{Path(file or '').name}:{line}"


def assigned_at(cls: type, attribute: str) -> str:
    """Return file and line of ``self.<attribute> = …`` in a class of the user's or one that it comes from."""
    for each in cls.__mro__:
        found = None if each is object else class_source(each)
        for node in () if found is None else ast.walk(found.tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            if found and any(isinstance(t, ast.Attribute) and t.attr == attribute for t in targets):
                return f"{found.file}:{targets[0].lineno}"
    return ""


def parse_file(path: Path) -> ast.Module | None:
    """Return a file's syntax tree; None if it cannot be read."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def belonging(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the top-level statements of a file that make `name`: its own and those it uses."""
    binding: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for bound in _names_bound(statement):
            binding.setdefault(bound, []).append(statement)
    wanted, found = [name], set()
    while wanted:
        for statement in binding.pop(wanted.pop(), []):
            if id(statement) not in found:
                found.add(id(statement))
                wanted += [n.id for n in ast.walk(statement) if isinstance(n, ast.Name)]
    return [statement for statement in tree.body if id(statement) in found]


def _names_bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, or whose value it changes by calling a method."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return set()
    bound: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound |= _root(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            bound |= _root(node.value.func) if isinstance(node.value.func, ast.Attribute) else set()
    return bound


def _root(node: ast.expr) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _file_of(cls: type) -> Path | None:
    if is_library_class(cls):
        return None
    try:
        found = inspect.getsourcefile(cls)
    except TypeError:
        return None
    return Path(found) if found and Path(found).is_file() else None
