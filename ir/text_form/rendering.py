"""The text form: `render` writes a graph, `parse` (parsing.py) reads it back; the two are exact inverses."""

from __future__ import annotations

import json
import re

import numpy as np

from ..graph import Graph
from ..modules import Module, ModuleCall
from ..nodes import Capture, Constant, Input, Operator, Parameter, Value
from ..types import TensorType, dtype_name, is_array, is_sequence

_SMALL = 64  # constants up to this many elements are written out, longer ones as a digest
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


def render(graph: Graph) -> str:
    """Return the text of a graph: canonical order, sorted attributes, no values of parameters."""
    return "\n".join(_Renderer(graph).lines()) + "\n"


def render_lines(graph: Graph, key: int) -> tuple[list[str], int]:
    """Return the lines of a graph's text, and the index of the line that defines node `key`."""
    renderer = _Renderer(graph)
    lines = renderer.lines()
    return lines, renderer.line_of[key]


def quote(text: str) -> str:
    """Return a string literal of the text form (JSON's)."""
    return json.dumps(text, ensure_ascii=False)


class _Renderer:
    def __init__(self, graph: Graph, indent: str = "", outer: _Renderer | None = None) -> None:
        self.graph = graph
        self.indent = indent
        self.call_names = graph.modules.call_names() if outer is None else outer.call_names
        self.order = graph.order()
        self.names = self._name_nodes()
        self.line_of: dict[int, int] = {}

    def _name_nodes(self) -> dict[int, str]:
        names: dict[int, str] = {}
        taken: set[str] = set()
        number = 0
        for key in self.order:
            node = self.graph.node(key)
            hint = node.name if isinstance(node, Input) else node.hint if isinstance(node, Operator) else ""
            if not hint or not _WORD.match(hint) or hint in taken:
                hint, number = str(number), number + 1
            taken.add(hint)
            names[key] = hint
        return names

    def ref(self, value: Value | None) -> str:
        if value is None:
            return "_"
        return f"%{self.names[value.node]}" + (f":{value.output}" if value.output else "")

    def lines(self) -> list[str]:
        graph, pad = self.graph, self.indent + "  "
        out = [f"{self.indent}graph {graph.name} {{"]
        if not self.indent:
            out += [pad + line for line in self._module_lines()]
        for key in self.order:
            self.line_of[key] = len(out)
            out += self._node_lines(key, pad)
        out += [f"{pad}return {quote(name)} = {self.ref(value)}" for name, value in graph.outputs]
        out += [
            f"{pad}update %{self.names[p]} = {self.ref(value)}"
            for p, value in graph.updates.items()  # in their order, on which that of the nodes depends
        ]
        out.append(f"{self.indent}}}")
        return out

    def _module_lines(self) -> list[str]:
        tree = self.graph.modules
        if tree.root is None:
            return []
        lines: list[str] = []
        printed: set[tuple[int, str]] = set()
        calls = tree.calls_by_module()
        for path, key, parent in tree.registrations():
            name, module = path.rpartition(".")[2], tree.module(key)
            if path == tree.path(key):
                lines.append(self._module_line(path, module, calls))
            elif parent is not None and (parent, name) not in printed:
                lines.append(f"module {quote(path)} = {quote(tree.path(key))}")
            if parent is not None:
                printed.add((parent, name))
        return lines

    def _module_line(self, path: str, module: Module, calls: dict[int, list[ModuleCall]]) -> str:
        tree = self.graph.modules
        text = f"module {quote(path)} {module.class_name}"
        if module.namesake:
            text += " namesake"
        if module.container:
            text += f" [{module.container}]"
        if module.parameters:
            inner = ", ".join(f"{n}=%{self.names[p]}" for n, p in module.parameters.items())
            text += f" {{{inner}}}"
        parent = tree.find(path.rpartition(".")[0]) if path else None
        implied = None
        if parent is not None:
            above = calls[parent.key]
            implied = above[0].key if above else None
        parents = [c.parent for c in calls[module.key]]
        if not parents:
            text += " never called" + " but in training" * module.in_training
        elif parents != [implied]:
            text += f" called from [{', '.join(self._call_ref(p) for p in parents)}]"
        return text

    def _call_ref(self, call: int | None) -> str:
        return "_" if call is None else quote(self.call_names[call])

    def _node_lines(self, key: int, pad: str) -> list[str]:
        node = self.graph.node(key)
        head = f"{pad}%{self.names[key]} = "
        if isinstance(node, Input):
            return [f"{head}input {quote(node.name)} : {node.type}"]
        if isinstance(node, Capture):
            return [f"{head}capture {node.index} : {node.type}"]
        if isinstance(node, Constant):
            return [f"{head}const {self._constant(node)} : {node.data.type}"]
        if isinstance(node, Parameter):
            return [f"{head}param {quote(node.name)} : {node.type}{self._parameter_facts(node)}"]
        return self._operator_lines(node, head, pad)

    def _operator_lines(self, node: Operator, head: str, pad: str) -> list[str]:
        text = head + f"{node.qualified_name}({', '.join(map(self.ref, self.graph.operands(node.key)))})"
        captured = self.graph.captured(node.key)
        if captured:
            text += f" captures ({', '.join(map(self.ref, captured))})"
        nested = node.subgraphs()
        plain = {k: v for k, v in node.attributes.items() if k not in nested}
        if plain:
            text += " {" + ", ".join(f"{k}={literal(v)}" for k, v in sorted(plain.items())) + "}"
        text += " : " + ", ".join("?" if t is None else str(t) for t in node.types)
        if node.call is not None:
            text += f" @ {self._call_ref(node.call)}"
        text += " upcast" if node.upcast else ""
        if not nested:
            return [text]
        lines = [text + " with"]
        for name, graph in sorted(nested.items()):
            body = _Renderer(graph, pad + "  ", self).lines()
            lines += [f"{pad}  {name} =", *body]
        return [*lines, f"{pad}end"]

    @staticmethod
    def _constant(node: Constant) -> str:
        size = int(np.prod(node.data.shape, dtype=np.int64))
        if node.data.load is None or size > _SMALL:
            return f"<{node.data.content_digest()}>"
        return literal(node.data.numpy().tolist())

    @staticmethod
    def _parameter_facts(node: Parameter) -> str:
        facts: list[str] = []
        if node.declared != node.name:
            facts.append(f"declared={quote(node.declared)}")
        if node.absorbed:
            facts.append(f"absorbed={literal(node.absorbed)}")
        if node.initializer is not None:
            facts.append(f"init={node.initializer}")
        if node.role:
            facts.append(f"role={quote(node.role)}")
        if node.is_buffer:
            facts.append("buffer")
        if not node.trainable:
            facts.append("frozen")
        return f" {{{', '.join(facts)}}}" if facts else ""


def literal(value: object) -> str:
    """Return a Python-like literal that parses back to the same value."""
    if is_array(value):
        return f"tensor {literal(value.tolist())} : {TensorType(dtype_name(value.dtype), value.shape)}"
    if isinstance(value, str):
        return quote(value)
    if is_sequence(value):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, bytes):
        return quote(value.decode("utf-8", "replace"))
    return repr(value)  # int, float (inf and nan included), bool, complex
