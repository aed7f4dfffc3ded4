"""The difference of two models: modules, operators, weights, inputs and outputs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..checkpoints.diff import compared
from ..formats.files import settle_beside
from ..frontends import Inputs
from ..ir import COMPOSITES, Graph, RegraftError, TensorData
from ..ir.analysis.costs import count_costs
from ..ir.difference import Facet, GraphDifference, compare_graphs
from ..ir.outside.onnx_files import open_onnx
from ..passes import EliminateIdentities, ExpandComposites, FoldConstants, run_passes
from ..process.entry import public_call
from ..process.progress import phase


@phase("diff")
@public_call()
def diff_models(first: object, second: object, inputs: Inputs = None, **options: Any) -> GraphDifference:
    """Return what differs between two models, as a review of code shows it.

    Modules, operators and parameters are paired by place, and where that differs by what they are: a part
    that moved or has another name is neither removed nor added.

    Args:
        first: anything that `load` takes, or a graph.
        second: likewise.
        inputs: as in `load`, for both; a model that is code is compared by its modules and parameters alone
            where none are given.
        options: as in `load`, for both.

    Returns:
        The difference; `equal` is True where structure, names and values are the same.

    Raises:
        ModelError: when a model cannot be read.
    """
    settle_beside(first, second)
    one, two = (_graph(model, inputs, options) for model in (first, second))
    notes: list[str] = []
    if not one.operators() or not two.operators():
        notes.append("operators were not compared, as no inputs were given")
        one, two = _tree(one), _tree(two)
    alike = one.origin.framework == two.origin.framework
    if not alike:
        notes.append(
            "the models are of two frameworks: layers were compared as the operators that they are made of; "
            "`regraft verify` compares what the two compute"
        )
        one, two = _in_operators(one), _in_operators(two)
    flat = not _share_modules(one, two) and (not alike or all(map(_is_file, (one, two))))
    if alike and flat:
        notes.append("the models share few paths of modules: operators were compared whatever their module")
    found = compare_graphs(one, two, _compare_values, names=alike and not flat, flat=flat)
    found.facts = [*_files(first, second), *_sizes(one, two)]
    found.notes = notes
    return found


def _graph(model: object, inputs: Inputs, options: dict[str, Any]) -> Graph:
    from . import is_data, load, load_tree

    if isinstance(model, Graph):
        return model
    name = str(model) if isinstance(model, Path) else model
    if inputs is None and not (isinstance(name, str) and is_data(name)):
        kept = {"params", "part", "arguments", "trust"}
        return load_tree(name, **{key: value for key, value in options.items() if key in kept})
    return load(name, inputs, **options)


def _tree(graph: Graph) -> Graph:
    """Return the modules and parameters of a graph alone."""
    new = graph.copy()
    new.outputs, new.updates = [], {}
    new.remove_dead()
    for key in list(new.inputs):
        new.remove(key)
    return new


def _in_operators(graph: Graph) -> Graph:
    """Return a graph whose layers are written out in ONNX's operators."""
    new = graph.copy()
    for pass_ in (ExpandComposites(ops=tuple(COMPOSITES)), EliminateIdentities(), FoldConstants()):
        try:
            run_passes(new, [pass_])
        except RegraftError:
            continue  # such a layer stays one operator
    return new


def _share_modules(first: Graph, second: Graph) -> bool:
    """Whether most modules of each of two graphs have their paths in the other."""
    paths = [{path for path, _, _ in graph.modules.registrations() if path} for graph in (first, second)]
    return 2 * len(paths[0] & paths[1]) >= max(map(len, paths))


def _is_file(graph: Graph) -> bool:
    """Whether a graph comes from a file, whose modules may be what its reader made of names."""
    return isinstance(graph.origin.model, (str, Path))


def _compare_values(mine: TensorData, other: TensorData) -> tuple[float, float] | None:
    if mine.storage is not None and mine.storage == other.storage and mine.shape == other.shape:
        return None
    row = compared("", "", mine, other)
    return None if row.equal else (row.max_abs or 0.0, row.max_relative or 0.0)


def _files(first: object, second: object) -> list[Facet]:
    """Return the opsets of two ONNX files that differ."""
    found: list[dict[str, int]] = []
    for model in (first, second):
        if not isinstance(model, (str, Path)) or Path(model).suffix != ".onnx":
            return []
        found.append(
            {entry.domain or "ai.onnx": entry.version for entry in open_onnx(Path(model)).opset_import}
        )
    domains = sorted({*found[0], *found[1]})
    pairs = [(domain, found[0].get(domain), found[1].get(domain)) for domain in domains]
    return [
        Facet(f"opset of {domain}", str(a or "none"), str(b or "none")) for domain, a, b in pairs if a != b
    ]


def _sizes(first: Graph, second: Graph) -> list[Facet]:
    costs = count_costs(first), count_costs(second)
    rows: list[list[int]] = []
    for graph, cost in zip((first, second), costs, strict=True):
        data = [p.data for p in graph.parameters()]
        rows.append([sum(math.prod(d.shape) for d in data), sum(d.nbytes for d in data), cost.total])
    names = ["elements of parameters", "bytes of parameters", "multiply-adds"]
    if costs[0].sizes != costs[1].sizes or [n.type for n in first.input_nodes()] != [
        n.type for n in second.input_nodes()
    ]:
        del names[-1], rows[0][-1], rows[1][-1]
    return [Facet(name, f"{a:,}", f"{b:,}") for name, a, b in zip(names, *rows, strict=True) if a != b]
