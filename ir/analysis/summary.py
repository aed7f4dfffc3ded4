"""The layer table of a graph: one row a module, every parameter counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..dims import Dim
from ..modules import ModuleCall
from ..nodes import Constant, Operator, Parameter, Value
from ..types import TensorType

if TYPE_CHECKING:
    from ..graph import Graph


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
        input: type of the first value that its last call is given, or None.
        kernel: sizes of the windows that its own operators slide: ``3x3``; empty for none.
        frozen: number of elements of weights that are not trained, those in `buffers`.
        multiply_adds: of its own operators in one run on the example inputs.
        nbytes: size of what it holds and no row above has counted.
        inside: modules below it that the row stands for.
    """

    path: str
    class_name: str
    calls: int | None
    output: TensorType | None
    parameters: int
    buffers: int
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    input: TensorType | None = None
    kernel: str = ""
    frozen: int = 0
    multiply_adds: int = 0
    nbytes: int = 0
    inside: int = 0

    @property
    def trainable(self) -> str:
        """``yes``, ``no`` or ``partly``; empty for a module without weights."""
        if not self.frozen:
            return "yes" if self.parameters else ""
        return "partly" if self.parameters else "no"


@dataclass(frozen=True, slots=True)
class Summary:
    """The table and its totals, in elements.

    Attributes:
        rows: a row a module.
        trainable: elements that are trained.
        used: those that some operator reads.
        buffers: elements of other state.
        nbytes: size of all parameters and other state.
    """

    rows: list[LayerRow] = field(default_factory=list[LayerRow])
    trainable: int = 0
    used: int = 0
    buffers: int = 0
    nbytes: int = 0


def summarise(
    graph: Graph,
    depth: int | None = None,
    *,
    fold: bool = False,
    costs: Mapping[int | None, int] | None = None,
) -> Summary:
    """Return the layer table of a graph, modules in depth-first order.

    Modules deeper than `depth` are counted in the row of the nearest module above them that is shown; with
    `fold`, so are those in a module of which nothing is ever called. `costs` are the multiply-adds by module
    key that `costs.count_costs` gives.
    `Summary.used` counts the trainable elements that some operator reads (all of them in a static tree).
    """
    tree = graph.modules
    calls = tree.calls_by_module()
    traced = bool(tree.calls())
    inputs, outputs = _call_types(graph)
    costs = costs or {}
    kernels = _kernels(graph)
    paths = graph.parameter_paths()
    seen: set[int] = set()
    rows: list[LayerRow] = []
    listed = [tree.module(key) for path, key, _ in tree.registrations() if path == tree.path(key)]
    for module in listed:
        trainable = buffers = frozen = nbytes = 0
        notes: list[str] = []
        for name, key in module.parameters.items():
            parameter = graph.parameter(key)
            size = int(np.prod(parameter.data.shape, dtype=np.int64))
            if key in seen:
                notes.append(f"{name} is {paths[key][0]}")
                continue
            seen.add(key)
            nbytes += parameter.data.nbytes
            if parameter.trainable:
                trainable += size
            else:
                buffers += size
                frozen += 0 if parameter.is_buffer else size
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
                next((inputs[c.key] for c in reversed(made) if c.key in inputs), None),
                kernels.get(module.key, ""),
                frozen,
                costs.get(module.key, 0),
                nbytes,
            )
        )
    if None in costs and rows:  # operators of no module: the whole model's own
        rows[0] = replace(rows[0], multiply_adds=rows[0].multiply_adds + costs[None])
    if fold:
        rows = _fold_uncalled(rows)
    read = {k for k in paths if graph.flow.out_degree(k)} if traced else set(paths)
    sizes = {p.key: int(np.prod(p.data.shape, dtype=np.int64)) for p in graph.parameters()}
    trained = {p.key for p in graph.parameters() if p.trainable}
    return Summary(
        rows if depth is None else _fold_rows(rows, depth),
        sum(sizes[k] for k in trained),
        sum(sizes[k] for k in trained & read),
        sum(size for k, size in sizes.items() if k not in trained),
        sum(p.data.nbytes for p in graph.parameters()),
    )


def _fold_rows(rows: list[LayerRow], depth: int) -> list[LayerRow]:
    """Return the rows down to a depth; the counts of deeper rows are added to the row above them."""
    out: list[LayerRow] = []
    for row in rows:
        if (row.path.count(".") + 1 if row.path else 0) <= depth:
            out.append(row)
        else:  # depth first: the last row shown is above this one
            out[-1] = _with(out[-1], row)
    return out


def _fold_uncalled(rows: list[LayerRow]) -> list[LayerRow]:
    """Return the rows with one for every subtree of which nothing is called."""
    called = [row.path for row in rows if row.calls != 0]
    above = {path[:at] for path in called for at, c in enumerate(path) if c == "."} | {*called, ""}
    out: list[LayerRow] = []
    for row in rows:
        last = out[-1] if out else None
        if last is not None and last.path not in above and row.path.startswith(f"{last.path}."):
            out[-1] = _with(last, row)
        else:
            out.append(row)
    return [
        replace(row, notes=(*row.notes, f"with {row.inside} modules in it")) if row.inside else row
        for row in out
    ]


def _with(above: LayerRow, row: LayerRow) -> LayerRow:
    """Return a row that stands for one below it too."""
    return replace(
        above,
        parameters=above.parameters + row.parameters,
        buffers=above.buffers + row.buffers,
        frozen=above.frozen + row.frozen,
        multiply_adds=above.multiply_adds + row.multiply_adds,
        nbytes=above.nbytes + row.nbytes,
        inside=above.inside + row.inside + 1,
    )


def _is_passive(graph: Graph, key: int, calls: dict[int, list[ModuleCall]]) -> bool:
    """Whether an uncalled module only holds other modules that are called (a list of modules)."""
    stack = list(graph.modules.module(key).children.values())
    while stack:
        child = stack.pop()
        if calls[child]:
            return graph.modules.module(key).container is not None
        stack.extend(graph.modules.module(child).children.values())
    return False


def _kernels(graph: Graph) -> dict[int, str]:
    """Return, by module key, the sizes of the windows that its own operators slide."""
    found: dict[int, dict[str, None]] = {}
    for node in graph.operators():
        if node.call is None or not node.traits.windowed:
            continue
        sizes: Sequence[Dim] = node.ints("kernel_shape") if "kernel_shape" in node.attributes else ()
        operands = graph.operands(node.key)
        weight = graph.type_of(operands[1]) if len(operands) > 1 and operands[1] is not None else None
        if not sizes and weight is not None and weight.shape is not None:
            sizes = weight.shape[2:]
        module = graph.modules.call(node.call).module
        if sizes:
            found.setdefault(module, {})["x".join(map(str, sizes))] = None
    return {module: ", ".join(kernels) for module, kernels in found.items()}


def _call_types(graph: Graph) -> tuple[dict[int, TensorType], dict[int, TensorType]]:
    """Return, by call key, the type of the first value that enters and of the last one that leaves it."""
    inside: dict[int, list[int]] = {}
    position = {key: at for at, key in enumerate(graph.order())}
    for key in position:
        node = graph.node(key)
        if isinstance(node, Operator):
            for call in graph.modules.ancestors(node.call):
                inside.setdefault(call, []).append(key)
    inputs: dict[int, TensorType] = {}
    outputs: dict[int, TensorType] = {}
    returned = {value.node for _, value in graph.outputs}
    for call, keys in inside.items():
        members = set(keys)
        entering = (v for key in keys for v in graph.operands(key) if v and v.node not in members)
        first = next((v for v in entering if _is_computed(graph, v)), None)
        type_ = None if first is None else graph.type_of(first)
        if type_ is not None:
            inputs[call] = type_
        for key in reversed(keys):
            if key in returned or any(user not in members for user in graph.flow.succ[key]):
                type_ = graph.operator(key).types[0]
                if type_ is not None:
                    outputs[call] = type_
                break
    return inputs, outputs


def _is_computed(graph: Graph, value: Value) -> bool:
    """Whether a value depends on the inputs: neither a parameter nor a constant."""
    return not isinstance(graph.node(value.node), (Constant, Parameter))
