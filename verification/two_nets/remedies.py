"""Advises on the constructor argument that gives a layer another layer's setting, with its line."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...frameworks import framework_of
from ...frameworks.record import same
from ...frontends.class_source import is_library_class
from ...frontends.constructions import construction_of, part_at
from ...ir import Graph, Operator

Arguments = tuple[tuple[str, str], ...]
"""Keyword of a constructor -> its value as source code."""


def arguments_for(
    framework: str, class_name: str, setting: str, value: object, whole: Mapping[str, Sequence[int]] | None
) -> Arguments:
    """The constructor's arguments that give a layer a setting; empty where there are none.

    Args:
        framework: the layer's.
        class_name: its class.
        setting: as `AttributeRow.attribute`.
        value: the setting as the other net has it.
        whole: of a window: setting -> its numbers on every axis, "padding" with all begins before all ends.

    Example:
        >>> arguments_for("mindspore", "Conv2d", "padding", [1, 1], {"padding": [1, 1, 1, 1]})
        (('pad_mode', '"pad"'), ('padding', '1'))
        >>> arguments_for("mindspore", "MaxPool2d", "ceil_mode", 1, None)
        (('pad_mode', '"pad"'), ('ceil_mode', 'True'))
        >>> arguments_for("torch", "BatchNorm2d", "momentum", 0.9, None)
        (('momentum', '0.1'),)
        >>> arguments_for("mindspore", "Conv2dTranspose", "padding", [], {"padding": [1, 1, 0, 0]})
        (('pad_mode', '"pad"'), ('padding', '(1, 0, 1, 0)'))
        >>> arguments_for("torch", "ConvTranspose2d", "padding", [], {"padding": [1, 1, 0, 0]})
        (('padding', '1'), ('output_padding', '1'))
    """
    if whole is not None and setting != "padding" and setting in whole:
        value = same(whole[setting])
    found = framework_of(framework).arguments(
        class_name, setting, value, None if whole is None else whole["padding"]
    )
    return tuple((keyword, _literal(value)) for keyword, value in found.items())


def without_output_padding(graph: Graph, path: str) -> Arguments:
    """The argument that takes the output_padding away that a layer has; none where it has none."""
    value = getattr(part_at(graph.origin.model, path), "output_padding", 0)
    has = any(value) if isinstance(value, (tuple, list)) else bool(value)
    return (("output_padding", "0"),) if has else ()


def function_for(framework: str, setting: str, value: object) -> str:
    """The call of a function that has a setting; empty where none is known."""
    if setting != "approximate" or framework not in ("torch", "mindspore"):
        return ""
    return f'{"ops" if framework == "mindspore" else "F"}.gelu(x, approximate="{value}")'


def spelled(arguments: Arguments) -> str:
    """Arguments as they are written."""
    return ", ".join(f"{name}={text}" for name, text in arguments)


def expression_of(path: str, owner: str = "self") -> str:
    """Return a part of an object, which its methods call `self` or otherwise, as source code.

    Example:
        >>> expression_of("layers.0.conv")
        'self.layers[0].conv'
    """
    steps = [f"[{p}]" if p.isdigit() else f".{p}" for p in path.split(".")]
    return f"{owner}{''.join(steps)}"


def place_of(graph: Graph, path: str, operator: Operator | None = None) -> str:
    """File and line of the user's that makes a layer, or calls a function; empty where nobody knows.

    Args:
        graph: the net's graph.
        path: of the layer.
        operator: the operator that a function is, for which the line of its call is given.
    """
    module = graph.modules.find(path)
    if operator is not None and (module is None or module.children or not path):
        return line_of(operator)
    made = construction_of(graph.origin.model, path)
    if made is not None:
        return made.place
    return "" if module is None else module.location.partition(" ")[0]


def line_of(operator: Operator) -> str:
    """File and line of the user's that an operator comes from; empty where nobody knows."""
    return operator.location.partition(" ")[0]


def body_of(graph: Graph, path: str) -> str:
    """File and line of the method that a module of the user's computes with; empty for a library's."""
    part = part_at(graph.origin.model, path)
    if part is None or is_library_class(type(part)):
        return ""
    method = getattr(type(part), "forward" if graph.origin.framework == "torch" else "construct", None)
    code = getattr(method, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""


def call_in_body(graph: Graph, path: str, name: str) -> str:
    """File and line of the one call of a function in the method that a module of the user's computes with.

    Empty where there is no such call, or more than one.
    """
    part = part_at(graph.origin.model, path)
    if part is None or is_library_class(type(part)):
        return ""
    method = getattr(type(part), "forward" if graph.origin.framework == "torch" else "construct", None)
    code = getattr(method, "__code__", None)
    try:
        lines, first = inspect.getsourcelines(method)  # pyright: ignore[reportArgumentType] - None raises too
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [
        call.lineno + first - 1
        for call in calls
        if (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) == name
    ]
    return f"{Path(code.co_filename).name}:{found[0]}" if code is not None and len(found) == 1 else ""


def _literal(value: object) -> str:
    """A value as it is written: a word in quotes, a number to the digits that people write."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return f"{value:.6g}" if isinstance(value, float) else text
