"""A symbol under construction, and the view of an operator that its emitters have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...formats.params_file import WRITABLE
from ...ir import (
    BackendError,
    Constant,
    Graph,
    Initializer,
    Input,
    Operator,
    Parameter,
    TensorData,
    Value,
)
from ...ir.provenance import source_call_names
from ...ir.table import Table
from ..view import OperatorView

VERSION = 10901
"""The version whose format is written: MXNet 1.9.1."""

Reference = tuple[int, int]
"""(node number, output number)."""


@dataclass(slots=True)
class Node:
    """One node of a symbol: an operator, or a variable when `op` is "null".

    Attributes:
        op: MXNet's operator.
        name: its name; for operators settled at the end.
        attributes: all text.
        inputs: references by slot.
        data: values, for the variables that have any.
        auxiliary: whether it is an auxiliary state.
        call: name of the source's module call in which the operator was.
        subgraphs: symbols that an operator of control flow runs, as the file has them.
    """

    op: str
    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    inputs: list[Reference] = field(default_factory=list)
    data: TensorData | None = None
    auxiliary: bool = False
    call: str = ""
    subgraphs: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


class SymbolBuilder:
    """Adds the nodes of a graph in order; nodes that no output needs are left out at the end."""

    def __init__(self, graph: Graph, names: dict[int, str]) -> None:
        self.graph = graph
        self.names = names
        self.call_names = source_call_names(graph)
        self.nodes: list[Node] = []
        self.values: dict[Value, Reference] = {}
        self.labels: dict[str, Reference] = {}

    def add(self, node: Node) -> int:
        """Add a node; returns its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def add_input(self, node: Input) -> None:
        """Add a variable for an input."""
        attributes = {}
        if node.type.shape is not None:  # MXNet's word for an unknown size is 0
            attributes["__shape__"] = text([d if isinstance(d, int) else 0 for d in node.type.shape])
        if node.type.dtype != "float32" and node.type.dtype in WRITABLE:
            attributes["__dtype__"] = str(WRITABLE.index(node.type.dtype))
        self.values[Value(node.key)] = (self.add(Node("null", node.name, attributes)), 0)

    def add_parameter(self, node: Parameter) -> None:
        """Add a variable for a parameter."""
        name = self.names[node.key]
        attributes = {"__shape__": text(node.data.shape)}
        if node.data.dtype != "float32" and node.data.dtype in WRITABLE:
            attributes["__dtype__"] = str(WRITABLE.index(node.data.dtype))
        law = initializer_text(node.initializer)
        if law is not None:
            attributes["__init__"] = law
        attributes |= self._multipliers(node.key)
        self.values[Value(node.key)] = (self.add(Node("null", name, attributes, data=node.data)), 0)

    def _multipliers(self, key: int) -> dict[str, str]:
        """Return the learning-rate and decay factors that the source gave a parameter."""
        found: dict[str, str] = {}
        for module in self.graph.modules:
            for name in (n for n, k in module.parameters.items() if k == key):
                for factor in ("lr_mult", "wd_mult"):
                    value = module.arguments.get(f"{name}_{factor}")
                    if isinstance(value, str):
                        found[f"__{factor}__"] = value
        return found

    def label(self, name: str) -> Reference:
        """Return the variable of a label."""
        if name not in self.labels:
            self.labels[name] = (self.add(Node("null", name)), 0)
        return self.labels[name]

    def reference(self, value: Value, name: str) -> Reference:
        """Return the node output for a value; a constant becomes a variable with that name."""
        if value not in self.values:
            node = self.graph.producer(value)
            assert isinstance(node, Constant), node
            data = node.data
            if not data.shape:  # MXNet has no arrays without dimensions; one element broadcasts the same
                data = TensorData(data.dtype, (1,), lambda: node.data.numpy().reshape(1))
            attributes = {"__shape__": text(data.shape), "__lr_mult__": "0.0"}
            variable = Node("null", name, attributes, data=data)
            self.values[value] = (self.add(variable), 0)
        return self.values[value]

    def emit(self, operator: Operator, emitter: Emitter) -> None:
        """Add the nodes of one operator."""
        view, before = View(self, operator), len(self.nodes)
        result = emitter(view)
        path = "" if operator.call is None else self.call_names[operator.call]
        for node in self.nodes[before:]:
            node.call = path
        outputs = [result] if isinstance(result, tuple) else result
        for index, reference in enumerate(outputs):
            self.values[Value(operator.key, index)] = reference

    def finish(self) -> tuple[list[Node], list[Reference]]:
        """Return the nodes that the outputs need, with final names, and the heads."""
        heads = [self.reference(value, name) for name, value in self.graph.outputs]
        needed: set[int] = set()
        stack = [index for index, _ in heads]
        while stack:
            index = stack.pop()
            if index not in needed:
                needed.add(index)
                stack += [source for source, _ in self.nodes[index].inputs]
        order = sorted(needed)
        number = {old: new for new, old in enumerate(order)}
        nodes = [self.nodes[i] for i in order]
        for node in nodes:
            node.inputs = [(number[i], output) for i, output in node.inputs]
        _settle_names(nodes)
        return nodes, [(number[i], output) for i, output in heads]


def _settle_names(nodes: list[Node]) -> None:
    """Give every node a name of its own.

    Of several nodes with one name, the one that computes the source node's result keeps it: the first of the
    operator that comes last (earlier ones prepare it, later ones are its twins).
    """
    taken: set[str] = set()
    for node in nodes:
        if node.op == "null":
            node.name = _free(node.name, taken)
            taken.add(node.name)
    operators = [n for n in nodes if n.op != "null"]
    last = {n.name: n.op for n in operators}
    owners: dict[str, Node] = {}
    for node in operators:
        if node.op == last[node.name] and node.name not in taken:
            owners.setdefault(node.name, node)
    taken |= set(owners)
    for node in operators:
        if owners.get(node.name) is node:
            continue
        twin = node.op == last[node.name]
        node.name = _free(node.name if twin else f"{node.name}_{node.op.strip('_').lower()}", taken)
        taken.add(node.name)


def _free(base: str, taken: set[str]) -> str:
    """Return a free name, as close to `base` as possible."""
    name, number = base, 1
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def _base_name(builder: SymbolBuilder, operator: Operator) -> str:
    """Return MXNet's own name for a node that came from there; else its module's path and its operator."""
    if builder.graph.origin.framework == "mxnet":
        return operator.location or operator.hint or f"{operator.op_type.lower()}{operator.key}"
    path = "" if operator.call is None else builder.call_names[operator.call]
    path, _, number = path.rpartition("#")
    return "_".join([*filter(None, [path, number if number != "1" else ""]), operator.op_type.lower()])


class View(OperatorView):
    """An operator as the emitters of MXNet symbols read it."""

    def __init__(self, builder: SymbolBuilder, operator: Operator) -> None:
        super().__init__(builder.graph, operator)
        self.builder = builder
        self.name = _base_name(builder, operator)

    def input(self, slot: int = 0) -> Reference:
        """Return the node output that an operand is."""
        return self.builder.reference(self.value(slot), f"{self.name}_constant{slot}")

    def inputs(self) -> list[Reference]:
        """Return all operands."""
        return [self.input(i) for i in range(len(self.operands))]

    def producer(self, slot: int) -> Operator | None:
        """Return the operator whose first output an operand is, else None."""
        node = self.graph.producer(self.value(slot))
        return node if isinstance(node, Operator) else None

    def node(self, op: str, inputs: Sequence[Reference], **attributes: object) -> Reference:
        """Add a node; attributes that are None are left out."""
        given = {k.rstrip("_"): text(v) for k, v in attributes.items() if v is not None}
        return self.builder.add(Node(op, self.name, given, list(inputs))), 0

    def auxiliary(self, slot: int) -> Reference:
        """Return an operand that must be an auxiliary state."""
        reference = self.input(slot)
        variable = self.builder.nodes[reference[0]]
        if variable.data is None:
            raise self.refused(f"expected operand {slot} to be a parameter")
        variable.auxiliary = True
        return reference

    def find_parameter(self, role: str) -> int | None:
        """Return the key of the parameter that the operator's module holds under a name, or None."""
        if self.operator.call is None:
            return None
        tree = self.graph.modules
        return tree.module(tree.call(self.operator.call).module).parameters.get(role)

    def argument(self, name: str, default: str) -> str:
        """Return the source's constructor argument of the operator's module."""
        if self.operator.call is None:
            return default
        tree = self.graph.modules
        value = tree.module(tree.call(self.operator.call).module).arguments.get(name, default)
        return value if isinstance(value, str) else default

    def static_shape(self, slot: int) -> tuple[int, ...]:
        """Return the shape of an operand, which must be static."""
        if not self.type(slot).is_static:
            raise self.refused_open(f"expected operand {slot} of a static shape, got {self.type(slot)}")
        return super().static_shape(slot)

    def refused(self, message: str, *, hint: str = "") -> BackendError:
        """Return the error for a form that MXNet does not have."""
        return BackendError("E602", message, place=self.graph.describe(self.operator.key), hint=hint)

    def refused_open(self, message: str) -> BackendError:
        """Return the error for a form that MXNet has for static shapes alone."""
        return self.refused(message, hint="give --no-dynamic-batch for static shapes")


Emitter = Callable[[View], "Reference | list[Reference]"]
"""A function that writes one IR operator as MXNet nodes and returns its outputs."""


class EmitterTable(Table[Emitter]):
    """IR operator -> its emitter; one per family file."""

    def direct(self, rows: dict[str, str]) -> None:
        """Register operators that only change their name."""
        for name, target in rows.items():
            self.claim(name, lambda e, target=target: e.node(target, e.inputs()))


def text(value: object) -> str:
    """Return an attribute value as MXNet writes it: ``(3, 3)``, ``(2,)``, ``True``, ``0.001``."""
    if isinstance(value, (list, tuple)):
        return str(tuple(value))
    return str(value)


def initializer_text(law: Initializer | None) -> str | None:
    """Return an ``__init__`` attribute; None for MXNet's own default or one it cannot state."""
    if law is None:
        return None
    number = {k: v for k, v in law.arguments if not isinstance(v, str)}
    if law.law in ("zeros", "ones"):
        return f'["{law.law[:-1] if law.law == "zeros" else "one"}", {{}}]'
    if law.law == "constant":
        return f'["constant", {{"value": {number["value"]!r}}}]'
    if law.law == "uniform" and number["low"] == -number["high"]:
        return f'["uniform", {{"scale": {number["high"]!r}}}]'
    if law.law == "normal" and not number.get("mean"):
        return f'["normal", {{"sigma": {number["std"]!r}}}]'
    return None
