"""The graph: a networkx dataflow with integer keys, and the module tree over the same nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy

from .dataflow import Dataflow
from .errors import InvalidGraphError
from .modules import ModuleTree
from .nodes import Capture, Constant, Input, Nested, Node, Operator, Parameter, Value
from .origin import Origin
from .provenance import Provenance
from .tensors import TensorData
from .types import Array, TensorType


class Graph(Nested):
    """Dataflow and module tree of one model, or of one branch or body nested in it.

    Attributes:
        name: name in the text form.
        flow: nodes and edges, a networkx.MultiDiGraph. Node keys are integers that never change.
        modules: the module tree, shared by a root graph and the graphs nested in it.
        inputs: keys of the formal inputs, in order.
        captures: keys of the `Capture` nodes, in order of their index (nested graphs only).
        outputs: (name, value) pairs, in order.
        updates: parameter key -> the value that replaces it after a run.
        origin: the model that the graph came from.
        provenance: the source's state before any pass; None until passes run.
    """

    def __init__(self, name: str = "main", modules: ModuleTree | None = None) -> None:
        self.name = name
        self.flow = Dataflow()
        self.modules = ModuleTree() if modules is None else modules
        self.inputs: list[int] = []
        self.captures: list[int] = []
        self.outputs: list[tuple[str, Value]] = []
        self.updates: dict[int, Value] = {}
        self.origin = Origin()
        self.provenance: Provenance | None = None
        self._next = 0
        self._order: tuple[object, list[int]] = (None, [])

    # -- adding nodes --------------------------------------------------------------------------

    @property
    def next_key(self) -> int:
        """The key that the next node gets; keys only grow."""
        return self._next

    def _add(self, node: Node) -> int:
        node.key = self._next
        self._next += 1
        self.flow.add(node.key, node)
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

    def add_constant(self, array: Array | TensorData) -> Value:
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
                self.flow.connect(value.node, key, slot, value.output)
        for index, value in enumerate(captures):
            self.flow.connect(value.node, key, -1 - index, value.output)
        return [Value(key, i) for i in range(len(operator.types))]

    # -- reading -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.flow.number_of_nodes()

    def __contains__(self, key: int) -> bool:
        return key in self.flow

    def node(self, key: int) -> Node:
        """Return the node of that key."""
        return self.flow.node(key)

    def operator(self, key: int) -> Operator:
        """Return the operator of that key."""
        node = self.node(key)
        assert isinstance(node, Operator), node
        return node

    def parameter(self, key: int) -> Parameter:
        """Return the parameter of that key."""
        node = self.node(key)
        assert isinstance(node, Parameter), node
        return node

    def producer(self, value: Value) -> Node:
        """Return the node that produces a value."""
        return self.node(value.node)

    def type_of(self, value: Value) -> TensorType | None:
        """Return the type of a value, or None when unknown."""
        return self.node(value.node).types[value.output]

    def known_type(self, value: Value) -> TensorType:
        """Return the type of a value.

        Raises:
            InvalidGraphError: when it is not known.
        """
        found = self.type_of(value)
        if found is None:
            raise InvalidGraphError(
                "E301", "expected a known type, got none", place=self.describe(value.node)
            )
        return found

    def operands(self, key: int) -> list[Value | None]:
        """Return the inputs of a node by slot; None where an optional one is absent."""
        found: list[Value | None] = []
        for slot, source, output in self.flow.operands(key):
            if slot >= 0:
                found += [None] * (slot - len(found))
                found.append(Value(source, output))
        return found

    def captured(self, key: int) -> list[Value]:
        """Return the values that the nested graphs of an operator capture, by capture index."""
        return [Value(source, output) for slot, source, output in self.flow.operands(key) if slot < 0]

    def users(self, value: Value) -> list[tuple[int, int]]:
        """Return (node key, slot) of every use of a value as an operand or capture, in key order."""
        return [(user, slot) for user, slot, output in self.flow.users(value.node) if output == value.output]

    def is_output(self, value: Value) -> bool:
        """Whether the graph returns the value or updates a parameter with it."""
        return any(v == value for _, v in self.outputs) or value in self.updates.values()

    def is_read(self, value: Value) -> bool:
        """Whether an operator or a nested graph reads the value, or it is an output."""
        return bool(self.users(value)) or self.is_output(value)

    def constant_value(self, value: Value | None) -> Array | None:
        """Return the array of a constant, or None when `value` is not one (or its data is not there)."""
        if value is None:
            return None
        node = self.node(value.node)
        return node.data.numpy() if isinstance(node, Constant) and node.data.load is not None else None

    def parameters(self) -> list[Parameter]:
        """Return the parameters in canonical order."""
        return [n for n in self.nodes() if isinstance(n, Parameter)]

    def operators(self) -> list[Operator]:
        """Return the operators in canonical order, those of nested graphs not included."""
        return [n for n in self.nodes() if isinstance(n, Operator)]

    def input_nodes(self) -> list[Input]:
        """Return the formal inputs in order."""
        return [n for n in map(self.node, self.inputs) if isinstance(n, Input)]

    def parameter_paths(self) -> dict[int, list[str]]:
        """Return parameter key -> every module path that holds it, the canonical one first."""
        return self.modules.parameter_paths()

    def order(self) -> list[int]:
        """Return node keys in canonical order: inputs, then depth first from the outputs, operands first.

        The order depends on the graph alone, not on the order in which it was built; nodes that no output
        needs come last, parameters by module path.

        Raises:
            InvalidGraphError: when the graph has a cycle.
        """
        roots = [v.node for _, v in self.outputs] + [v.node for v in self.updates.values()]
        state = (self.flow.version, roots, [*self.inputs, *self.captures])
        if self._order[0] != state:
            done = dict.fromkeys(state[2])
            for root in roots:
                self._visit(root, done)
            self._order = (state, list(done))
        order = self._order[1]
        return list(order) if len(order) == len(self.flow) else self._with_unused(order)

    def _with_unused(self, order: list[int]) -> list[int]:
        """Return `order` and then the nodes that no output needs: parameters last, by module path."""
        done = dict.fromkeys(order)
        rest = [k for k in self.flow if k not in done]
        for key in sorted(k for k in rest if not isinstance(self.node(k), Parameter)):
            self._visit(key, done)
        rank = {p: i for i, p in enumerate(self.modules.parameter_paths())}
        for key in sorted((k for k in rest if k not in done), key=lambda k: (rank.get(k, len(rank)), k)):
            self._visit(key, done)
        return list(done)

    def _visit(self, root: int, done: dict[int, None]) -> None:
        """Add a node to `done`, depth first, its operands before it."""
        open_: set[int] = set()
        stack = [root]
        while stack:
            key = stack[-1]
            if key in done:
                stack.pop()
            elif key in open_:  # its operands are done
                open_.discard(key)
                done[key] = None
                stack.pop()
            else:
                open_.add(key)
                for _, source, _ in reversed(self.flow.operands(key)):
                    if source in open_:
                        place = self.describe(source)
                        raise InvalidGraphError("E301", "expected an acyclic graph, got a cycle", place=place)
                    if source not in done:
                        stack.append(source)

    def nodes(self) -> list[Node]:
        """Return the nodes in canonical order."""
        return [self.flow.node(key) for key in self.order()]

    def subgraphs(self) -> Iterator[Graph]:
        """Yield this graph and every graph nested in it, outermost first."""
        yield self
        for node in self.flow.all_nodes():
            if isinstance(node, Operator) and node.attributes:
                for nested in node.subgraphs().values():
                    yield from nested.subgraphs()

    def describe(self, key: int) -> str:
        """Describe a node for messages: operator, module call and source line."""
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
        """Make `value` the operand in `slot`; None removes it."""
        for taken, source, _ in self.flow.operands(key):
            if taken == slot:
                self.flow.remove_edge(source, key, key=slot)
        if value is not None:
            self.flow.connect(value.node, key, slot, value.output)

    def replace_uses(self, old: Value, new: Value, *, except_in: Iterable[int] = ()) -> None:
        """Make every use of `old`, graph outputs included, a use of `new`."""
        kept = set(except_in)
        for user, slot in self.users(old):
            if user not in kept:  # an operator of many operands may have many of these edges
                self.flow.remove_edge(old.node, user, key=slot)
                self.flow.connect(new.node, user, slot, new.output)
        if self.is_output(old):
            self.outputs = [(name, new if value == old else value) for name, value in self.outputs]
            self.updates = {p: new if value == old else value for p, value in self.updates.items()}

    def replace_parameter(self, old: int, new: int) -> None:
        """Tie two parameters: `new` takes over the uses and module paths of `old`, which is removed."""
        self.replace_uses(Value(old), Value(new))
        if old in self.updates and new not in self.updates:
            self.updates[new] = self.updates.pop(old)
        gone, kept = self.parameter(old), self.parameter(new)
        kept.absorbed = (*kept.absorbed, gone.declared, *gone.absorbed)
        if self.provenance is not None:
            self.provenance.tied[old] = new
        for module in self.modules:
            for name, parameter in module.parameters.items():
                if parameter == old:
                    module.parameters[name] = new
        self.remove(old)

    def remove(self, *keys: int) -> None:
        """Remove nodes that nothing uses; several at once, as each parameter is looked for in all modules.

        Raises:
            InvalidGraphError: when something uses one: a node, an output, or an update as the parameter
                or as its new value.
        """
        needed = {value.node for _, value in self.outputs}
        needed.update(self.updates, (value.node for value in self.updates.values()))
        for key in keys:
            if self.flow.out_degree(key) or key in needed:
                raise InvalidGraphError(
                    "E301", "expected a node without users, got one in use", place=self.describe(key)
                )
        gone = {key for key in keys if isinstance(self.node(key), Parameter)}
        for module in self.modules if gone else ():
            for name in [n for n, p in module.parameters.items() if p in gone]:
                del module.parameters[name]
        for key in keys:
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
            n for n in self.flow.all_nodes() if n.key not in needed and isinstance(n, (Operator, Constant))
        ]
        self.flow.remove_nodes_from([n.key for n in dead])
        return dead

    def copy(self) -> Graph:
        """Return an independent graph with the same keys; tensor data is shared."""
        return self.copy_within(self.modules.copy())

    def copy_within(self, modules: ModuleTree) -> Graph:
        """Return a copy that belongs to the given module tree; a nested graph shares its root's tree."""
        new = Graph(self.name, modules)
        for node in self.flow.all_nodes():
            new.flow.add(node.key, _twin(node, modules))
        new.flow.take_edges(self.flow)
        new._order = self._order
        new.inputs, new.captures, new.outputs = list(self.inputs), list(self.captures), list(self.outputs)
        new.updates, new.origin, new._next = dict(self.updates), self.origin.copy(), self._next
        new.provenance = None if self.provenance is None else self.provenance.copy()
        return new

    def __str__(self) -> str:
        from .text_form.rendering import render

        return render(self)

    def _repr_html_(self) -> str:
        """Return the layer table, as notebooks show a graph."""
        from .analysis.summary import summarise
        from .outside.markup import folded_markup, table_markup, text_markup

        summary = summarise(self, fold=True)
        rows = [
            (r.path or "(root)", r.class_name, r.output or "", f"{r.parameters:,}", "; ".join(r.notes))
            for r in summary.rows
        ]
        known = [self.origin.reference or self.name, self.origin.title or self.origin.framework]
        title = f"{' · '.join(filter(None, known))}: {summary.trainable:,} trainable parameters"
        table = table_markup(("path", "class", "output", "parameters", "notes"), rows)
        notes = "".join(text_markup(f"note: {note}", "p") for note in self.origin.notes)
        return folded_markup(title, table + notes, opened=len(rows) <= 40)


def _twin(node: Node, modules: ModuleTree) -> Node:
    """Return a copy of a node for a graph with the given module tree."""
    if isinstance(node, Constant):
        return Constant(node.data, node.key)
    if isinstance(node, Parameter):
        return Parameter(**{name: getattr(node, name) for name in Parameter.__slots__})
    if not isinstance(node, Operator):
        return copy(node)
    attributes = {
        name: value.copy_within(modules) if isinstance(value, Graph) else value
        for name, value in node.attributes.items()
    }
    types, call = list(node.types), node.call
    twin = Operator(node.op_type, node.domain, attributes, types, call, node.location, node.hint, node.key)
    twin.upcast = node.upcast
    return twin


def walk_operators(graph: Graph) -> Iterator[tuple[Graph, Operator]]:
    """Yield every operator of a graph and of the graphs nested in it, with the graph that holds it."""
    for part in graph.subgraphs():
        for node in part.operators():
            yield part, node
