"""The operators of a graph as recorded calls: what a source has in place of methods where it is a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...ir import Array, Constant, Graph, ModelError, Operator, Parameter, Value
from ..runners.onnx_runner import OnnxRunner
from .changes import literal
from .hosts import TorchHost
from .operators import BEFORE, Reading, calls_of, function_of, sizes_of, written
from .tape import MOST_BYTES, MOST_RECORDS, Record, Ref, Site, Tape, mapped
from .values import are_close

_CLOSE = 1e-4
_SHOWN = 4
"""Attributes of an operator that a message repeats."""


def graph_tape(graph: Graph, inputs: Mapping[str, Array]) -> Tape | None:
    """Return the operators of a graph with their values, as calls of PyTorch's where they are known.

    An operator that PyTorch has no call for, or whose call gives something else here, is recorded by its own
    name, and cannot be made again.

    Args:
        graph: the source's graph.
        inputs: what it runs on.
    """
    operators = graph.operators()
    sizes = _sizes(graph, inputs)
    if find_spec("torch") is None or len(operators) > MOST_RECORDS or _bytes(operators, sizes) > MOST_BYTES:
        return None
    values = _values(graph, operators, inputs)
    return None if values is None else _Recording(graph, values, sizes).tape()


def _sizes(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, int]:
    """Name of an open size -> the size that it has in some inputs."""
    found: dict[str, int] = {}
    for node in graph.input_nodes():
        array = inputs.get(node.name)
        if array is not None and node.type.shape is not None:
            found |= {str(d): n for d, n in zip(node.type.shape, array.shape, strict=False)}
    return found


def _bytes(operators: Sequence[Operator], sizes: Mapping[str, int]) -> int:
    """Return the bytes of some operators' values, as far as their sizes are known."""
    total = 0
    for operator in operators:
        for type_ in operator.types:
            shape = None if type_ is None or type_.shape is None else sizes_of(type_.shape, sizes)
            total += int(np.prod(shape or (1,), dtype=np.int64)) * 4
    return total


def _values(
    graph: Graph, operators: Sequence[Operator], inputs: Mapping[str, Array]
) -> dict[Value, np.ndarray] | None:
    """Return the results of every operator; None if ONNX Runtime refuses."""
    wanted = [
        Value(operator.key, at)
        for operator in operators
        for at, type_ in enumerate(operator.types)
        if type_ is not None and type_.dtype != "string"
    ]
    probed = graph.copy()
    probed.outputs = [(f"value{at}", value) for at, value in enumerate(wanted)]
    try:
        runner = OnnxRunner(probed, optimised=False)
    except ModelError:
        return None
    try:
        run = runner.run(inputs, calls=False)
    except ModelError:
        return None
    finally:
        runner.close()
    found = {value: np.asarray(array) for value, (_, array) in zip(wanted, run.outputs, strict=True)}
    return found | {Value(node.key): np.asarray(inputs[node.name]) for node in graph.input_nodes()}


class _Recording:
    """Writes the operators of a graph on a tape.

    Args:
        graph: the graph.
        values: what its operators and inputs are.
        sizes: name of an open size -> the size.
    """

    def __init__(self, graph: Graph, values: Mapping[Value, np.ndarray], sizes: Mapping[str, int]) -> None:
        self._graph, self._values, self._sizes = graph, values, sizes
        self._tape = Tape(TorchHost())
        self._known: dict[Value, Any] = {}

    def tape(self) -> Tape:
        """The tape."""
        inputs = self._graph.input_nodes()
        arrays = [self._values[Value(node.key)] for node in inputs]
        self._tape.records.append(Record(Site("", 0, "input"), "input", None, "input", (), {}, arrays))
        self._known |= {Value(node.key): Ref(0, at) for at, node in enumerate(inputs)}
        for key in self._graph.order():
            node = self._graph.node(key)
            if isinstance(node, (Parameter, Constant)):
                self._known[Value(key)] = self._tape.host.tensor(node.data.numpy())
            elif isinstance(node, Operator):
                self._record(node)
        outputs = [self._known.get(value) for _, value in self._graph.outputs]
        self._tape.outputs = [ref if isinstance(ref, Ref) else None for ref in outputs]
        return self._tape

    def _record(self, operator: Operator) -> None:
        """Write an operator as its calls, or by its own name."""
        results = [Value(operator.key, at) for at in range(len(operator.types))]
        given = [value for value in results if value in self._values]
        arrays = [self._values[value] for value in given]
        operands = [None if v is None else self._known.get(v) for v in self._graph.operands(operator.key)]
        records = self._records(operator, operands, arrays)
        if not records:
            operands += [self._known.get(value) for value in self._graph.captured(operator.key)]
            args = tuple(operands)
            records = [Record(_site(operator), "call", None, operator.op_type, args, {}, arrays)]
        self._tape.records += records
        last = len(self._tape.records) - 1
        self._known |= {value: Ref(last, at) for at, value in enumerate(given)}

    def _records(self, operator: Operator, operands: list[Any], arrays: list[np.ndarray]) -> list[Record]:
        """The calls that compute an operator; none where they give something else than it gave."""
        reading = Reading(self._graph, operator, operands, self._tape.host.tensor, self._sizes)
        out: list[Record] = []
        for call in calls_of(reading):
            kind, function = function_of(call)
            before = Ref(len(self._tape.records) + len(out) - 1, 0)

            def filled(leaf: Any, before: Ref = before) -> Any:
                return before if leaf is BEFORE else leaf

            args, kwargs = mapped(call.args, filled), mapped(dict(call.kwargs), filled)
            name = call.name.rpartition(".")[2] if kind != "operator" else call.name
            record = Record(_site(operator), kind, function, name, args, kwargs, [])
            found = self._tape.run(record, {before: out[-1].arrays[0]} if out else {})
            if found is None:
                return []
            record.arrays = found
            out.append(record)
        if not out or len(out[-1].arrays) < len(arrays):
            return []
        out[-1].arrays = out[-1].arrays[: len(arrays)]
        same = all(
            a.shape == b.shape and are_close(a, b, _CLOSE)
            for a, b in zip(out[-1].arrays, arrays, strict=True)
        )
        if not same:
            return []
        out[-1].arrays = arrays
        return out


def _site(operator: Operator) -> Site:
    """An operator as a message names it: its type, its attributes, and its node in the file."""
    given = {
        name: value
        for name, value in operator.attributes.items()
        if isinstance(value, (int, float, str, list, tuple)) and not isinstance(value, bool)
    }
    texts = [f"{name}={literal(written(value))}" for name, value in list(given.items())[:_SHOWN]]
    more = ", …" if len(given) > _SHOWN else ""
    source = f"{operator.op_type}({', '.join(texts)}{more})" if texts else operator.op_type
    return Site("", 0, operator.op_type, source=source, node=operator.location.partition(" ")[0])
