"""Functions that mean something else in PyTorch where an argument is left out."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ...frontends.class_source import class_source
from ...frontends.differences import Difference, with_other_defaults
from ...passes import Change
from ..subject import Subject, resolve_name

CODES = {
    "PT113": "a standard deviation or variance divides by n; torch's by n - 1",
    "PT114": "a function has another default than torch's of the same name",
    "PT121": "a layer or an initializer has another default than torch's",
    "PT115": "requires_grad of a computed tensor changes nothing; torch's ends the gradient there",
}


_Trap = tuple[int, str, str, str]
"""Line, code, what it does against torch's, what to write."""


def find(subject: Subject) -> list[Change]:
    """Return a finding for each call in the user's classes and functions that the model is made of."""
    found: dict[tuple[str, int, str], Change] = {}
    for file, module, tree in _sources(subject):
        for node in ast.walk(tree):
            for line, code, message, advice in _judge(node, module):
                change = Change(code, message, f"{file}:{line}", "warning", fixed=False, advice=advice)
                found.setdefault((file, line, code), change)
    return [found[key] for key in sorted(found)]


def _sources(subject: Subject) -> Iterator[tuple[str, ModuleType | None, ast.AST]]:
    """Yield (file, module, syntax) of the classes of the model's parts, and of what its file has of it."""
    for cls in dict.fromkeys(type(part) for _, part in subject.parts()):
        for each in cls.__mro__:
            source = None if each is object else class_source(each)
            if source is not None:
                yield source.file, sys.modules.get(each.__module__), source.tree
    if subject.file is not None:
        for statement in subject.statements:
            yield subject.file.name, subject.module, statement


def _judge(node: ast.AST, module: ModuleType | None) -> Iterator[_Trap]:
    """Yield the traps of one node."""
    if isinstance(node, ast.Call):
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return
        yield from _judge_call(node, resolve_name(node.func, module), module)
    elif isinstance(node, ast.FunctionDef) and node.name == "construct":
        yield from _judge_assignments(node)


def _judge_call(call: ast.Call, function: Any, module: ModuleType | None) -> Iterator[_Trap]:
    given = {k.arg for k in call.keywords}
    home = getattr(function, "__module__", None) or ""
    if home.startswith("mindspore.") and not home.startswith("mindspore.mint"):
        for row in with_other_defaults(function.__name__):
            if not row.called.startswith("nn.") and not _is_given(
                row, call, function
            ):  # layers are judged live
                yield (
                    call.lineno,
                    row.code,
                    f"`{ast.unparse(call.func)}` {row.here} by default; torch's {row.there}",
                    f"{row.advice or row.write} for torch's",
                )
    elif (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("std", "var")
        and not given & {"ddof", "correction"}
        and len(call.args) < 2
        and _is_computed(call.func.value, module)
    ):
        yield (
            call.lineno,
            "PT113",
            f"`.{call.func.attr}()` of a tensor divides by n; torch's by n - 1",
            "ddof=1 for torch's",
        )


def _is_given(row: Difference, call: ast.Call, function: Any) -> bool:
    """Whether a call gives the argument that a row is about, by name or by place."""
    names = list(inspect.signature(function).parameters.values())
    place = next((i for i, p in enumerate(names) if p.name == row.left_out), len(names))
    if place < len(names) and names[place].kind is inspect.Parameter.KEYWORD_ONLY:
        place = len(names) + len(call.args)
    return any(k.arg == row.left_out for k in call.keywords) or len(call.args) > place


def _is_computed(value: ast.expr, module: ModuleType | None) -> bool:
    """Whether an expression is no module or class of the file, whose function has the name of a method."""
    root = value
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    return not (isinstance(root, ast.Name) and module is not None and root.id in vars(module))


def _judge_assignments(construct: ast.FunctionDef) -> Iterator[_Trap]:
    """Report ``y.requires_grad = False`` in a construct for a tensor that is not a parameter."""
    for node in ast.walk(construct):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if (
                isinstance(target, ast.Attribute)
                and target.attr == "requires_grad"
                and isinstance(target.value, ast.Name)
            ):
                name = target.value.id
                yield (
                    target.lineno,
                    "PT115",
                    f"`{name}.requires_grad` of a computed tensor changes nothing: its gradient passes on",
                    f"{name} = ops.stop_gradient({name})",
                )
