"""From MindIR to the IR: one table of lowerings, and the walk that applies it in the right module calls."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from ...ir import Builder, Graph, UnsupportedError, Value
from ...ir.dims import Size
from .batch import BatchFill
from .call import Call
from .cell_calls import Attribution, Marker
from .complex_numbers import lower
from .mindir import MONAD, Node, Program
from .operators import TABLE
from .recording import CellCall
from .refusals import explain

_TUPLES = ("MakeTuple", "make_list", "MakeList")
_ITEMS = ("TupleGetItem", "ListGetItem", "list_getitem")
_PASSED = ("Load", "Depend", "TensorMove")
_SUMMARIES = ("TensorSummary", "ScalarSummary", "ImageSummary", "HistogramSummary", "TensorDump")
_ORDER = (
    "UpdateState",
    "Print",
    "Assert",
    *_SUMMARIES,
)  # what is told to the user is no part of what is computed
_STRUCTURE = {"Constant", *_TUPLES, *_ITEMS, *_PASSED, *_ORDER}
_CONTROL = ("Switch", "Partial", "SwitchLayer")


class Lowerer:
    """Builds the dataflow of one program.

    Args:
        graph: with inputs, parameters, modules and calls already in it.
        program: what MindSpore compiled.
        environment: value name -> Value, for the program's inputs and parameters.
        attribution: node -> recorded call.
        calls: the recorded calls.
        call_keys: their keys in the module tree, in the same order.
        places: per recorded call, where its code is, for messages.
    """

    def __init__(
        self,
        graph: Graph,
        program: Program,
        environment: dict[str, Any],
        attribution: Attribution,
        calls: Sequence[CellCall],
        call_keys: Sequence[int],
        places: Sequence[str],
    ) -> None:
        self.graph, self.program, self.environment = graph, program, environment
        self.attribution, self.calls, self.call_keys, self.places = attribution, calls, call_keys, places
        self.builder = Builder(graph)
        self.users = Counter(
            i for n in program.nodes if n.op not in ("UpdateState", "Load") for i in n.inputs
        )

        self.reads = results_read(program)

    def run(self) -> Any:
        """Lower every node; returns what the program returns: a Value, a constant, or nested tuples of them.

        Raises:
            UnsupportedError: for control flow, or listing every primitive without a lowering.
        """
        self._check()
        for node in self.program.nodes:
            self.environment[node.name] = self._lower(node)
        return self.environment[self.program.output]

    def _check(self) -> None:
        control = [n for n in self.program.nodes if self._is_control(n)]
        if self.program.functions or control:
            raise UnsupportedError(
                "E203",
                "expected straight-line code, got control flow that depends on tensor values",
                place=self._place(control[0]) if control else "",
                hint="make the condition a Python value, or use ops.select",
            )
        uses = ((n.op, self._place(n)) for n in self.program.nodes if n.op not in _STRUCTURE)
        TABLE.require(uses, explain=explain)

    def _is_control(self, node: Node) -> bool:
        """Whether a node branches, or calls a function or the value that a branch chose (``graph:node``)."""
        return node.op in _CONTROL or ":" in node.op or node.op in self.program.functions

    def _place(self, node: Node) -> str:
        number = self.attribution.of_node.get(node.name, 0)
        return self.places[number] if number < len(self.places) else node.scope

    def _lower(self, node: Node) -> Any:
        if node.op == "Constant":
            return node.value
        marker = Marker.of(node)
        if marker is not None:
            return self._boundary(node, marker)
        operands = [self.environment[i] for i in node.inputs]
        if node.op in _PASSED:
            return operands[0]
        if node.op in _ORDER:
            return MONAD
        if node.op in _TUPLES:
            return tuple(operands)
        if node.op in _ITEMS:
            return self._item(node, operands[0], operands[1])
        number = self.attribution.of_node.get(node.name, 0)
        with self.builder.inside(self.call_keys[number], self._place(node)):
            call = Call(
                node,
                operands,
                self.builder,
                cell=self.calls[number].cell,
                place=self._place(node),
                users=[self.users[i] for i in node.inputs],
                reads=self.reads.get(node.name, ()),
            )
            return call.finish(lower(call, TABLE))

    def _item(self, node: Node, sequence: Sequence[Any], index: int) -> Any:
        """One result of several; lowerings leave out those at the end that training alone reads."""
        if not -len(sequence) <= index < len(sequence):
            maker = next((n.op for n in self.program.nodes if n.name == node.inputs[0]), "a sequence")
            raise UnsupportedError(
                "E203",
                f"expected result {index} of `{maker}` to be unread",
                place=self._place(node),
                hint="leave it out of the model, or add it to the lowering (docs/adding.md)",
            )
        return sequence[index]

    def _boundary(self, node: Node, marker: Marker) -> Any:
        """Markers vanish; a Dropout call, which evaluation leaves empty, gets its operator back."""
        value = self.environment[node.inputs[0]]
        number = self.attribution.of_node.get(node.name, 0)
        cell = self.calls[number].cell
        if marker.is_entry and isinstance(value, Value) and number:
            self._name_argument(self.call_keys[number], value, cell, marker.position)
        if marker.is_entry or type(cell).__name__ not in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"):
            return value
        ratio = dropped_share(cell)
        if not ratio or not isinstance(value, Value):
            return value
        with self.builder.inside(self.call_keys[number], self.places[number]):
            if type(cell).__name__ != "Dropout":
                return self.builder.op("regraft.FeatureDropout", value, ratio=ratio)
            return self.builder.op("Dropout", value, self.builder.constant(np.float32(ratio), "float32"))

    def _name_argument(self, call: int, value: Value, cell: Any, position: int) -> None:
        """Note how the source calls an argument of a Cell that is not MindSpore's own."""
        if type(cell).__module__.partition(".")[0] != "mindspore":
            names = inspect.getfullargspec(type(cell).construct).args[1:]
            if position < len(names):
                self.graph.origin.arguments[call, value] = names[position]

    def as_output(self, found: Any) -> Value:
        """A value for a graph output that may be a constant."""
        if isinstance(found, Value):
            return found
        call = Call(Node("output", "output"), [found], self.builder, cell=None, place="output", users=[0])
        if isinstance(found, (np.ndarray, Size, BatchFill, bool, int, float)):
            return call.value(0)
        raise UnsupportedError("E203", f"expected tensors as results, got `{found!r}`")


def dropped_share(cell: Any) -> float:
    """The probability with which a Dropout Cell drops an element."""
    p = getattr(cell, "p", getattr(cell, "prob", None))
    keep = getattr(cell, "keep_prob", None)
    return (
        float(p)
        if isinstance(p, (int, float))
        else 1 - float(keep)
        if isinstance(keep, (int, float))
        else 0.0
    )


def results_read(program: Program) -> dict[str, Container[int]]:
    """Return the numbers of the results that are read of each node, all where they are read as one."""
    numbers = {n.name: n.value for n in program.nodes if n.op == "Constant"}
    taken: dict[str, set[int]] = {}
    whole = {program.output}
    for node in program.nodes:
        number = numbers.get(node.inputs[1]) if node.op in _ITEMS else None
        if isinstance(number, int):
            taken.setdefault(node.inputs[0], set()).add(number)
        elif node.op not in _ORDER:
            whole.update(node.inputs)
    return {**taken, **dict.fromkeys(whole, range(_MANY))}


_MANY = 1 << 16
"""More results than any node has."""
