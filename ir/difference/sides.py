"""One of two graphs that are compared: modules, what each holds and runs, digests to pair them by."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from ..graph import Graph
from ..modules import Module
from ..nodes import Capture, Constant, Input, Node, Operator, Parameter, Value
from ..tensors import TensorData
from ..text_form.rendering import literal
from ..types import is_array

SMALL = 64
"""Elements of a constant up to which its values are shown."""


class Step(NamedTuple):
    """An operator of a module, where it runs.

    Attributes:
        part: the graph that holds it: the root, or one nested in an operator.
        node: the operator.
    """

    part: Graph
    node: Operator

    @property
    def key(self) -> tuple[int, int]:
        """Its identity among the operators of all parts."""
        return id(self.part), self.node.key


class Side:
    """A graph, indexed; a flat one as if all of it were in the root.

    Attributes:
        graph: the graph.
        modules: every module by its key, each once, in the order of registration.
        children: module key -> name and key of the modules below it that are not also elsewhere before.
        steps: module key -> its own operators, those of nested graphs included, in canonical order.
        held: module key -> name and key of the parameters that it holds.
    """

    def __init__(self, graph: Graph, *, flat: bool = False) -> None:
        self.graph = graph
        self.modules: dict[int, Module] = {}
        self.children: dict[int, dict[str, int]] = {}
        for path, key, parent in graph.modules.registrations():
            if key not in self.modules and not (flat and path):
                self.modules[key] = graph.modules.module(key)
                self.children[key] = {}
                if parent is not None:
                    self.children[parent][path.rpartition(".")[2]] = key
        self.steps: dict[int, list[Step]] = {key: [] for key in self.modules}
        self._owner: dict[int, tuple[Graph, int]] = {}
        self._add_steps(graph)
        self.held: dict[int, dict[str, int]] = {key: {} for key in self.modules}
        taken: set[int] = set()
        for key, module in self.modules.items():
            for name, parameter in module.parameters.items():
                if parameter not in taken:
                    taken.add(parameter)
                    self.held[key][name] = parameter
        for parameter in graph.parameters():
            if parameter.key not in taken:
                self.held[0][parameter.name] = parameter.key
        self._structures: dict[int, str] = {}
        self._contents: dict[int, str] = {}
        self._digests: dict[int, str] = {}

    def _add_steps(self, part: Graph) -> None:
        for node in part.operators():
            call = node.call
            known = call is not None and part.modules.has_call(call)
            module = part.modules.call(call).module if known and call is not None else 0
            self.steps[module if module in self.steps else 0].append(Step(part, node))
            for nested in node.subgraphs().values():
                self._owner[id(nested)] = part, node.key
                self._add_steps(nested)

    def path(self, module: int) -> str:
        """Return the canonical path of a module."""
        return self.graph.modules.path(module)

    def class_of(self, module: int) -> str:
        """Return the name of a module's class."""
        return self.modules[module].class_name

    def resolve(self, part: Graph, value: Value) -> tuple[Graph, Value, Node]:
        """Return what a value of a part is, looked up outside where the part captures it."""
        node = part.node(value.node)
        while isinstance(node, Capture):
            part, owner = self._owner[id(part)]
            value = part.captured(owner)[node.index]
            node = part.node(value.node)
        return part, value, node

    def data_digest(self, parameter: int) -> str:
        """Return the digest of a parameter's values; its type alone where the values are not there."""
        if parameter not in self._digests:
            data = self.graph.parameter(parameter).data
            self._digests[parameter] = str(data.type) if data.load is None else data.content_digest()
        return self._digests[parameter]

    def structure(self, module: int) -> str:
        """Return a digest of a module's class, of what it holds and runs, and of the modules below it."""
        return self._digest_of(module, self._structures, values=False)

    def content(self, module: int) -> str:
        """Return a digest of structure and values."""
        return self._digest_of(module, self._contents, values=True)

    def _digest_of(self, root: int, known: dict[int, str], *, values: bool) -> str:
        order, stack = list[int](), [root]
        while stack:
            module = stack.pop()
            if module not in known:
                order.append(module)
                stack += self.children[module].values()
        for module in reversed(order):
            held = [
                (name, self.data_digest(key) if values else str(self.graph.parameter(key).type))
                for name, key in self.held[module].items()
            ]
            below = [(name, known[child]) for name, child in self.children[module].items()]
            steps = [operator_key(step.node) for step in self.steps[module]]
            text = repr((self.modules[module].class_name, sorted(held), steps, below))
            known[module] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return known[root]

    def operands(self, step: Step) -> list[tuple[Graph, Value, Node] | None]:
        """Return the operands of an operator, each as `resolve` has it."""
        found = step.part.operands(step.node.key)
        return [None if value is None else self.resolve(step.part, value) for value in found]


def operator_key(node: Operator) -> Hashable:
    """Return the operator and its attributes, without graphs and what is usual."""
    told = {name: text for name, text in attributes_of(node).items() if not node.is_usual(name)}
    return node.qualified_name, tuple(sorted(told.items()))


def attributes_of(node: Operator) -> dict[str, str]:
    """Return the attributes of an operator as text, with the defaults of those that are not given."""
    names = {*node.signature.attributes, *node.attributes} - {*node.subgraphs()}
    found: dict[str, str] = {}
    for name in sorted(names):
        value = node.attributes.get(name)
        if value is None:
            spec = node.signature.attributes.get(name)
            value = None if spec is None else spec.default
        if value is not None:
            found[name] = _attribute_text(value)
    return found


def constant_text(node: Constant) -> str:
    """Return the values of a small constant, or the type and digest of a larger one."""
    data = node.data
    if data.load is None or int(np.prod(data.shape, dtype=np.int64)) > SMALL:
        return f"{data.type} <{data.content_digest()[:8]}>"
    return literal(data.numpy().tolist())


def operand_key(found: tuple[Graph, Value, Node] | None) -> Hashable:
    """Return what an operand is, by which operators are told apart before any is paired."""
    if found is None:
        return None
    _, value, node = found
    if isinstance(node, Constant):
        return "constant", constant_text(node)
    if isinstance(node, Input):
        return "input", node.name
    if isinstance(node, Parameter):
        return "parameter", str(node.type)
    assert isinstance(node, Operator)
    return "operator", node.qualified_name, value.output


def _attribute_text(value: object) -> str:
    if isinstance(value, TensorData):
        value = value.numpy()
    if is_array(value) and value.size > SMALL:
        return f"<{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:8]}>"
    return literal(value)
