"""A layer that is constructed and goes nowhere: an expression alone, or a local name that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType

from ...passes import Change
from ..subject import Subject, is_library_class, is_model_class, resolve_name

CODES = {"TL101": "a layer is constructed and thrown away"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find(subject: Subject) -> list[Change]:
    """Findings for the statements that the model is made of."""
    found: list[Change] = []
    for statement in subject.statements:
        for node, name in _thrown(statement):
            cls = _constructed(node.func, subject.module)
            if cls is None or (
                not is_library_class(cls) and not isinstance(statement, Function | ast.ClassDef)
            ):
                continue
            kept = f" as `{name}`, which nothing reads" if name else ""
            found.append(
                Change(
                    "TL101",
                    f"this `{ast.unparse(node.func)}` is constructed{kept} and thrown away: it is no part of "
                    "the model",
                    place=subject.place(node.lineno),
                    severity="warning",
                    fixed=False,
                    advice="delete the line, or register the layer and call it",
                )
            )
    return found


def _thrown(statement: ast.stmt) -> Iterator[tuple[ast.Call, str]]:
    """(constructor call, local name) of what may be thrown away in a statement at the top of a file."""
    if isinstance(statement, ast.Expr):
        if isinstance(statement.value, ast.Call):
            yield statement.value, ""
        return
    for function in ast.walk(statement):
        if not isinstance(function, Function) or function.name.startswith("test"):
            continue
        read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        read |= {
            n
            for node in ast.walk(function)
            if isinstance(node, ast.Global | ast.Nonlocal)
            for n in node.names
        }
        uses_locals = "locals" in read or "vars" in read
        for node in _statements(function):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                yield node.value, ""
            elif (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id not in read
                and not uses_locals
            ):
                yield node.value, node.targets[0].id


def _statements(function: Function) -> Iterator[ast.stmt]:
    """The statements of a function, without those that expect an exception or belong to an inner one."""
    stack: list[ast.stmt] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.With | ast.AsyncWith | ast.Try | ast.ClassDef | Function):
            continue
        for block in ("orelse", "body"):
            stack += reversed(getattr(node, block, []))


def _constructed(function: ast.expr, module: ModuleType | None) -> type | None:
    """The Cell or Module class that an expression such as ``nn.Conv2d`` names in a module."""
    found = resolve_name(function, module)
    return found if is_model_class(found) else None
