"""Makes siamese twins: a second copy of what depends on one input, with the same parameters."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace

import numpy as np

from ...ir import Graph, Input, Operator, Parameter, PassError, Value


def twin_name(output: str, new: str, prefix: str = "") -> str:
    """Return the name of an output's twin: behind the prefix, or before the new input's name."""
    return f"{prefix}{output}" if prefix else f"{output}_{new}"


def has_twin(graph: Graph, new: str, prefix: str = "") -> bool:
    """Whether the graph has the input `new` and outputs named after it already."""
    names = {name for name, _ in graph.outputs}
    return any(node.name == new for node in graph.input_nodes()) and any(
        twin_name(name, new, prefix) in names for name in names
    )


def make_twin(graph: Graph, source: str, new: str, prefix: str = "") -> list[str]:
    """Copy what depends on the input `source` onto a new input `new`; returns the new outputs' names.

    Parameters, constants and whatever does not depend on `source` are shared. The copied operators are in
    second calls of the same modules; the root's own operators stay in the root's call. A prefix goes before
    the names of copied operators and outputs, never before a parameter's.

    Raises:
        PassError: for an input that there is not, a name that is taken, an input no output depends on, or
            state that both branches would update.
    """
    old = input_called(graph, source)
    dependent = graph.flow.descendants(old.key)
    doubled = [(name, value) for name, value in graph.outputs if value.node in dependent]
    names = list(check_names(graph, source, new, prefix).values())
    chosen, calls = _clone_calls(graph, dependent)
    mapped = {old.key: graph.add_input(new, old.type).node}
    for key in [k for k in graph.order() if k in chosen]:
        _clone(graph, graph.operator(key), mapped, calls, new, prefix)
    found = [Value(mapped[v.node], v.output) for _, v in doubled]
    graph.outputs += zip(names, found, strict=True)
    add_example(graph, source, new)
    return names


def add_example(graph: Graph, source: str, new: str) -> None:
    """Give a new input another example than that of the first, of the same range."""
    origin = graph.origin
    examples, ranges = origin.inputs, origin.ranges
    if source in ranges:
        ranges = {**ranges, new: ranges[source]}
    if source in examples:
        turned = np.ascontiguousarray(np.roll(np.flip(examples[source]), len(examples) - 1))
        examples = {**examples, new: turned}
    graph.origin = replace(origin, inputs=examples, ranges=ranges)


def check_names(graph: Graph, source: str, new: str, prefix: str = "") -> dict[str, str]:
    """Return the outputs that depend on an input, each with its twin's name.

    Raises:
        PassError: as `make_twin` does.
    """
    old = input_called(graph, source)
    taken = {node.name for node in graph.input_nodes()} | {name for name, _ in graph.outputs}
    if new in taken:
        raise PassError("E501", f"expected a new name for the twin of `{source}`, got `{new}` again")
    dependent = graph.flow.descendants(old.key)
    doubled = [name for name, value in graph.outputs if value.node in dependent]
    if not doubled:
        raise PassError("E501", f"expected an output that depends on `{source}`, got none")
    updated = [graph.parameter(p).name for p, v in graph.updates.items() if v.node in dependent]
    if updated:
        raise PassError(
            "E501",
            f"expected no state that depends on `{source}`, got updates of {', '.join(map(repr, updated))}",
            hint="both branches would update it, in no certain order; capture in evaluation mode",
        )
    names = {name: twin_name(name, new, prefix) for name in doubled}
    clash = [name for name in names.values() if name in taken]
    if clash:
        raise PassError(
            "E501", f"expected new names for the twin's outputs, got `{clash[0]}`, which is taken"
        )
    return names


def find_statistics(graph: Graph, source: str) -> list[str]:
    """Return the modules whose statistics each branch from `source` updates when the net is trained."""
    paths = graph.modules.call_names()
    return [
        paths[node.call].rpartition("#")[0] if node.call is not None else node.op_type
        for node in map(graph.node, sorted(graph.flow.descendants(input_called(graph, source).key)))
        if isinstance(node, Operator)
        and node.op_type == "BatchNormalization"
        and node.float("momentum") != 1.0  # with which the statistics stay, in training too
        and all(isinstance(graph.node(v.node), Parameter) for v in graph.operands(node.key)[3:5] if v)
    ]


def input_called(graph: Graph, name: str) -> Input:
    """Return the input of that name.

    Raises:
        PassError: E501 when there is none.
    """
    for node in graph.input_nodes():
        if node.name == name:
            return node
    known = ", ".join(f"`{node.name}`" for node in graph.input_nodes())
    raise PassError("E501", f"no input is called `{name}`", hint=f"inputs: {known}")


def _clone_calls(graph: Graph, dependent: Iterable[int]) -> tuple[set[int], dict[int, int]]:
    """Call modules with dependent operators again; returns (operators to copy, call -> second call).

    A module is called again as a whole: its operators that do not depend on the input are copied too, so that
    both calls have one body. Only the root is not called again.
    """
    tree = graph.modules
    root = {call.key for call in tree.calls() if call.parent is None and call.module == 0}
    chosen = {key for key in dependent if isinstance(graph.node(key), Operator)}
    touched = {
        above for key in chosen for above in tree.ancestors(graph.operator(key).call) if above not in root
    }
    again: dict[int, int] = {}
    for call in tree.calls():  # a parent call is older than the calls made in it
        if call.key in touched or call.parent in again:
            parent = None if call.parent is None else again.get(call.parent, call.parent)
            again[call.key] = tree.add_call(call.module, parent)
    chosen |= {node.key for node in graph.operators() if node.call in again}
    return chosen, again


def _clone(
    graph: Graph, node: Operator, mapped: dict[int, int], calls: dict[int, int], new: str, prefix: str
) -> None:
    """Add a copy of an operator on the mapped operands."""

    def map_value(value: Value | None) -> Value | None:
        return None if value is None else Value(mapped.get(value.node, value.node), value.output)

    twin = copy(node)
    twin.types = list(node.types)
    twin.call = node.call if node.call is None else calls.get(node.call, node.call)
    twin.hint = ""
    if prefix and node.location:
        twin.location = f"{prefix}{node.location}"
    twin.attributes = {
        name: _copy_nested(value, calls) if isinstance(value, Graph) else value
        for name, value in node.attributes.items()
    }
    label = node.attributes.get("label")
    if isinstance(label, str) and label:  # an input of training: each branch has one of its own
        twin.attributes["label"] = twin_name(label, new, prefix)
    captured = [value for value in map(map_value, graph.captured(node.key)) if value is not None]
    outputs = graph.add_operator(twin, [map_value(v) for v in graph.operands(node.key)], captured)
    mapped[node.key] = outputs[0].node


def _copy_nested(graph: Graph, calls: dict[int, int]) -> Graph:
    """Return a copy of a nested graph, its operators in the second calls."""
    new = graph.copy_within(graph.modules)  # the tree stays the root's
    for part in new.subgraphs():
        for node in part.operators():
            node.call = node.call if node.call is None else calls.get(node.call, node.call)
    return new
