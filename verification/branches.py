"""Finds which branches and loop bodies inputs reach, in a copy of the graph that counts its own runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..ir import Builder, Graph, ModelError, Operator, RegraftError, TensorType, Value, walk_operators
from .inputs import make_inputs
from .runners.onnx_runner import OnnxRunner

DRAWS = 24
"""Number of seeded inputs that are tried to reach every branch."""

_COUNTED = ("If", "Loop")
"""Operators with nested graphs, whose runs are counted."""


class Branches:
    """The branches of a graph's Ifs and the bodies of its Loops, nested ones included.

    Args:
        graph: a source graph; it is not changed.

    Attributes:
        names: each of them in words, in a fixed order.
        unseen: those that no inputs so far have led into.
    """

    def __init__(self, graph: Graph) -> None:
        self.names = [
            f"the {'body' if node.op_type == 'Loop' else name.replace('_', ' ')} of {part.describe(node.key)}"
            for part, node in walk_operators(graph)
            if node.op_type in _COUNTED
            for name in sorted(node.subgraphs())
        ]
        self.unseen = list(range(len(self.names)))
        self._graph = graph
        self._runner: OnnxRunner | None = None
        if self.names:
            counting = graph.copy()
            numbers = {
                (id(part), node.key, name): None
                for part, node in walk_operators(counting)
                if node.op_type in _COUNTED
                for name in sorted(node.subgraphs())
            }
            total = _Counter(dict(zip(numbers, range(len(numbers)), strict=True))).count(counting)
            counting.outputs = [("taken", total)]
            counting.updates = {}
            counting.remove_dead()
            self._runner = OnnxRunner(counting)

    def note(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Cross off what inputs reach; returns whether any of it was unseen.

        Raises:
            ModelError: when ONNX Runtime cannot run the graph on them.
        """
        if self._runner is None or not self.unseen:
            return False
        taken = self._runner.run(inputs, calls=False).outputs[0][1]
        left = [number for number in self.unseen if not taken[number]]
        found, self.unseen = len(left) < len(self.unseen), left
        return found

    def further(self, sizes: dict[str, int], seed: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield number and arrays of drawn inputs that reach a branch which none before did."""
        for draw in range(1, DRAWS):
            if not self.unseen:
                return
            inputs = make_inputs(self._graph, sizes, seed + draw, draw)
            try:
                if self.note(inputs):
                    yield draw, inputs
            except ModelError:  # as an index that is out of bounds
                continue

    def remark(self, drawn: bool) -> str:
        """Describe what was not compared; empty if everything was."""
        if not self.unseen:
            return ""
        listed = ", ".join(self.names[number] for number in self.unseen)
        tried = f"none of {DRAWS} drawn inputs leads" if drawn else "the inputs given do not lead"
        return f"not compared, as {tried} into it: {listed}"


def branches(graph: Graph) -> Branches | None:
    """Return the branches of a graph; None if it has none, or if they cannot be counted."""
    if not any(node.op_type in _COUNTED for _, node in walk_operators(graph)):
        return None
    try:
        return Branches(graph)
    except RegraftError:  # a graph that ONNX does not take whole, such as one with stubs
        return None


class _Counter:
    """Adds a result to every If and Loop that counts how often each nested graph ran.

    A Loop gives the counts of each round, which are added up behind it: a further state would come between
    its states and what it gives of each round.

    Args:
        numbers: (id of the graph, key of its operator, name of the nested graph) -> its number.
    """

    def __init__(self, numbers: dict[tuple[int, int, str], int]) -> None:
        self._numbers = numbers
        self._type = TensorType("int64", (len(numbers),))

    def count(self, part: Graph) -> Value:
        """Return the counts of all nested graphs in a graph, as one vector; changes the graph's operators."""
        b = Builder(part)
        total = b.constant(np.zeros(len(self._numbers), np.int64))
        for node in part.operators():
            if node.op_type in _COUNTED:
                total = b.op("Add", total, self._counts(part, node))
        return total

    def _counts(self, part: Graph, node: Operator) -> Value:
        for name, body in sorted(node.subgraphs().items()):
            inside, b = self.count(body), Builder(body)
            here = np.zeros(len(self._numbers), np.int64)
            here[self._numbers[id(part), node.key, name]] = 1
            body.outputs.append(("taken", b.op("Add", inside, b.constant(here))))
        given = Value(node.key, len(node.types))
        if node.op_type == "If":
            node.types.append(self._type)
            return given
        node.types.append(self._type.with_shape((None, len(self._numbers))))
        b = Builder(part)
        return b.op("ReduceSum", given, b.constant(np.array([0])), keepdims=0)
