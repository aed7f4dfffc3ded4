"""Reads MXNet symbols, ``x-symbol.json`` with its ``.params``, without MXNet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from ...ir import Graph, ModelError, TensorType, UnsupportedError, dtype_name
from ..class_names import class_name
from ..options import LoadOptions
from ..registry import note_framework
from ..size_limits import Budget
from .batch import read_at_sizes
from .begin_states import with_begin_states
from .binding import bind
from .files_beside import find_params
from .known_types import KnownTypes
from .lowering import lower, missing_operators
from .reader import Symbol, read_symbol
from .refusals import RefusedForms, refusal
from .tree import Tree, add_parameters, build_tree
from .variables import Stored, Variables, classify, rename_structural


def read(model: object, inputs: Sequence[tuple[str, np.ndarray | None]], options: LoadOptions) -> Graph:
    """Read a symbol and its parameters into a graph.

    The parameters come from `options.params`, else from the highest epoch of ``x-NNNN.params`` beside
    ``x-symbol.json``; where there is none they have shapes, inferred from the inputs, and no values. Labels
    that only loss heads use are no inputs. Where the model insists on one batch size (a Reshape to a literal
    one, say), the graph has it, and a note in its origin says so.

    Args:
        model: path of the symbol's JSON.
        inputs: example inputs; those whose shape the file states may be left out.
        options: how to load.

    Raises:
        ModelError: when a file is malformed (E101) or the inputs do not fit (E103).
        UnsupportedError: listing every operator without a lowering, and every form that is refused.
    """
    path = Path(str(model))
    symbol = read_symbol(path)
    missing, notes = missing_operators(symbol), list[str]()
    try:
        stored = _stored(path, options)
        named = {name for name, array in inputs if name and array is not None}
        rename_structural(symbol, stored, named)
        variables = classify(symbol, stored, named)
        symbol = with_begin_states(symbol, variables.parameters)
        arrays = bind(inputs, variables, notes, narrow=variables.are_single(stored))
    except ModelError:
        if missing:  # that comes first: no file and no input would help
            raise refusal(missing, RefusedForms()) from None
        raise

    def lowered(types: Mapping[str, TensorType], batch: int, refused: RefusedForms | None = None) -> Graph:
        graph = _graph(path, symbol, variables, stored)
        tree = build_tree(graph, symbol, variables, stored, class_name(_prefix(path), "Symbol"))
        lower(graph, symbol, variables, tree, types, budget(tree, types, batch), refused)
        return graph

    def probed(types: Mapping[str, TensorType], batch: int) -> Graph:
        """Return the graph of other sizes, of which nothing but types is wanted."""
        if any(node.op == "RNN" for node in symbol.all_operators()):  # which asks for modules
            return lowered(types, batch)
        tree = add_parameters(Graph(), variables, stored)
        lower(tree.graph, symbol, variables, tree, types, budget(tree, types, batch), known=known)
        return tree.graph

    def budget(tree: Tree, types: Mapping[str, TensorType], batch: int) -> Budget:
        held = sum(prod(tree.graph.parameter(v.node).data.shape) for v in tree.parameters.values())
        given = sum(prod(d if isinstance(d, int) else batch for d in t.shape or ()) for t in types.values())
        return Budget(batch, given, held)

    known = KnownTypes(symbol)

    def refused() -> RefusedForms:
        """Return the refusals of the whole symbol, at the sizes of the examples."""
        found = RefusedForms()
        types = {name: TensorType(dtype_name(a.dtype), tuple(a.shape)) for name, a in arrays.items()}
        lowered(types, next((a.shape[0] for a in arrays.values() if a.ndim), 1), found)
        return found

    if missing:
        raise refusal(missing, refused())
    try:
        graph = read_at_sizes(arrays, options, lowered, probed)
    except UnsupportedError as error:
        found = refused()
        if len(found.missing()) > 1:
            raise refusal([], found) from error
        raise
    graph.origin.inputs = arrays
    graph.origin.notes += notes
    if variables.parameters and stored.path is None:
        graph.origin.notes.append(
            f"no `{_prefix(path)}-0000.params` beside it: parameters have inferred shapes and no values"
        )
    return graph


def read_tree(model: object, options: LoadOptions) -> Graph:
    """Read only the modules and parameters: no operators, no calls, so any operator will do.

    Without a ``.params`` file the parameters have no values and no shapes.

    Raises:
        ModelError: when a file is malformed.
    """
    path = Path(str(model))
    symbol, stored = read_symbol(path), _stored(path, options)
    rename_structural(symbol, stored)
    variables = classify(symbol, stored)
    graph = _graph(path, symbol, variables, stored)
    build_tree(graph, symbol, variables, stored, class_name(_prefix(path), "Symbol"))
    return graph


def _prefix(path: Path) -> str:
    return path.name.removesuffix(".json").removesuffix("-symbol")


def _stored(path: Path, options: LoadOptions) -> Stored:
    return Stored.read(find_params(path) if options.params is None else Path(options.params))


def _graph(path: Path, symbol: Symbol, variables: Variables, stored: Stored) -> Graph:
    graph = Graph()
    origin = graph.origin
    note_framework(graph, "mxnet")
    origin.reference, origin.model = path.name, path
    if stored.path is not None:
        origin.parameters = stored.path
        origin.notes.append(f"parameters from {stored.path.name}")
    if stored.structural:
        name, saved = next(iter(stored.structural.items()))
        origin.notes.append(f"structural names, by the order of construction: `{saved}` is `{name}`, …")
    if variables.labels:
        names = ", ".join(f"`{n.name}`" for n in variables.labels.values())
        origin.notes.append(f"{names}: a label that only loss heads read is not an input in inference")
    used = {node.name for node in symbol.nodes}
    unused = [n for n in (*stored.arguments, *stored.auxiliary) if n not in used]
    if unused:
        shown = ", ".join(f"`{n}`" for n in unused[:5]) + (", …" if len(unused) > 5 else "")
        origin.notes.append(f"{len(unused)} stored arrays that the symbol does not use: {shown}")
    return graph


__all__ = ["read", "read_tree"]
