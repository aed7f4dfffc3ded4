"""A layer that is constructed and goes nowhere: an expression alone, or a local name that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType

from ...passes import Change
from ..subject import Subject, is_library_class, is_model_class, resolve_name

CODES = {
    "TL101": "a layer is constructed and thrown away",
    "TL102": "a layer is constructed in each call of the net, with new weights",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find(subject: Subject) -> list[Change]:
    """Return findings for the statements that the model is made of."""
    found = _made_in_calls(subject)
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


def _made_in_calls(subject: Subject) -> list[Change]:
    """Return a finding for each layer with weights that `construct` or `forward` makes and calls at once."""
    method = "forward" if subject.framework == "torch" else "construct"
    functions = [
        node
        for statement in subject.statements
        if isinstance(statement, ast.ClassDef)
        for node in ast.walk(statement)
        if isinstance(node, Function) and node.name == method
    ]
    return [
        Change(
            "TL102",
            f"`{method}` constructs this `{ast.unparse(node.func.func)}` in each call: its weights are new "
            f"every time and never trained",
            place=subject.place(node.lineno),
            severity="error",
            fixed=False,
            advice=f"`self.… = {ast.unparse(node.func)}` in `__init__`, and that name in `{method}`",
        )
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and _has_weights(subject, node.func)
    ]


def _has_weights(subject: Subject, call: ast.Call) -> bool:
    """Whether a call constructs one of the framework's layers that hold weights."""
    cls = _constructed(call.func, subject.module)
    return cls is not None and is_library_class(cls) and cls.__name__.startswith(_WEIGHTED)


_WEIGHTED = (
    *("Dense", "Linear", "Bilinear", "Conv", "BatchNorm", "LayerNorm", "GroupNorm", "Embedding"),
    *("LSTM", "GRU", "RNN", "PReLU", "MultiheadAttention", "Transformer"),
)
"""Prefixes of the names of layers with weights, in both frameworks."""


def _thrown(statement: ast.stmt) -> Iterator[tuple[ast.Call, str]]:
    """Yield (constructor call, local name) of what may be thrown away in a statement at the top of a file."""
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
    """Yield the statements of a function, without guarded ones and those of inner functions."""
    stack: list[ast.stmt] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.With | ast.AsyncWith | ast.Try | ast.ClassDef | Function):
            continue
        for block in ("orelse", "body"):
            stack += reversed(getattr(node, block, []))


def _constructed(function: ast.expr, module: ModuleType | None) -> type | None:
    """Return the Cell or Module class that an expression such as ``nn.Conv2d`` names in a module."""
    found = resolve_name(function, module)
    return found if is_model_class(found) else None
