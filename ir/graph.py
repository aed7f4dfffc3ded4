"""The graph: a networkx dataflow with integer keys, and the module tree over the same nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast

import networkx as nx
import numpy as np

from .errors import InvalidGraphError
from .modules import ModuleTree
from .nodes import Capture, Constant, Input, Node, Operator, Parameter, Value
from .provenance import Provenance
from .tensors import TensorData
from .types import TensorType


@dataclass(slots=True)
class Origin:
    """Where a graph came from; opaque to the IR, read by verification and by reports.

    Attributes:
        framework: "torch", "mindspore", "mxnet" or "".
        reference: what a person would call the model: ``net.py:Net``, ``x-symbol.json``.
        model: the live model object or path that the framework can run, or None.
        inputs: example inputs by name.
        notes: what a reader of the result should know ("captured in eval mode", …).
    """

    framework: str = ""
    reference: str = ""
    model: object = None
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Graph:
    """Dataflow and module tree of one model, or of one branch or body nested in it.

    Attributes:
        name: name in the text form.
        flow: networkx.MultiDiGraph. Node keys are integers that never change; each has its `Node` under
            "node". An edge's key is the consumer's input slot (negative slots are captures: slot -1-i is
            capture i), its "output" the producer's output number.
        modules: the module tree, shared by a root graph and the graphs nested in it.
        inputs: keys of the formal inputs, in order.
        captures: keys of the `Capture` nodes, in order of their index (nested graphs only).
        outputs: (name, value) pairs, in order.
        updates: parameter key -> the value that replaces it after a run.
        origin: where it came from.
        provenance: the source's state before any pass; None until passes run.
    """

    def __init__(self, name: str = "main", modules: ModuleTree | None = None) -> None:
        self.name = name
        self.flow: nx.MultiDiGraph = nx.MultiDiGraph()
        self.modules = ModuleTree() if modules is None else modules
        self.inputs: list[int] = []
        self.captures: list[int] = []
        self.outputs: list[tuple[str, Value]] = []
        self.updates: dict[int, Value] = {}
        self.origin = Origin()
        self.provenance: Provenance | None = None
        self._next = 0

    # -- adding nodes --------------------------------------------------------------------------

    def _add(self, node: Node) -> int:
        node.key = self._next
        self._next += 1
        self.flow.add_node(node.key, node=node)
        return node.key

    def add_input(self, name: str, type_: TensorType) -> Value:
        """Add a formal input."""
        key = self._add(Input(name, type_))
        self.inputs.append(key)
        return Value(key)

    def add_capture(self, type_: TensorType) -> Value:
        """Add the next capture of a nested graph; its owner must be given the value captured."""
        key = self._add(Capture(len(self.captures), type_))
        self.captures.append(key)
        return Value(key)

    def add_constant(self, array: np.ndarray | TensorData) -> Value:
        """Add a constant tensor."""
        return Value(self._add(Constant(array if isinstance(array, TensorData) else TensorData.of(array))))

    def add_parameter(self, parameter: Parameter) -> Value:
        """Add a parameter node; register it with `modules.module(k).parameters[name] = value.node`."""
        return Value(self._add(parameter))

    def add_operator(
        self,
        operator: Operator,
        inputs: Sequence[Value | None] = (),
        captures: Sequence[Value] = (),
    ) -> list[Value]:
        """Add an operator; its `types` say how many outputs it has. Returns them all.

        Nothing is checked or inferred here: `Builder.op` is the checked way.
        """
        key = self._add(operator)
        for slot, value in enumerate(inputs):
            if value is not None:
                self.flow.add_edge(value.node, key, key=slot, output=value.output)
        for index, value in enumerate(captures):
            self.flow.add_edge(value.node, key, key=-1 - index, output=value.output)
        return [Value(key, i) for i in range(len(operator.types))]

    # -- reading -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.flow.number_of_nodes()

    def __contains__(self, key: int) -> bool:
        return key in self.flow

    def node(self, key: int) -> Node:
        """The node of that key."""
        return self.flow.nodes[key]["node"]

    def operator(self, key: int) -> Operator:
        """The operator of that key."""
        node = self.node(key)
        assert isinstance(node, Operator), node
        return node

    def parameter(self, key: int) -> Parameter:
        """The parameter of that key."""
        node = self.node(key)
        assert isinstance(node, Parameter), node
        return node

    def producer(self, value: Value) -> Node:
        """The node that produces a value."""
        return self.node(value.node)

    def type_of(self, value: Value) -> TensorType | None:
        """The type of a value, or None when unknown."""
        return self.node(value.node).types[value.output]

    def known_type(self, value: Value) -> TensorType:
        """The type of a value.

        Raises:
            InvalidGraphError: when it is not known.
        """
        found = self.type_of(value)
        if found is None:
            raise InvalidGraphError(
                "E301", "expected a known type, got none", place=self.describe(value.node)
            )
        return found

    def _in_edges(self, key: int) -> Any:
        """(producer, consumer, slot, output number) of every edge into a node."""
        return self.flow.in_edges(key, keys=True, data="output")  # pyright: ignore[reportArgumentType]

    def operands(self, key: int) -> list[Value | None]:
        """The inputs of a node by slot; None where an optional one is absent."""
        slots = {slot: Value(source, output) for source, _, slot, output in self._in_edges(key) if slot >= 0}
        return [slots.get(slot) for slot in range(max(slots) + 1)] if slots else []

    def captured(self, key: int) -> list[Value]:
        """The values that the nested graphs of an operator capture, by capture index."""
        slots = {
            -1 - slot: Value(source, output) for source, _, slot, output in self._in_edges(key) if slot < 0
        }
        return [slots[i] for i in range(len(slots))]

    def users(self, value: Value) -> list[tuple[int, int]]:
        """(node key, slot) of every use of a value as an operand or capture, in key order."""
        return sorted(
            (user, slot)
            for _, user, slot, output in self.flow.out_edges(value.node, keys=True, data="output")
            if output == value.output
        )

    def is_output(self, value: Value) -> bool:
        """Whether the graph returns the value or updates a parameter with it."""
        return any(v == value for _, v in self.outputs) or value in self.updates.values()

    def constant_value(self, value: Value | None) -> np.ndarray | None:
        """The array of a constant, or None when `value` is not one (or its data is not there)."""
        if value is None:
            return None
        node = self.node(value.node)
        return node.data.numpy() if isinstance(node, Constant) and node.data.load is not None else None

    def parameters(self) -> list[Parameter]:
        """The parameters in canonical order."""
        return [n for n in self.nodes() if isinstance(n, Parameter)]

    def operators(self) -> list[Operator]:
        """The operators in canonical order, those of nested graphs not included."""
        return [n for n in self.nodes() if isinstance(n, Operator)]

    def input_nodes(self) -> list[Input]:
        """The formal inputs in order."""
        return [n for n in map(self.node, self.inputs) if isinstance(n, Input)]

    def parameter_paths(self) -> dict[int, list[str]]:
        """Parameter key -> every module path that holds it, the canonical one first."""
        return self.modules.parameter_paths()

    def order(self) -> list[int]:
        """Node keys in canonical order: inputs, then depth first from the outputs, operands first.

        The order depends on the graph alone, not on the order in which it was built; nodes that no output
        needs come last, parameters by module path.

        Raises:
            InvalidGraphError: when the graph has a cycle.
        """
        done: dict[int, None] = dict.fromkeys([*self.inputs, *self.captures])
        adjacency = self.flow.pred
        open_: set[int] = set()

        def visit(root: int) -> None:
            stack: list[tuple[int, bool]] = [(root, False)]
            while stack:
                key, expanded = stack.pop()
                if expanded:
                    open_.discard(key)
                    done[key] = None
                elif key not in done:
                    if key in open_:
                        raise InvalidGraphError(
                            "E301", "expected an acyclic graph, got a cycle", place=self.describe(key)
                        )
                    open_.add(key)
                    stack.append((key, True))
                    slots = sorted(
                        ((slot if slot >= 0 else 1 << 30 | -slot), source)
                        for source, edges in adjacency[key].items()
                        for slot in cast("list[int]", list(edges))
                    )
                    for _, source in reversed(slots):
                        if source in open_:
                            raise InvalidGraphError(
                                "E301", "expected an acyclic graph, got a cycle", place=self.describe(source)
                            )
                        if source not in done:
                            stack.append((source, False))

        for _, value in self.outputs:
            visit(value.node)
        for value in self.updates.values():
            visit(value.node)
        rest = [k for k in self.flow if k not in done]
        if rest:
            rank = {p: i for i, p in enumerate(self.modules.parameter_paths())}
            sinks = [k for k in rest if not isinstance(self.node(k), Parameter)]
            for key in sorted(sinks):
                visit(key)
            for key in sorted((k for k in rest if k not in done), key=lambda k: (rank.get(k, len(rank)), k)):
                visit(key)
        return list(done)

    def nodes(self) -> list[Node]:
        """The nodes in canonical order."""
        table = self.flow.nodes
        return [table[key]["node"] for key in self.order()]

    def subgraphs(self) -> Iterator[Graph]:
        """This graph and every graph nested in it, outermost first."""
        yield self
        for _, data in self.flow.nodes(data="node"):
            if isinstance(data, Operator):
                for nested in data.subgraphs().values():
                    yield from nested.subgraphs()

    def describe(self, key: int) -> str:
        """A short description of a node for messages: operator, module call and source line."""
        node = self.node(key)
        if isinstance(node, Operator):
            known = node.call is not None and self.modules.has_call(node.call)
            where = f" @ {self.modules.call_name(node.call)}" if known and node.call is not None else ""
            line = f" ({node.location})" if node.location else ""
            return f"`{node.qualified_name}`{where}{line}"
        if isinstance(node, Parameter):
            return f"parameter `{node.name}`"
        if isinstance(node, Input):
            return f"input `{node.name}`"
        return f"{type(node).__name__.lower()} %{key}"

    # -- changing ------------------------------------------------------------------------------

    def set_operand(self, key: int, slot: int, value: Value | None) -> None:
        """Make `value` the operand in `slot` (None removes it). The one way in which edges change."""
        for source, edges in list(self.flow.pred[key].items()):
            if slot in edges:
                self.flow.remove_edge(source, key, key=slot)
        if value is not None:
            self.flow.add_edge(value.node, key, key=slot, output=value.output)

    def replace_uses(self, old: Value, new: Value, *, except_in: Iterable[int] = ()) -> None:
        """Make every use of `old`, graph outputs included, a use of `new`."""
        kept = set(except_in)
        for user, slot in self.users(old):
            if user not in kept:
                self.set_operand(user, slot, new)
        self.outputs = [(name, new if value == old else value) for name, value in self.outputs]
        self.updates = {p: new if value == old else value for p, value in self.updates.items()}

    def replace_parameter(self, old: int, new: int) -> None:
        """Tie: every use and every module path of parameter `old` becomes one of `new`; `old` is removed."""
        self.replace_uses(Value(old), Value(new))
        gone, kept = self.parameter(old), self.parameter(new)
        kept.absorbed = (*kept.absorbed, gone.declared, *gone.absorbed)
        if self.provenance is not None:
            self.provenance.tied[old] = new
        for module in self.modules:
            for name, parameter in module.parameters.items():
                if parameter == old:
                    module.parameters[name] = new
        self.remove(old)

    def remove(self, key: int) -> None:
        """Remove a node that nothing uses.

        Raises:
            InvalidGraphError: when something uses it.
        """
        node = self.node(key)
        if self.flow.out_degree(key) or any(v.node == key for _, v in self.outputs):
            raise InvalidGraphError(
                "E301", "expected a node without users, got one in use", place=self.describe(key)
            )
        if isinstance(node, Parameter):
            for module in self.modules:
                for name in [n for n, p in module.parameters.items() if p == key]:
                    del module.parameters[name]
        if key in self.inputs:
            self.inputs.remove(key)
        self.flow.remove_node(key)

    def remove_dead(self) -> list[Node]:
        """Remove operators and constants that no output needs; returns them. Parameters and inputs stay."""
        needed: set[int] = set()
        stack = [v.node for _, v in self.outputs] + [v.node for v in self.updates.values()]
        while stack:
            key = stack.pop()
            if key not in needed:
                needed.add(key)
                stack.extend(self.flow.pred[key])
        dead: list[Node] = [
            n
            for k, n in self.flow.nodes(data="node")
            if k not in needed and isinstance(n, (Operator, Constant))
        ]
        self.flow.remove_nodes_from([n.key for n in dead])
        return dead

    def copy(self) -> Graph:
        """An independent graph with the same keys; tensor data is shared."""
        return self._copy(self.modules.copy())

    def _copy(self, modules: ModuleTree) -> Graph:
        new = Graph(self.name, modules)
        for key, node in self.flow.nodes(data="node"):
            twin = copy(node)
            if isinstance(twin, Operator):
                twin.types = list(twin.types)
                twin.attributes = {
                    name: value._copy(modules) if isinstance(value, Graph) else value
                    for name, value in twin.attributes.items()
                }
            new.flow.add_node(key, node=twin)
        new.flow.add_edges_from(list(self.flow.edges(keys=True, data=True)))  # pyright: ignore[reportArgumentType]
        new.inputs, new.captures, new.outputs = list(self.inputs), list(self.captures), list(self.outputs)
        new.updates, new.origin, new._next = dict(self.updates), self.origin, self._next
        new.provenance = None if self.provenance is None else self.provenance.copy()
        return new

    def __str__(self) -> str:
        from .text import render

        return render(self)


def walk_operators(graph: Graph) -> Iterator[tuple[Graph, Operator]]:
    """Every operator of a graph and of the graphs nested in it, with the graph that holds it."""
    for part in graph.subgraphs():
        for node in part.operators():
            yield part, node
