"""The part of a graph that follows from some of its inputs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..builder import Builder
from ..graph import Graph
from ..nodes import Value

_FIRST = np.iinfo(np.int64).min


def restrict(graph: Graph, inputs: Collection[str]) -> Graph:
    """Return a copy of a graph with only those outputs that depend on no input but the named ones.

    An input whose samples stand behind those of a named one, in one batch, becomes that one in reverse order;
    the calls of modules, which see the whole batch, and the new input's outputs are left out.
    """
    new = graph.copy()
    joined = [(n, s, o) for n, s, o in graph.origin.joined if s in inputs and n not in inputs]
    nodes = {node.name: node for node in new.input_nodes()}
    for name, source, outputs in joined:
        b = Builder(new)
        places = [b.constant([number]) for number in (-1, _FIRST, 0, -1)]
        reverse = b.op("Slice", Value(nodes[source].key), *places, types=[nodes[source].type])
        new.replace_uses(Value(nodes[name].key), reverse)
        new.outputs = [(n, value) for n, value in new.outputs if n not in outputs]
    if joined:
        tree = new.modules
        root = next((call.key for call in tree.calls() if call.parent is None), None)
        for part in new.subgraphs():
            for node in part.operators():
                node.call = root
        for call in reversed(tree.calls()):
            if call.parent is not None:
                tree.remove_call(call.key)
    others = [n.key for n in new.input_nodes() if n.name not in inputs]
    reached = set(others).union(*(new.flow.descendants(key) for key in others))
    new.outputs = [(name, value) for name, value in new.outputs if value.node not in reached]
    new.updates = {key: value for key, value in new.updates.items() if value.node not in reached}
    new.remove_dead()
    for key in others:
        new.remove(key)
    return new
