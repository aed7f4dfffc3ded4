"""From MindIR to the IR: one table of lowerings, and the walk that applies it in the right module calls."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from ...frameworks.mindspore import dropped_share
from ...ir import Builder, Graph, UnsupportedError, Value
from ...ir.dims import Size
from ..arguments import is_list
from .batch import BatchFill
from .branching.closures import Again, Choice, Closure, Held, Mixed, Selection, is_callable
from .branching.control_flow import ControlFlow
from .branching.functions import PASSED, Functions
from .call import Call
from .cell_calls import Attribution, CallFinder, Marker
from .complex_numbers import lower
from .debugging import KINDS, KeptPrints
from .mindir import INVOKE, MONAD, Node, Program
from .operators import TABLE
from .racing import find_racing, warn_of_racing
from .recording import CellCall
from .refusals import explain
from .tree import is_namesake

_TUPLES = ("MakeTuple", "make_list", "MakeList")
_ITEMS = ("TupleGetItem", "ListGetItem", "list_getitem")
_SUMMARIES = ("TensorSummary", "ScalarSummary", "ImageSummary", "HistogramSummary", "TensorDump")
_ORDER = (
    "UpdateState",
    "Generator",
    "Print",
    "Assert",
    *_SUMMARIES,
)  # what is told to the user is no part of what is computed
CONTROL = ("Switch", "switch_layer", "Partial", INVOKE)
"""Operators of control flow in MindIR."""
_STRUCTURE = {"Constant", *_TUPLES, *_ITEMS, *PASSED, *_ORDER, *CONTROL}


class Lowerer:
    """Builds the dataflow of one program.

    Args:
        graph: with inputs, parameters, modules and calls already in it.
        program: what MindSpore compiled.
        environment: value name -> Value, for the program's inputs and parameters.
        attribution: node -> recorded call.
        finder: finds the calls of the nodes of functions; it may add to the next three.
        calls: the recorded calls.
        call_keys: their keys in the module tree, in the same order.
        places: per recorded call, where its code is, for messages.
        prints: keeps what is printed and the like; None to leave it out.
    """

    def __init__(
        self,
        graph: Graph,
        program: Program,
        environment: dict[str, Any],
        attribution: Attribution,
        finder: CallFinder,
        calls: Sequence[CellCall],
        call_keys: Sequence[int],
        places: Sequence[str],
        prints: KeptPrints | None = None,
    ) -> None:
        self.graph, self.program, self.prints = graph, program, prints
        self.finder, self.calls, self.call_keys, self.places = finder, calls, call_keys, places
        self.builder = Builder(graph)
        self.functions = Functions(program)
        self.control_flow = ControlFlow(self)
        self.constants = {n.name: n.value for n in program.all_nodes() if n.op == "Constant"}
        self.users = Counter(
            i for n in program.all_nodes() if n.op not in ("UpdateState", "Load") for i in n.inputs
        )
        self.reads = results_read(program)
        self.arguments: dict[int, dict[int, tuple[str, Value]]] = {}
        self.root = _Run(self, program.nodes, program.output, environment, attribution, self.builder)

    def run(self) -> Any:
        """Lower every node; returns what the program returns: a Value, a constant, or nested tuples of them.

        Raises:
            UnsupportedError: for a form of control flow that is neither If nor Loop, or listing every
                primitive without a lowering.
        """
        nodes = [n for n in self.program.all_nodes() if n.op not in {*_STRUCTURE, *_REFUSED, *_ASSIGNED}]
        TABLE.require(((n.op, self.root.place_of(n)) for n in nodes), explain=explain)
        racing = find_racing(self.program.all_nodes(), self.constants)
        self.graph.origin.unreliable += [warn_of_racing(self.root.place_of(n)) for n in racing]
        found = self.root.run()
        for call, given in self.arguments.items():
            self.graph.origin.arguments[call] = [given[position] for position in sorted(given)]
        return found

    def lower(self, run: _Run, node: Node) -> Any:
        """Return what a node gives in a run of what it is in."""
        return run.lower(node)

    def enter(self, name: str, arguments: Sequence[Any], builder: Builder, base: int) -> _Run:
        """Return a run of a function with its arguments, in the call `base`."""
        function = self.functions.by_name[name]
        values = {formal: a for (formal, _), a in zip(function.inputs, arguments, strict=True)}
        attribution = self.finder.attribute_function(function, base)
        return _Run(self, function.nodes, function.output, values, attribution, builder, name)

    def place(self, base: int) -> str:
        """Return where the code of a call is, for messages."""
        return self.places[base]

    def name_argument(self, call: int, value: Value, cell: Any, position: int) -> None:
        """Note how the source calls an argument of a Cell that is not MindSpore's own."""
        if _is_users(cell):
            names = inspect.getfullargspec(type(cell).construct).args[1:]
            if position < len(names):
                self.arguments.setdefault(call, {})[position] = (names[position], value)

    def as_output(self, found: Any) -> Value:
        """Return a value for a graph output that may be a constant."""
        if isinstance(found, Value):
            return found
        call = Call(Node("output", "output"), [found], self.builder, cell=None, place="output", users=[0])
        if isinstance(found, (np.ndarray, Size, BatchFill, bool, int, float)):
            return call.value(0)
        raise UnsupportedError("E203", f"expected tensors as results, got `{found!r}`")


class _Run:
    """One run of a function, or of the program itself: its values by name, in the graph that is built.

    Args:
        lowerer: of the program.
        nodes: in execution order.
        output: name of what is returned.
        values: inputs, parameters and arguments; those of another graph are held.
        attribution: node -> recorded call.
        builder: of the graph.
        function: its name; empty for the program itself.
    """

    def __init__(
        self,
        lowerer: Lowerer,
        nodes: Sequence[Node],
        output: str,
        values: dict[str, Any],
        attribution: Attribution,
        builder: Builder,
        function: str = "",
    ) -> None:
        self.lowerer, self.nodes, self.output, self.values = lowerer, nodes, output, values
        self.attribution, self.builder, self.function = attribution, builder, function
        self._fills: dict[tuple[str, int | None], Value] = {}
        self._states: dict[str, int] = {}  # parameter that is assigned -> its key

    def run(self) -> Any:
        """Run all nodes; returns the result."""
        for node in self.nodes:
            if node.op != "Constant":
                self.values[node.name] = self.lowerer.lower(self, node)
        return self.read(self.output)

    def run_until_choice(self) -> Choice:
        """Run all nodes before the call that the result comes from; returns what is called."""
        last = self.lowerer.functions.last_call(self.function)
        assert last is not None
        for node in self.nodes:
            if node is last:
                break
            if node.op != "Constant":
                self.values[node.name] = self.lowerer.lower(self, node)
        return self.read(last.inputs[0])

    def read(self, name: str) -> Any:
        """Return a value of the graph that is built, or a Python value."""
        if name in self.values:
            found = self.values[name]
            if isinstance(found, Held):
                found = self.values[name] = found.within(self.builder)
            return found
        if name in self.lowerer.functions.by_name:
            return Closure(name)
        if name in self.lowerer.constants:
            return self.lowerer.constants[name]
        root = self.lowerer.root
        return Held(root.values[name], root.builder).within(self.builder)

    def held(self, name: str) -> Any:
        """Return a value that no graph has to capture before it is read."""
        found = self.values.get(name)
        if isinstance(found, Held):
            return found
        found = self.read(name)
        return Held(found, self.builder) if isinstance(found, Value) or is_list(found) else found

    def place_of(self, node: Node) -> str:
        """Return where a node's code is, for messages."""
        return self.lowerer.places[self._number(node)]

    def _number(self, node: Node) -> int:
        return self.attribution.of_node.get(node.name, 0)

    def lower(self, node: Node) -> Any:
        """Return what a node gives."""
        marker = Marker.of(node)
        if marker is not None:
            return self._boundary(node, marker)
        if node.op in CONTROL:
            return self._control(node)
        if node.op in _ORDER:
            if self.lowerer.prints is not None and node.op in KINDS:
                self._keep_print(node, self.lowerer.prints)
            return MONAD
        if node.op in PASSED:
            return self.read(node.inputs[0])
        operands = [self.read(i) for i in node.inputs]
        if node.op in _TUPLES and not any(isinstance(o, (Again, Mixed)) for o in operands):
            return tuple(operands)
        if node.op in _ASSIGNED:
            return self._assign(node, operands)
        if node.op in ("raise", "ListAppend"):
            raise _refused(node.op, self.place_of(node))
        if any(isinstance(o, (Again, Mixed)) or is_callable(o) for o in operands):
            raise UnsupportedError(
                "E203",
                f"expected a recursive call to be the last step of its function, got `{node.op}` of it",
                place=self.place_of(node),
                hint="write a loop, `while`, in place of recursion",
            )
        if node.op in _ITEMS:
            return self._item(node, operands[0], operands[1])
        number, lowerer = self._number(node), self.lowerer
        with self.builder.inside(lowerer.call_keys[number], self.place_of(node)):
            call = Call(
                node,
                operands,
                self.builder,
                cell=lowerer.calls[number].cell,
                place=self.place_of(node),
                users=[lowerer.users[i] for i in node.inputs],
                reads=lowerer.reads.get(node.name, ()),
            )
            return call.finish(lower(call, TABLE))

    def _assign(self, node: Node, operands: Sequence[Any]) -> Value:
        """Give a parameter another value: later reads have it, and so does the next run."""
        held, graph = operands[0], self.lowerer.graph
        if self.builder.graph is not graph or not isinstance(held, Value) or self.function:
            raise UnsupportedError(
                "E203",
                f"expected no `{node.op}` in a branch, a loop or a function of its own",
                place=self.place_of(node),
                hint="compute the new value with `ops.select`, and assign it once in `construct`",
            )
        name = node.inputs[0]
        key = self._states.setdefault(name, held.node)
        number = self._number(node)
        with self.builder.inside(self.lowerer.call_keys[number], self.place_of(node)):
            call = Call(node, operands[:2], self.builder, cell=None, place=self.place_of(node), users=[0, 0])
            new = call.operand(1, graph.known_type(held).dtype)
            combined = _ASSIGNED[node.op]
            new = call.op(combined, held, new) if combined else new
            if graph.known_type(new).shape != graph.known_type(held).shape:
                new = call.op("Expand", new, call.op("Shape", held))
        graph.updates[key] = self.values[name] = new
        return new

    def _keep_print(self, node: Node, prints: KeptPrints) -> None:
        """Record a print at its place."""
        number, lowerer = self._number(node), self.lowerer
        with self.builder.inside(lowerer.call_keys[number], self.place_of(node)):
            operands = [found for i in node.inputs if (found := self.read(i)) is not MONAD]
            operands = [self._size(node, found) for found in operands]
            prints.add(node.op, operands, self.builder, self.place_of(node))

    def _size(self, node: Node, found: Any) -> Any:
        """Return a size of the batch as a value, and a tuple that holds one."""
        parts = found if is_list(found) else [found]
        if not any(isinstance(part, (Size, BatchFill)) for part in parts):
            return found
        return Call(node, [found], self.builder, cell=None, place="", users=[0]).value(0)

    def _control(self, node: Node) -> Any:
        """Return a function with arguments, a choice of such, or a call."""
        if node.op == "Partial":
            callee = self.read(node.inputs[0])
            assert isinstance(callee, Closure), callee
            given = tuple(self.held(i) for i in node.inputs[1:])
            return Closure(callee.function, (*callee.arguments, *given))
        number = self._number(node)
        with self.builder.inside(self.lowerer.call_keys[number], self.place_of(node)):
            if node.op == "Switch":
                chosen = [
                    v if is_callable(v := self.held(i)) else Held(self.read(i), self.builder)
                    for i in node.inputs[1:3]
                ]
                choice = Choice(Held(self.read(node.inputs[0]), self.builder), *chosen)
                if any(map(is_callable, chosen)):
                    return choice
                return self.lowerer.control_flow.choose(choice, self.builder, number)
            if node.op == "switch_layer":
                return Selection(
                    Held(self.read(node.inputs[0]), self.builder), tuple(self.read(node.inputs[1]))
                )
            given = [self.held(i) for i in node.inputs[1:]]
            callee = self.read(node.inputs[0])
            return self.lowerer.control_flow.call(callee, given, self.builder, number)

    def _item(self, node: Node, sequence: Sequence[Any], index: int) -> Any:
        """Return one result of several; lowerings leave out those at the end that training alone reads."""
        if not -len(sequence) <= index < len(sequence):
            nodes = self.lowerer.program.all_nodes()
            maker = next((n.op for n in nodes if n.name == node.inputs[0]), "a sequence")
            raise UnsupportedError(
                "E203",
                f"expected result {index} of `{maker}` to be unread",
                place=self.place_of(node),
                hint="leave it out of the model, or add it to the lowering (docs/en/guides/extending.md)",
            )
        return sequence[index]

    def _boundary(self, node: Node, marker: Marker) -> Any:
        """Markers vanish; a Dropout call, which evaluation leaves empty, gets its operator back."""
        value = self.read(node.inputs[0])
        number, lowerer = self._number(node), self.lowerer
        cell = lowerer.calls[number].cell
        if marker.is_entry and isinstance(value, BatchFill) and number and _is_users(cell):
            value = self._make_in_caller(node.inputs[0], value, number)
        if marker.is_entry and isinstance(value, Value) and number and not self.function:
            lowerer.name_argument(lowerer.call_keys[number], value, cell, marker.position)
        if marker.is_entry or type(cell).__name__ not in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"):
            return value
        if is_namesake(type(cell)):  # what the user's own class computes is in the graph already
            return value
        ratio = dropped_share(cell)
        if not ratio or not isinstance(value, Value):
            return value
        with self.builder.inside(lowerer.call_keys[number], lowerer.places[number]):
            if type(cell).__name__ != "Dropout":
                return self.builder.op("regraft.FeatureDropout", value, ratio=ratio)
            return self.builder.op("Dropout", value, self.builder.constant(np.float32(ratio), "float32"))

    def _make_in_caller(self, name: str, fill: BatchFill, number: int) -> Value:
        """Return the value of a fill that a Cell is given: its caller makes it, once for all readers."""
        lowerer = self.lowerer
        caller = lowerer.graph.modules.call(lowerer.call_keys[number]).parent
        if (name, caller) not in self._fills:
            with self.builder.inside(caller):
                made = Call(
                    Node(name, "fill"),
                    [fill],
                    self.builder,
                    cell=None,
                    place=lowerer.places[number],
                    users=[0],
                )
                self._fills[name, caller] = made.value(0)
        return self._fills[name, caller]


def _is_users(cell: object) -> bool:
    """Whether a Cell is none of MindSpore's own."""
    return type(cell).__module__.partition(".")[0] != "mindspore"


_ASSIGNED = {"Assign": "", "AssignAdd": "Add", "AssignSub": "Sub"}
"""Primitive that gives a parameter a value -> how that is made of the parameter's own and the operand."""

_REFUSED = {
    "raise": (
        "expected no `raise` that tensors decide on",
        "check before the call, or compute a flag with `ops` and return it",
    ),
    "ListAppend": (
        "expected no list that grows in a loop",
        "write into a tensor of fixed size, or loop over a Python range",
    ),
}
"""Primitive that Python statements become and no graph holds -> what was expected, and what to write."""


def _refused(op: str, place: str) -> UnsupportedError:
    expected, hint = _REFUSED[op]
    return UnsupportedError("E203", f"{expected}, got one", place=place, hint=hint)


def seeds_of(program: Program) -> set[str]:
    """Return the parameters that are states of random generators: who draws by them is refused by itself."""
    given = {i for n in program.all_nodes() if n.op == "Generator" for i in n.inputs}
    return {i for n in program.all_nodes() if n.name in given for i in n.inputs} & set(program.parameters)


def results_read(program: Program) -> dict[str, Container[int]]:
    """Return the numbers of the results that are read of each node, all where they are read as one.

    Of a layer that is one primitive, each call gives what any of its calls is read of.
    """
    numbers = {n.name: n.value for n in program.all_nodes() if n.op == "Constant"}
    taken: dict[str, set[int]] = {}
    whole = {program.output, *(f.output for f in program.functions)}
    for node in program.all_nodes():
        number = numbers.get(node.inputs[1]) if node.op in _ITEMS else None
        if isinstance(number, int):
            taken.setdefault(node.inputs[0], set()).add(number)
        elif node.op not in _ORDER:
            whole.update(node.inputs)
    layers: dict[Any, list[str]] = {}
    for node in program.all_nodes():
        if "cell_id" in node.attributes:
            layers.setdefault(node.attributes["cell_id"], []).append(node.name)
    for calls in layers.values():
        union = set[int]().union(*(taken.get(name, ()) for name in calls))
        taken.update(dict.fromkeys(calls, union))
        if not whole.isdisjoint(calls):
            whole.update(calls)
    return {**taken, **dict.fromkeys(whole, range(_MANY))}


_MANY = 1 << 16
"""More results than any node has."""
