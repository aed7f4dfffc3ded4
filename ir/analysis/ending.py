"""Ends a graph at one of its internal values."""

from __future__ import annotations

from dataclasses import replace

from ..errors import PassError
from ..graph import Graph
from ..nodes import Value


def end_at(graph: Graph, source: str, at: str) -> int:
    """End the net at an internal value that depends on `source`; returns how many parameters are gone.

    Outputs that do not depend on `source` stay, behind the new one.

    Args:
        graph: the graph.
        source: an input.
        at: an output of a node of the source (``flatten0_output``), its node, or a module's path.

    Raises:
        PassError: E501 for an input or a value that there is not, or that do not belong together.
    """
    inputs = {node.name: node for node in graph.input_nodes()}
    if source not in inputs:
        known = ", ".join(f"`{name}`" for name in inputs)
        raise PassError("E501", f"no input is called `{source}`", hint=f"inputs: {known}")
    old = inputs[source]
    if any(name == at for name, _ in graph.outputs) and len(graph.outputs) == 1:
        return 0
    value = _internal(graph, at)
    dependent = graph.flow.descendants(old.key)
    if value.node not in dependent:
        raise PassError("E501", f"expected `{at}` to depend on the input `{source}`, which it does not")
    others = [(name, v) for name, v in graph.outputs if v.node not in dependent and name != at]
    graph.outputs[:] = [(at, value), *others]
    graph.remove_dead()
    tree = graph.modules
    busy = {above for node in graph.operators() for above in tree.ancestors(node.call)}
    root = {call.key for call in tree.calls() if call.parent is None}
    for key in [call.key for call in reversed(tree.calls()) if call.key not in busy | root]:
        tree.remove_call(key)
    graph.origin = replace(graph.origin, ends=[*graph.origin.ends, (source, at)])
    used = _used(graph)
    return sum(parameter.key not in used for parameter in graph.parameters())


def _used(graph: Graph) -> set[int]:
    read = {value.node for _, value in graph.outputs} | set(graph.updates)
    return read | {p.key for p in graph.parameters() if graph.flow.out_degree(p.key)}


def _internal(graph: Graph, at: str) -> Value:
    """Return the value of that name: an output, a node's, or that of a module's last call."""
    found = [value for name, value in graph.outputs if name == at]
    for (node, output), value in graph.origin.landmarks.items():
        names = (
            {node, f"{node}_output", f"{node}_output{output}"} if not output else {f"{node}_output{output}"}
        )
        if at in names and value.node in graph:
            found.append(value)
    module = graph.modules.find(at)
    if not found and module is not None and graph.modules.calls(module.key):
        call = graph.modules.calls(module.key)[-1].key
        inside = {n.key for n in graph.operators() if call in graph.modules.ancestors(n.call)}
        leaving = {
            Value(key, output)
            for key in inside
            for user, _, output in graph.flow.users(key)
            if user not in inside
        } | {value for _, value in graph.outputs if value.node in inside}
        found = sorted(leaving, key=lambda v: (v.node, v.output))
    if len(set(found)) != 1:
        known = ", ".join(
            f"`{node}_output`" for node, output in list(graph.origin.landmarks)[-5:] if not output
        )
        what = "several values are" if found else "no value is"
        raise PassError(
            "E501",
            f"{what} called `{at}`",
            hint=f"give an output of a node ({known}) or the path of a module"
            if known
            else "give a module's path",
        )
    return found[0]
