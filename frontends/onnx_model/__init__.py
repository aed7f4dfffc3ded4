"""Reads ONNX models, of any exporter and opset, as data."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ...ir import (
    Dim,
    Graph,
    InvalidGraphError,
    ModelError,
    TensorData,
    TensorType,
    UnsupportedError,
    require_name,
    require_shape,
)
from ...ir.dims import at_sizes
from ...ir.outside.names import near_names
from ...ir.outside.onnx_files import open_onnx, settle_links
from ...ir.outside.onnx_functions import inline_functions
from ...ir.outside.onnx_names import require_names
from ...ir.types import dtype_name
from ..alike import require_alike
from ..inputs import InputSpec
from ..options import LoadOptions
from ..registry import note_framework
from ..size_limits import Budget
from .constants import fit_to_type, take_constants
from .initializers import find_weights, stored_tensors, type_of_info
from .lowering import Lowering
from .made_weights import find_made_weights
from .old_exporters import mend
from .operation_scopes import OperationScopes, is_operation_path
from .own_calls import is_constant, own_calls
from .scales import find_scales
from .scopes import Modules, Scope, class_of, root_class, scopes_of
from .torch_exporter import Traced, undo_optimisations
from .transposed_copies import read_transposed_copies
from .weights import Weights

_PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
_MOST = 1 << 26  # elements of an example that nobody asked for
_BATCH, _LENGTH, _SIDE = 2, 8, 32  # of examples where the file leaves a size open


def read(model: object, inputs: Sequence[tuple[str, np.ndarray | None]], options: LoadOptions) -> Graph:
    """Read a model into a graph.

    Sizes that the file names are symbolic where the model reads alike with numbers there; else the graph has
    those of the examples, and a note in its origin says so.

    Args:
        model: path of an ``.onnx`` file, or an `onnx.ModelProto`.
        inputs: example inputs; those whose sizes the file states or names may be left out.
        options: how to load.

    Raises:
        ModelError: when the file is malformed (E101) or the inputs do not fit (E103).
        UnsupportedError: listing every operator without a lowering.
    """
    proto, path = _open(model)
    written = proto
    proto = inline_functions(proto, in_place=path is not None)
    proto, notes = mend(proto)
    if path is None:
        runs = proto if notes else written
    else:
        runs = proto if notes and not _has_other_files(proto) else path
    stored = stored_tensors(proto.graph, None if path is None else settle_links(proto, path))
    declared = _declared(proto, set(stored))
    constants = take_constants(options.constants, declared)
    stored |= {name: TensorData.of(array) for name, array in constants.items()}
    arrays = _bind(inputs, declared, notes)
    types = _symbolic(declared, arrays, options)
    held, given = (
        sum(map(prod, shapes))
        for shapes in ([data.shape for data in stored.values()], [a.shape for a in arrays.values()])
    )
    budget = partial(Budget, _BATCH, 4 * max(given, 1), held)
    stored |= find_made_weights(proto.graph, stored, budget().left)

    def built(traced: Traced) -> Graph:
        proto, stored = traced.model, traced.stored
        uses = find_weights(proto.graph, {n: data for n, data in stored.items() if n not in constants})
        if traced.weights is not None:
            uses = {name: count for name, count in uses.items() if name in traced.weights}
        own = own_calls(proto)
        if own is not None:
            uses = {name: count for name, count in uses.items() if not is_constant(name)}
        scopes = _scopes(proto, uses) if own is None else own.scopes()
        infos = (*proto.graph.value_info, *proto.graph.output)
        stated = {info.name: type_of_info(info) for info in infos}

        def lowered(types: dict[str, TensorType]) -> Graph:
            root = "" if own is None else own.classes.get("", "")
            graph = _graph(proto, path, root, has_modules=own is not None or _is_nested(proto, scopes))
            graph.origin.model = runs
            values = {name: graph.add_input(name, type_) for name, type_ in types.items()}
            modules = Modules(graph)
            weights = Weights(
                graph,
                stored,
                uses,
                modules,
                scoped=scopes is not None,
                stated=own is not None,
                scales=find_scales(proto.graph, uses) if scopes is None else (),
            )
            Lowering(proto, graph, modules, weights, stated, scopes, budget(), traced.made, own).run(values)
            weights.hold_aliases(traced.aliases)
            return graph

        graph = _read_at_sizes(types, arrays, lowered)
        graph.origin.inputs, graph.origin.constants = arrays, constants
        graph.origin.notes += [*notes, *traced.notes]
        graph.origin.aliases = frozenset(traced.aliases)
        held = {parameter.declared for parameter in graph.parameters()}
        buffers = [name for name in traced.buffers if name not in held]
        graph.origin.settled = {name: stored[name] for name in buffers if name in stored}
        graph.origin.computed = (*traced.computed, *(name for name in buffers if name not in stored))
        return graph

    traced = undo_optimisations(proto, stored)
    if traced is None:
        return built(read_transposed_copies(proto, stored))
    try:
        return built(traced)
    except (InvalidGraphError, ModelError, UnsupportedError):
        graph = built(Traced(proto, stored))
        graph.origin.notes.append(
            "the lines of the traced program that the file states do not fit its nodes, so layers and names "
            "are those of the nodes"
        )
        return graph


def _scopes(proto: onnx.ModelProto, weights: Container[str]) -> list[Scope] | None:
    """Return the scope of every node of the main graph; None for a file without scopes."""
    if _has_operation_paths(proto):
        paths = OperationScopes(proto.graph, weights).paths()
        return [tuple((name, "") for name in path) for path in paths]
    return scopes_of(proto)


def _has_other_files(proto: onnx.ModelProto) -> bool:
    """Whether a file's weights are in others, which a runtime finds by the place of the file."""
    return any(t.data_location == onnx.TensorProto.EXTERNAL for t in proto.graph.initializer)


def _is_nested(proto: onnx.ModelProto, scopes: Sequence[Scope] | None) -> bool:
    """Whether a file tells of modules that hold others; a Keras model of layers alone does not."""
    if scopes is None:
        return False
    return not _has_operation_paths(proto) or any(len(scope) > 1 for scope in scopes)


def _has_operation_paths(proto: onnx.ModelProto) -> bool:
    nodes = proto.graph.node
    return sum(is_operation_path(node.name) for node in nodes) * 2 > len(nodes)


def read_tree(model: object, options: LoadOptions) -> Graph:
    """Read the modules and parameters alone, with the sizes of the examples that the file allows."""
    return read(model, [], options)


def _open(model: object) -> tuple[onnx.ModelProto, Path | None]:
    if isinstance(model, onnx.ModelProto):
        proto, path = model, None
    else:
        path = Path(str(model))
        proto = open_onnx(path)
    require_names(proto, "the model" if path is None else str(path))
    if not proto.graph.node and not proto.graph.output:
        raise ModelError("E101", "expected an ONNX model with a graph, got none", place=str(path or ""))
    if not proto.graph.output:
        raise ModelError("E101", "expected an ONNX model with outputs, got none", place=str(path or ""))
    return proto, path


def _declared(proto: onnx.ModelProto, stored: set[str]) -> dict[str, TensorType]:
    """Return the types of the inputs that no initializer gives."""
    found: dict[str, TensorType] = {}
    for info in proto.graph.input:
        if info.name in stored:
            continue
        require_name(info.name, "the name of an input", "the model")
        type_ = type_of_info(info, is_input=True)
        if type_ is None:
            raise UnsupportedError(
                "E203", "expected tensors as inputs, got a sequence, map or optional", place=f"`{info.name}`"
            )
        if info.name in found:
            raise ModelError("E101", f"expected every input once, got `{info.name}` again")
        found[info.name] = type_
    return found


def _bind(
    inputs: Sequence[tuple[str, np.ndarray | None]], declared: dict[str, TensorType], notes: list[str]
) -> dict[str, np.ndarray]:
    """Return the example of every input by name, in the file's order."""
    known = list(declared)
    given: dict[str, np.ndarray] = {}
    for position, (name, array) in enumerate(inputs):
        if not name:
            if position >= len(known):
                raise ModelError(
                    "E103", f"expected at most {len(known)} inputs ({', '.join(known)}), got {len(inputs)}"
                )
            name = known[position]
        if name not in declared:
            near = near_names(name, known, 1)
            raise ModelError(
                "E103",
                f"expected an input among {', '.join(known) or 'none'}, got `{name}`",
                hint=f"did you mean `{near[0]}`?" if near else "",
            )
        if name in given:
            raise ModelError("E103", f"expected the input `{name}` once, got it twice")
        if array is not None:
            given[name] = fit_to_type(name, array, declared[name])
    sizes = _sizes_of(given, declared)
    missing = [n for n, t in declared.items() if n not in given and t.shape is None]
    if missing:
        raise ModelError(
            "E103",
            f"expected the shape of {', '.join(f'`{n}`' for n in missing)}, got none",
            hint=f"give {' '.join(f'--input {n}=2x3x224x224' for n in missing)} with the shape it has",
        )
    chosen: list[str] = []
    found: dict[str, np.ndarray] = {}
    for seed, (name, type_) in enumerate(declared.items()):
        if name not in given:
            require_shape(tuple(d for d in type_.shape or () if isinstance(d, int)), f"`{name}`")
            shape = tuple(_example(d, axis, type_, sizes) for axis, d in enumerate(type_.shape or ()))
            if prod(shape) > _MOST:
                raise ModelError(
                    "E103",
                    f"expected an example of `{name}`, which is too large to generate by default: "
                    f"{list(shape)}",
                    hint=f"give one: --input {name}={'x'.join(map(str, shape))}",
                )
            if not type_.is_static:
                chosen.append(f"{name}={'x'.join(map(str, shape))}")
            given[name] = InputSpec(name, shape, type_.dtype).array(seed)
        found[name] = given[name]
    if chosen:
        notes.append(
            f"example sizes, chosen because the file leaves them open: {', '.join(chosen)}; --input sets "
            f"others"
        )
    return found


def _sizes_of(given: dict[str, np.ndarray], declared: dict[str, TensorType]) -> dict[str, int]:
    """Return the sizes in the examples by symbolic name.

    Raises:
        ModelError: when one name has two sizes.
    """
    sizes: dict[str, int] = {}
    for name, array in given.items():
        for dim, size in zip(declared[name].shape or (), array.shape, strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                raise ModelError("E103", f"expected one size for `{dim}`, got {sizes[dim]} and {size}")
    return sizes


def _example(dim: Dim, axis: int, type_: TensorType, sizes: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    usual = _BATCH if axis == 0 else _SIDE if len(type_.shape or ()) >= 4 else _LENGTH
    return usual if dim is None else sizes.setdefault(dim, usual)


def _symbolic(
    declared: dict[str, TensorType], arrays: dict[str, np.ndarray], options: LoadOptions
) -> dict[str, TensorType]:
    """Types with a symbol wherever the file leaves a size open, or the caller wants one."""
    names: dict[str, str] = {}
    taken = {d for t in declared.values() for d in t.shape or () if isinstance(d, str) and d.isidentifier()}
    for name, axes in options.dynamic.items():
        if name not in arrays:
            raise ModelError("E103", f"expected an input among {', '.join(arrays)}, got `{name}`")
        for axis in axes:
            if not 0 <= axis < arrays[name].ndim:
                raise ModelError(
                    "E103", f"expected an axis below {arrays[name].ndim} of `{name}`, got {axis}"
                )
    found: dict[str, TensorType] = {}
    for name, type_ in declared.items():
        array = arrays[name]
        dims: list[Dim] = []
        for axis, size in enumerate(array.shape):
            dim = None if type_.shape is None else type_.shape[axis]
            wanted = options.dynamic.get(name)
            is_open = axis in wanted if wanted is not None else not isinstance(dim, int)
            if not is_open or (axis == 0 and not options.dynamic_batch):
                dims.append(size)
            elif isinstance(dim, str):
                dims.append(names.setdefault(dim, _symbol(dim, taken)))
            else:
                dims.append(_symbol(f"{name}_{axis}", taken))
        found[name] = TensorType(dtype_name(array.dtype), tuple(dims))
    return found


def _symbol(text: str, taken: set[str]) -> str:
    """Return a name for a size, as types write them."""
    if text.isidentifier():
        return text
    plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in text)
    plain = plain if plain.isidentifier() else f"d_{plain}"
    while plain in taken:
        plain += "_"
    taken.add(plain)
    return plain


def _read_at_sizes(types: dict[str, TensorType], arrays: dict[str, np.ndarray], lowered: Any) -> Graph:
    """Return the graph with symbols where numbers read the same, else with the examples' sizes."""
    static = {name: TensorType(dtype_name(a.dtype), tuple(a.shape)) for name, a in arrays.items()}
    symbols = {
        dim: size
        for name, type_ in types.items()
        for dim, size in zip(type_.shape or (), arrays[name].shape, strict=True)
        if isinstance(dim, str)
    }
    if not symbols:
        return lowered(static)
    own = lowered(static)  # what is wrong at the sizes of the examples is told of them
    try:
        graph = lowered(types)
        require_alike(graph, own, symbols)
        used = {d for a in arrays.values() for d in a.shape}
        primes = [p for p in _PRIMES if p not in used]
        other = {dim: primes[i % len(primes)] for i, dim in enumerate(symbols)}
        numbers = {
            n: t.with_shape(tuple(at_sizes(d, other) for d in t.shape or ())) for n, t in types.items()
        }
        require_alike(graph, lowered(numbers), other)
    except (UnsupportedError, ModelError) as error:
        place = f" - at {error.place}" if error.place else ""
        own.origin.notes.append(f"the sizes are fixed: {error.message}{place}")
        return own
    return graph


def _graph(proto: onnx.ModelProto, path: Path | None, root: str, *, has_modules: bool) -> Graph:
    graph = Graph()
    note_framework(graph, "onnx")
    origin = graph.origin
    origin.has_modules = has_modules
    origin.keyed = True
    origin.trusted = True  # ONNX Runtime runs no code of a model's author
    origin.reference = path.name if path is not None else proto.graph.name or "a model"
    name = (
        root or root_class(proto) or class_of(path.stem if path is not None else proto.graph.name or "Model")
    )
    graph.modules.add(name if name.isidentifier() else "Model")
    return graph


__all__ = ["read", "read_tree"]
