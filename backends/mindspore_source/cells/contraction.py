"""From dataflow back to nested calls: what each module's `construct` takes, does and returns.

The body of a call is its own operators and the calls made in it, in topological order. A call that cannot be
one step of its caller (data goes out of it and comes back in) is dissolved into the caller.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

import networkx as nx

from ....ir import DOMAIN, Constant, Graph, Operator, Parameter, Value
from ....ir.composites.recurrent import TABLE as RECURRENT_TABLE
from ..lowering.lower_control_flow import REGION, home, is_region, regions
from ..lowering.split_shared_layers import refill, split_stateless

Item = tuple[str, int]
"""("op", operator key) or ("call", call key)."""


@dataclass
class Body:
    """One call of a module: its steps in order and the values that go in and out."""

    call: int
    module: int
    items: list[Item]
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)


class Contraction:
    """The bodies of all calls of a graph.

    Args:
        graph: a legalised copy, changed freely: calls are reassigned, empty ones removed.

    Attributes:
        bodies: call key -> body.
        used: keys of modules that run, hold a parameter that is used, or contain one that does.
        idle: keys of modules whose calls compute nothing (identities).
        returned: call of a nested graph -> what that returns.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tree = graph.modules
        self.bodies: dict[int, Body] = {}
        self.returned: dict[int, tuple[Value, ...]] = {}
        self.idle: set[int] = set()
        self._prepare()
        while not self._contract():
            pass
        self.used = self._used()

    # -- preparing -------------------------------------------------------------------------------

    def _prepare(self) -> None:
        graph, tree = self.graph, self.tree
        if tree.root is None:
            tree.add("Net")
        if not tree.calls(0):
            root_call = tree.add_call(0)
            for call in tree.calls():
                if call.parent is None and call.key != root_call:
                    tree.replace_call(call.key, module=call.module, parent=root_call)
        self.root = tree.calls(0)[0].key
        for call in tree.calls():
            if call.parent is None and call.key != self.root:
                tree.replace_call(call.key, module=call.module, parent=self.root)
        held = graph.parameter_paths()
        for parameter in graph.parameters():
            if parameter.key not in held:
                tree.module(0).parameters[parameter.name.replace(".", "_")] = parameter.key
        for node in graph.operators():
            if node.call is None:
                node.call = self.root
        self._unwrap_flatten()
        self._unwrap_recurrent()
        self._adopt()
        self._remove_empty_calls()
        refill(self.tree)
        split_stateless(self.tree)
        for call in tree.calls():
            self._hoist(call.key)

    def _unwrap_flatten(self) -> None:
        """The flatten in MXNet's FullyConnected becomes its caller's, so that the rest is a Dense layer."""
        for node in self.graph.operators():
            if node.op_type != "Flatten" or node.call is None:
                continue
            call = self.tree.call(node.call)
            if call.parent is not None and self.tree.module(call.module).class_name == "FullyConnected":
                node.call = call.parent

    def _unwrap_recurrent(self) -> None:
        """What a recurrent module does around its layer (zero states, one sequence) becomes its caller's."""
        inside: dict[int, list[Operator]] = {}
        for node in self.graph.operators():
            if node.call is not None:
                inside.setdefault(node.call, []).append(node)
        for key, nodes in inside.items():
            call = self.tree.call(key)
            layers = [n for n in nodes if n.domain == DOMAIN and n.op_type in RECURRENT_TABLE.rows]
            if call.parent is None or len(layers) != 1 or self.tree.module(call.module).children:
                continue
            for node in nodes:
                if node is not layers[0]:
                    node.call = call.parent

    def _adopt(self) -> None:
        """An operator on the parameters of one leaf that is never called becomes that leaf's call."""
        tree, graph = self.tree, self.graph
        called = {c.module for c in tree.calls()}
        owners: dict[int, list[int]] = {}
        for module in tree:
            for key in module.parameters.values():
                owners.setdefault(key, []).append(module.key)
        uses: dict[int, int] = {}
        candidates: list[tuple[Operator, int]] = []
        for node in graph.operators():
            keys = [
                v.node for v in graph.operands(node.key) if v and isinstance(graph.node(v.node), Parameter)
            ]
            if not keys or node.call is None:
                continue
            module = tree.call(node.call).module
            module = home(tree, module)
            common = set.intersection(*(set(owners.get(k, [])) for k in keys)) - {module}
            for key in keys:
                uses[key] = uses.get(key, 0) + 1
            if len(common) == 1 and not any(module in owners.get(k, []) for k in keys):
                (leaf,) = common
                if leaf not in called and not tree.module(leaf).children and leaf in self._below(module):
                    candidates.append((node, leaf))
        leaves = [leaf for _, leaf in candidates]
        for node, leaf in candidates:
            if leaves.count(leaf) == 1:
                node.call = tree.add_call(leaf, node.call)

    def _below(self, module: int) -> set[int]:
        found: set[int] = set()
        stack = [module]
        while stack:
            for child in self.tree.module(stack.pop()).children.values():
                if child not in found:
                    found.add(child)
                    stack.append(child)
        return found

    def _remove_empty_calls(self) -> None:
        busy = {c for node in self.graph.operators() for c in self.tree.ancestors(node.call)}
        called: dict[int, bool] = {}
        for call in self.tree.calls():
            called[call.module] = called.get(call.module, False) or call.key in busy
        self.idle = {module for module, runs in called.items() if not runs and module != 0}
        for call in reversed(self.tree.calls()):
            if call.key not in busy and call.key != self.root and not is_region(self.tree, call.module):
                self.tree.remove_call(call.key)

    def _hoist(self, key: int) -> None:
        """Move a call up until the module that makes it contains the module called."""
        call = self.tree.call(key)
        if is_region(self.tree, call.module):
            return
        path = self.tree.path(call.module)
        while call.parent is not None:
            above = self.tree.path(home(self.tree, self.tree.call(call.parent).module))
            up = self.tree.call(call.parent).parent
            if up is None or path.startswith(f"{above}." if above else ""):
                break
            self.tree.replace_call(key, module=call.module, parent=up)
            call = self.tree.call(key)

    def dissolve(self, key: int) -> None:
        """Make the steps of a call steps of its caller; a region only ceases to be one with others."""
        parent = self.tree.call(key).parent
        assert parent is not None
        if is_region(self.tree, self.tree.call(key).module):
            self.tree.replace_call(key, module=self.tree.add(REGION), parent=parent)
            return
        for node in self.graph.operators():
            if node.call == key:
                node.call = parent
        for call in self.tree.calls():
            if call.parent == key:
                apart = is_region(self.tree, call.module)
                module = self.tree.add(REGION) if apart else call.module
                self.tree.replace_call(call.key, module=module, parent=parent)
        self.tree.remove_call(key)

    # -- contracting -----------------------------------------------------------------------------

    def _contract(self) -> bool:
        """One attempt; False when a call had to be dissolved."""
        self.bodies = {}
        self.returned = {
            region.call: region.results for n in self.graph.operators() for region in regions(self.graph, n)
        }
        chains = {n.key: self._chain(n) for n in self.graph.operators()}
        flows: dict[int, nx.DiGraph] = {c.key: nx.DiGraph() for c in self.tree.calls()}
        for key, chain in chains.items():
            for call, item in chain:
                flows[call].add_node(item)
            for source in self.graph.flow.pred[key]:
                for (call, item), (other_call, other) in zip(chain, chains.get(source, []), strict=False):
                    if call != other_call:
                        break
                    if item != other:
                        flows[call].add_edge(other, item)
        for flow in flows.values():
            for component in nx.strongly_connected_components(flow):
                if len(component) > 1:
                    for kind, key in sorted(component):
                        if kind == "call":
                            self.dissolve(key)
                    return False
        for call, flow in flows.items():
            self.bodies[call] = Body(call, self.tree.call(call).module, self._sorted(flow, chains))
        return self._interfaces()

    def _chain(self, node: Operator) -> list[tuple[int, Item]]:
        """(call, item of that call that holds the operator), outermost call first."""
        above = self.tree.ancestors(node.call)
        items: list[Item] = [("op", node.key), *(("call", c) for c in above[:-1])]
        return list(zip(reversed(above), reversed(items), strict=True))

    def _sorted(self, flow: nx.DiGraph, chains: dict[int, list[tuple[int, Item]]]) -> list[Item]:
        """The items in topological order, ties in the order in which the source ran them."""
        first: dict[Item, int] = {}
        for key, chain in chains.items():
            for _, item in chain:
                first[item] = min(first.get(item, key), key)
        waiting = {item: flow.in_degree(item) for item in flow}
        ready = [(first[item], item) for item, degree in waiting.items() if degree == 0]
        heapq.heapify(ready)
        out: list[Item] = []
        while ready:
            _, item = heapq.heappop(ready)
            out.append(item)
            for successor in flow.successors(item):
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    heapq.heappush(ready, (first[successor], successor))
        return out

    def heights(self) -> list[list[int]]:
        """Keys of the called modules, those that call nothing first, then those that call only these."""
        graph: nx.DiGraph = nx.DiGraph()
        for call in self.tree.calls():
            graph.add_node(call.module)
            if call.parent is not None:
                graph.add_edge(call.module, self.tree.call(call.parent).module)
        return [sorted(level) for level in nx.topological_generations(graph)]

    def _interfaces(self) -> bool:
        """Inputs and outputs of every call, the same positions for all calls of a module."""
        calls = self.tree.calls_by_module()
        for level in self.heights():
            for module in level:
                bodies = [self.bodies[c.key] for c in calls[module]]
                odd = self._align(bodies)
                if odd:
                    for body in odd:
                        self.dissolve(body.call)
                    return False
        return True

    def _align(self, bodies: list[Body]) -> list[Body]:
        """Fill in the interfaces of a module's calls; returns the calls that do not fit the first."""
        forms = [self._form(body) for body in bodies]
        odd = [b for b, f in zip(bodies, forms, strict=True) if f != forms[0]]
        if odd:
            return odd
        rows = [self._operands(body) for body in bodies]
        inside = [self._produced(body) for body in bodies]
        groups: dict[tuple[Value, ...], None] = {}
        for column in zip(*rows, strict=True):
            if self._is_external(column[0], bodies[0], inside[0]):
                groups.setdefault(tuple(column))
        for at, body in enumerate(bodies):
            body.inputs = [group[at] for group in groups]
        results = [self._results(body) for body in bodies]
        needed = [
            any(self._leaves(column[at], inside[at]) for at in range(len(bodies)))
            for column in zip(*results, strict=True)
        ]
        for body, values in zip(bodies, results, strict=True):
            body.outputs = [v for v, wanted in zip(values, needed, strict=True) if wanted]
            if body.call == self.root:  # what the graph says, unused inputs and repeated outputs included
                body.inputs = [Value(key) for key in self.graph.inputs]
                body.outputs = [value for _, value in self.graph.outputs]
        return []

    def _form(self, body: Body) -> object:
        """What all calls of one module must share."""
        position: dict[Value, int] = {}
        form: list[object] = []
        for item in body.items:
            operands = [self._position(v, position) for v in self._item_operands(item)]
            if item[0] == "op":
                node = self.graph.operator(item[1])
                stated = [] if regions(self.graph, node) else sorted(node.attributes.items())
                form.append((node.qualified_name, repr(stated), tuple(operands)))
            else:
                form.append((self.tree.call(item[1]).module, tuple(operands)))
            for value in self._item_results(item):
                position[value] = len(position)
        form.append(tuple(self._position(v, position) for v in self.returned.get(body.call, ())))
        return form

    def _position(self, value: Value, position: dict[Value, int]) -> object:
        node = self.graph.node(value.node)
        if isinstance(node, Constant):
            return node.data.content_digest()
        return position.get(value, value if isinstance(node, Parameter) else "outside")

    def _item_operands(self, item: Item) -> list[Value]:
        if item[0] == "call":  # what a region is given, its If or Loop reads
            return [] if item[1] in self.returned else self.bodies[item[1]].inputs
        operands = [v for v in self.graph.operands(item[1]) if v is not None] + self.graph.captured(item[1])
        for region in regions(self.graph, self.graph.operator(item[1])):
            operands += self.bodies[region.call].inputs
            operands = [v for v in operands if v not in region.formals]
        return operands

    def _item_results(self, item: Item) -> list[Value]:
        if item[0] == "call":
            return self.bodies[item[1]].outputs
        return [Value(item[1], i) for i in range(len(self.graph.operator(item[1]).types))]

    def _operands(self, body: Body) -> list[Value]:
        read = [v for item in body.items for v in self._item_operands(item)]
        return read + list(self.returned.get(body.call, ()))

    def _results(self, body: Body) -> list[Value]:
        return [v for item in body.items for v in self._item_results(item)]

    def _produced(self, body: Body) -> set[int]:
        """Keys of the operators in a call and in the calls made in it."""
        found: set[int] = set()
        for kind, key in body.items:
            found |= self._produced(self.bodies[key]) if kind == "call" else {key}
        return found

    def _is_external(self, value: Value, body: Body, inside: set[int]) -> bool:
        node = self.graph.node(value.node)
        if isinstance(node, Parameter):
            return self.holder(body.module, node.key) is None
        return not isinstance(node, Constant) and value.node not in inside

    def _leaves(self, value: Value, inside: set[int]) -> bool:
        return self.graph.is_output(value) or any(user not in inside for user, _ in self.graph.users(value))

    # -- modules ---------------------------------------------------------------------------------

    def holder(self, module: int, parameter: int) -> int | None:
        """The module, `module` itself or one below it, through which `module` reaches a parameter."""
        module = home(self.tree, module)
        if parameter in self.tree.module(module).parameters.values():
            return module
        below = self._below(module)
        found = [m.key for m in self.tree if m.key in below and parameter in m.parameters.values()]
        runs = [m for m in found if self.tree.calls(m)]
        return (runs or found or [None])[0]

    def _used(self) -> set[int]:
        """Modules that the emitted source needs, containers of such modules included."""
        needed = {home(self.tree, body.module) for body in self.bodies.values()} | {0}
        for body in self.bodies.values():
            for value in [*self._operands(body), *body.outputs]:
                if isinstance(self.graph.node(value.node), Parameter):
                    holder = self.holder(body.module, value.node)
                    if holder is not None:
                        needed.add(holder)
        paths = {self.tree.path(m.key): m.key for m in self.tree}
        for key in list(needed):
            for above in prefixes(self.tree.path(key)):
                if above in paths:
                    needed.add(paths[above])
        return needed


def prefixes(path: str) -> Iterable[str]:
    """``a.b.c`` -> ``a.b``, ``a``, and the root's empty path."""
    parts = path.split(".") if path else []
    return (".".join(parts[:n]) for n in range(len(parts) - 1, -1, -1))
