"""The layer table of a graph: one row a module, every parameter counted once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..graph import Graph
from ..modules import ModuleCall
from ..nodes import Operator
from ..types import TensorType


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One module.

    Attributes:
        path: canonical path; empty for the root.
        class_name: class in the source.
        calls: how often it is called; None when that is not known (a static tree).
        output: type of the value its last call hands out, or None.
        parameters: number of trainable elements it holds and no row above has counted.
        buffers: number of elements of state that is not trained.
        aliases: its other paths.
        notes: sharing, never called, …
    """

    path: str
    class_name: str
    calls: int | None
    output: TensorType | None
    parameters: int
    buffers: int
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The table and its totals, in elements."""

    rows: list[LayerRow] = field(default_factory=list[LayerRow])
    trainable: int = 0
    used: int = 0
    buffers: int = 0


def summarise(graph: Graph, depth: int | None = None) -> Summary:
    """Return the layer table of a graph, modules in depth-first order.

    Modules deeper than `depth` are counted in the row of the nearest module above them that is shown.
    `Summary.used` counts the trainable elements that some operator reads (all of them in a static tree).
    """
    tree = graph.modules
    calls = tree.calls_by_module()
    traced = bool(tree.calls())
    outputs = _call_outputs(graph)
    paths = graph.parameter_paths()
    seen: set[int] = set()
    rows: list[LayerRow] = []
    listed = [tree.module(key) for path, key, _ in tree.registrations() if path == tree.path(key)]
    for module in listed:
        trainable = buffers = 0
        notes: list[str] = []
        for name, key in module.parameters.items():
            parameter = graph.parameter(key)
            size = int(np.prod(parameter.data.shape, dtype=np.int64))
            if key in seen:
                notes.append(f"{name} is {paths[key][0]}")
                continue
            seen.add(key)
            if parameter.trainable:
                trainable += size
            else:
                buffers += size
        made = calls[module.key]
        if traced and not made and not _is_passive(graph, module.key, calls):
            notes.append("never called")
        elif len(made) > 1:
            notes.append(f"called {len(made)} times")
        aliases = tree.paths(module.key)[1:]
        if aliases:
            notes.insert(0, f"also {', '.join(aliases)}")
        output = next((outputs[c.key] for c in reversed(made) if c.key in outputs), None)
        rows.append(
            LayerRow(
                tree.path(module.key),
                module.class_name,
                len(made) if traced else None,
                output,
                trainable,
                buffers,
                aliases,
                tuple(notes),
            )
        )
    read = {k for k in paths if graph.flow.out_degree(k)} if traced else set(paths)
    sizes = {p.key: int(np.prod(p.data.shape, dtype=np.int64)) for p in graph.parameters()}
    trained = {p.key for p in graph.parameters() if p.trainable}
    return Summary(
        rows if depth is None else _fold_rows(rows, depth),
        sum(sizes[k] for k in trained),
        sum(sizes[k] for k in trained & read),
        sum(size for k, size in sizes.items() if k not in trained),
    )


def _fold_rows(rows: list[LayerRow], depth: int) -> list[LayerRow]:
    """Return the rows down to a depth; the counts of deeper rows are added to the row above them."""
    out: list[LayerRow] = []
    for row in rows:
        if (row.path.count(".") + 1 if row.path else 0) <= depth:
            out.append(row)
        else:  # depth first: the last row shown is above this one
            above = out[-1]
            out[-1] = replace(
                above, parameters=above.parameters + row.parameters, buffers=above.buffers + row.buffers
            )
    return out


def _is_passive(graph: Graph, key: int, calls: dict[int, list[ModuleCall]]) -> bool:
    """Whether an uncalled module only holds other modules that are called (a list of modules)."""
    stack = list(graph.modules.module(key).children.values())
    while stack:
        child = stack.pop()
        if calls[child]:
            return graph.modules.module(key).container is not None
        stack.extend(graph.modules.module(child).children.values())
    return False


def _call_outputs(graph: Graph) -> dict[int, TensorType]:
    """Return, by call key, the type of the last value made in the call that something outside it uses."""
    inside: dict[int, list[int]] = {}
    position = {key: at for at, key in enumerate(graph.order())}
    for key in position:
        node = graph.node(key)
        if isinstance(node, Operator):
            for call in graph.modules.ancestors(node.call):
                inside.setdefault(call, []).append(key)
    out: dict[int, TensorType] = {}
    returned = {value.node for _, value in graph.outputs}
    for call, keys in inside.items():
        members = set(keys)
        for key in reversed(keys):
            if key in returned or any(user not in members for user in graph.flow.succ[key]):
                type_ = graph.operator(key).types[0]
                if type_ is not None:
                    out[call] = type_
                break
    return out
