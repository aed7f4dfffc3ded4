"""Renders a graph for Graphviz: a cluster a module, an edge a value with its type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nodes import Constant, Input, Operator, Parameter
from ..outside.display import shorten_words

if TYPE_CHECKING:
    from ..graph import Graph
    from ..nodes import Value


def render_dot(graph: Graph) -> str:
    """Return a graph in the language of Graphviz; parameters stand in the boxes that read them.

    Nested graphs are boxes of their operators, without their insides.
    """
    paths = graph.parameter_paths()
    lines = ["digraph {", "  node [shape=box, fontname=monospace]; edge [fontname=monospace, fontsize=10];"]
    inside: dict[int | None, list[str]] = {}
    for key in graph.order():
        node = graph.node(key)
        if isinstance(node, Input):
            inside.setdefault(None, []).append(f"n{key} [shape=oval, label={_quote(node.name)}];")
        elif isinstance(node, Operator):
            held = [v.node for v in graph.operands(key) if v and isinstance(graph.node(v.node), Parameter)]
            names = [next(iter(paths.get(p, [])), graph.parameter(p).name) for p in held]
            label = "\n".join([node.qualified_name, *(name.rpartition(".")[2] for name in names)])
            inside.setdefault(node.call, []).append(f"n{key} [label={_quote(label)}];")
    lines += _clusters(graph, inside)
    for key in graph.order():
        if isinstance(graph.node(key), Operator):
            for value in [*graph.operands(key), *graph.captured(key)]:
                if value is not None and not isinstance(graph.node(value.node), (Parameter, Constant)):
                    lines.append(f"  n{value.node} -> n{key} [label={_type(graph, value)}];")
    for at, (name, value) in enumerate(graph.outputs):
        lines.append(f"  o{at} [shape=oval, label={_quote(name)}];")
        lines.append(f"  n{value.node} -> o{at} [label={_type(graph, value)}];")
        if isinstance(graph.node(value.node), (Parameter, Constant)):  # which have no box of their own
            lines.append(f"  n{value.node} [label={_quote(graph.describe(value.node))}];")
    return "\n".join([*lines, "}"]) + "\n"


def _clusters(graph: Graph, inside: dict[int | None, list[str]]) -> list[str]:
    """Return the lines of every call with what it makes, those of the outermost calls first."""
    tree = graph.modules
    made: dict[int | None, list[int]] = {}
    for call in tree.calls():
        made.setdefault(call.parent, []).append(call.key)
    names = tree.call_names()
    lines: list[str] = []
    stack: list[tuple[int | None, int, bool]] = [(None, 1, True)]
    while stack:
        key, depth, opens = stack.pop()
        space = "  " * depth
        if not opens:
            lines.append(f"{space}}}")
            continue
        inner = space
        if key is not None:
            module = tree.module(tree.call(key).module)
            label = f"{names[key].rpartition('#')[0] or '(root)'}: {module.class_name}"
            lines.append(f"{space}subgraph cluster_{key} {{ label={_quote(label)};")
            stack.append((key, depth, False))
            inner = f"{space}  "
        lines += [f"{inner}{line}" for line in inside.get(key, [])]
        stack += [(child, depth + (key is not None), True) for child in reversed(made.get(key, []))]
    return lines


def _type(graph: Graph, value: Value) -> str:
    type_ = graph.type_of(value)
    return _quote("?" if type_ is None else str(type_))


def _quote(text: str) -> str:
    """Return a text as Graphviz's quoted string, whatever it holds."""
    lines = (shorten_words(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'
