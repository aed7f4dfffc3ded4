"""Turns dataflow back into nested calls: what each module's method takes, does and returns.

The body of a call is its own operators and the calls made in it, in topological order. A call is *odd* if it
cannot be one step of its caller (data leaves it and comes back); the pass dissolve-calls removes those.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx

from ....ir import Constant, Graph, Operator, Parameter, Value
from ..operators import ARGUMENT
from ..regions import entries, home_of, is_entry, regions

Item = tuple[str, int]
"""("op", operator key) or ("call", call key)."""

Place = tuple[str, int, int]
"""("op", operator key, slot) or ("call", call key, number of its input): what reads a value."""


Flow = dict[Item, dict[Item, None]]
"""Item of one call -> the items that read what it makes, in the order in which they were found."""


@dataclass
class Body:
    """One call of a module: its steps in order and the values that go in and out."""

    call: int
    module: int
    items: list[Item]
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)


class Contraction:
    """The bodies of all calls of a graph, which stays as it is.

    Args:
        graph: a graph in whose root call all operators are.

    Attributes:
        odd: keys of calls that cannot be one step of their caller; nothing else holds where there are any.
        bodies: call key -> body.
        returned: call of a region -> what that returns.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tree = graph.modules
        self.root = self.tree.calls(0)[0].key
        self.bodies: dict[int, Body] = {}
        self.returned: dict[int, tuple[Value, ...]] = {}
        self._places = {module.key: place for place, module in enumerate(self.tree)}
        self._running = {call.module for call in self.tree.calls()}
        self._holders: dict[int, dict[int, int]] = {}
        self._inside: dict[int, set[int]] = {}
        self.odd = self._contract()

    # -- contracting -----------------------------------------------------------------------------

    def _contract(self) -> list[int]:
        """Fill in the bodies; returns the calls that cannot be one step of their caller."""
        nodes = [n for n in self.graph.operators() if not is_entry(n)]
        self.returned = {region.call: region.results for n in nodes for region in regions(self.graph, n)}
        chains = {n.key: self._chain(n) for n in nodes}
        flows: dict[int, Flow] = {c.key: {} for c in self.tree.calls()}
        first: dict[Item, int] = {}
        for key, chain in chains.items():
            turn = self._turn(key)
            for call, item in chain:
                flows[call].setdefault(item, {})
                first[item] = min(first.get(item, turn), turn)
            for source in self.graph.flow.pred[key]:
                for (call, item), (other_call, other) in zip(chain, chains.get(source, ()), strict=False):
                    if call != other_call:
                        break
                    if item != other:
                        flows[call].setdefault(other, {})[item] = None
        for call, flow in flows.items():
            items = _sort(flow, first)
            if len(items) < len(flow):
                return _find_circle(flow)
            self.bodies[call] = Body(call, self.tree.call(call).module, items)
        return self._interfaces()

    def _turn(self, key: int) -> int:
        """Return when the source ran an operator; that of a distinct argument is its first reader's turn."""
        if not is_argument(self.graph.node(key)):
            return key
        return min((user for user, _ in self.graph.users(Value(key))), default=key)

    def _chain(self, node: Operator) -> list[tuple[int, Item]]:
        """Return, outermost call first, (call, item of that call that holds the operator)."""
        above = self.tree.ancestors(node.call)
        items: list[Item] = [("op", node.key), *(("call", c) for c in above[:-1])]
        return list(zip(reversed(above), reversed(items), strict=True))

    def heights(self) -> list[list[int]]:
        """Return called modules in rows: those that call nothing, those that call only these, and so on."""
        graph: nx.DiGraph = nx.DiGraph()
        for call in self.tree.calls():
            graph.add_node(call.module)
            if call.parent is not None:
                graph.add_edge(call.module, self.tree.call(call.parent).module)
        return [sorted(level) for level in nx.topological_generations(graph)]

    def _interfaces(self) -> list[int]:
        """Fill in inputs and outputs of every call, the same positions for all calls of a module.

        Returns:
            The calls of the first module whose calls do not fit each other.
        """
        calls = self.tree.calls_by_module()
        for level in self.heights():
            for module in level:
                odd = self._align([self.bodies[c.key] for c in calls[module]])
                if odd:
                    return [body.call for body in odd]
        return []

    def _align(self, bodies: list[Body]) -> list[Body]:
        """Fill in the interfaces of a module's calls; returns the calls that do not fit the first."""
        if len(bodies) > 1:
            forms = [self._describe(body) for body in bodies]
            odd = [b for b, f in zip(bodies, forms, strict=True) if f != forms[0]]
            if odd:
                return odd
        rows = [self._operands(body) for body in bodies]
        inside = [self._results_inside(body) for body in bodies]
        groups: dict[tuple[Value, ...], None] = {}  # of values that are one in every call
        for column in zip(*rows, strict=True):
            if self._is_external(column[0], bodies[0], inside[0]):
                groups.setdefault(tuple(column))
        given = self._sort_as_given(bodies, list(groups))
        for at, body in enumerate(bodies):
            body.inputs = [group[at] for group in given]
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

    def _sort_as_given(self, bodies: list[Body], groups: list[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
        """Return the arguments in the source's order, where it is known of all; else in that of their use."""
        calls = [body.call for body in bodies]
        known = [self.source_argument(calls, group) for group in groups]
        if any(argument is None for argument in known):
            return groups
        positions = [position for position, _ in filter(None, known)]
        return [group for _, group in sorted(zip(positions, groups, strict=True), key=lambda pair: pair[0])]

    def source_argument(self, calls: Sequence[int], group: Sequence[Value]) -> tuple[int, str] | None:
        """Return position and name of an argument in the source; None where they are not known.

        Args:
            calls: calls of one module.
            group: the argument's value in each of them.
        """
        found: dict[int, str] | None = None
        for call, value in zip(calls, group, strict=True):
            given = self.graph.origin.arguments.get(call, [])
            stands_for = given_value(self.graph, value)
            own = {at: name for at, (name, each) in enumerate(given) if each == stands_for}
            if own:  # a pass may have put another value into a call
                found = own if found is None else {at: name for at, name in found.items() if at in own}
        return min(found.items(), default=None) if found else None

    def places(self, body: Body, number: int) -> Iterator[tuple[int, int]]:
        """Yield (operator key, slot) of what reads an input of a call, in that call and those made in it."""
        bodies = [self.bodies[call.key] for call in self.tree.calls(body.module)]
        own = next(at for at, each in enumerate(bodies) if each is body)
        wanted = tuple(each.inputs[number] for each in bodies)
        rows = [[read for item in each.items for read in self._reads(item)] for each in bodies]
        for column in zip(*rows, strict=True):
            if tuple(value for value, _ in column) == wanted:
                kind, key, at = column[own][1]
                if kind == "op":
                    yield key, at
                else:
                    yield from self.places(self.bodies[key], at)

    def _describe(self, body: Body) -> object:
        """Return the description that all calls of one module must share."""
        position: dict[Value, int] = {}
        form: list[object] = []
        for item in body.items:
            operands = [self._position(v, position, body.module) for v in self._item_operands(item)]
            if item[0] == "op":
                node = self.graph.operator(item[1])
                form.append((node.qualified_name, repr(sorted(node.attributes.items())), tuple(operands)))
            else:
                form.append((self.tree.call(item[1]).module, tuple(operands)))
            for value in self._item_results(item):
                position[value] = len(position)
        returned = self.returned.get(body.call, ())
        form.append(tuple(self._position(v, position, body.module) for v in returned))
        return form

    def _position(self, value: Value, position: dict[Value, int], module: int) -> object:
        node = self.graph.node(value.node)
        if isinstance(node, Constant):
            return node.data.content_digest()
        own = isinstance(node, Parameter) and self.holder(module, node.key) is not None
        return position.get(value, value if own else "outside")

    def _item_operands(self, item: Item) -> list[Value]:
        return [value for value, _ in self._reads(item)]

    def _reads(self, item: Item) -> list[tuple[Value, Place]]:
        """Return the values that an item reads, each with what reads it."""
        kind, key = item
        if kind == "call":  # what a region is given, its If or Loop reads
            return [] if key in self.returned else self._inputs(key)
        node = self.graph.operator(key)
        marks = range(len(self.graph.operands(key)))[entries(node)]
        reads = [(Value(source, output), slot) for slot, source, output in self.graph.flow.operands(key)]
        found: list[tuple[Value, Place]] = [
            (value, ("op", key, slot)) for value, slot in reads if slot not in marks
        ]
        for region in regions(self.graph, node):
            found += self._inputs(region.call)
            found = [(value, place) for value, place in found if value not in region.state]
        return found

    def _inputs(self, call: int) -> list[tuple[Value, Place]]:
        return [(value, ("call", call, at)) for at, value in enumerate(self.bodies[call].inputs)]

    def _item_results(self, item: Item) -> list[Value]:
        if item[0] == "call":
            return self.bodies[item[1]].outputs
        return [Value(item[1], i) for i in range(len(self.graph.operator(item[1]).types))]

    def _operands(self, body: Body) -> list[Value]:
        read = [v for item in body.items for v in self._item_operands(item)]
        return read + list(self.returned.get(body.call, ()))

    def _results(self, body: Body) -> list[Value]:
        return [v for item in body.items for v in self._item_results(item)]

    def _results_inside(self, body: Body) -> set[int]:
        """Return the keys of the operators in a call and in the calls made in it."""
        found = self._inside.get(body.call)
        if found is None:
            found = self._inside[body.call] = {key for kind, key in body.items if kind == "op"}
            for kind, key in body.items:
                if kind == "call":
                    found |= self._results_inside(self.bodies[key])
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
        """Return the module, `module` itself or one below it, through which `module` reaches a parameter."""
        module = home_of(self.tree, module)
        if parameter in self.tree.module(module).parameters.values():
            return module
        if module not in self._holders:
            self._holders[module] = self._holders_below(module)
        return self._holders[module].get(parameter)

    def _holders_below(self, module: int) -> dict[int, int]:
        """Return parameter -> the first module below that holds it; modules that run come first."""
        found: dict[int, int] = {}
        for key in sorted(self.tree.below(module), key=self._places.__getitem__):
            for parameter in self.tree.module(key).parameters.values():
                known = found.setdefault(parameter, key)
                if known not in self._running and key in self._running:
                    found[parameter] = key
        return found

    @cached_property
    def used(self) -> set[int]:
        """Keys of modules that run, that hold a used parameter, or that contain such a module."""
        needed = {home_of(self.tree, body.module) for body in self.bodies.values()} | {0}
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


def given_value(graph: Graph, value: Value) -> Value:
    """Return the value that a distinct argument of a call stands for; any other value itself."""
    while is_argument(graph.node(value.node)):
        (operand,) = graph.operands(value.node)
        assert operand is not None
        value = operand
    return value


def is_argument(node: object) -> bool:
    """Whether a node only tells an argument of a call from another of the same value."""
    return isinstance(node, Operator) and node.qualified_name == ARGUMENT


def _sort(flow: Flow, first: dict[Item, int]) -> list[Item]:
    """Return the items in topological order, ties in the order in which the source ran them.

    Items in a circle, and those that depend on one, are left out.
    """
    waiting = dict.fromkeys(flow, 0)
    for successors in flow.values():
        for item in successors:
            waiting[item] += 1
    ready = [(first[item], item) for item, degree in waiting.items() if degree == 0]
    heapq.heapify(ready)
    out: list[Item] = []
    while ready:
        _, item = heapq.heappop(ready)
        out.append(item)
        for successor in flow[item]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                heapq.heappush(ready, (first[successor], successor))
    return out


def _find_circle(flow: Flow) -> list[int]:
    """Return the keys of the calls in the first circle of items."""
    behind: dict[Item, Iterable[Item]] = {item: list(successors) for item, successors in flow.items()}
    circles: Iterable[set[Item]] = nx.strongly_connected_components(nx.DiGraph(behind))
    circle = next(found for found in circles if len(found) > 1)
    return [key for kind, key in sorted(circle) if kind == "call"]


def prefixes(path: str) -> Iterable[str]:
    """Yield, for ``a.b.c``, ``a.b``, ``a``, and the root's empty path."""
    parts = path.split(".") if path else []
    return (".".join(parts[:n]) for n in range(len(parts) - 1, -1, -1))
