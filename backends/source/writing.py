"""Writes the folder of an emitted net: its source, its weights, and the map of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.elements import Entry
from ...formats.files import staged
from ...formats.renames import (
    DERIVED,
    Rename,
    added_rows,
    dropped_rows,
    fixed_shapes,
    rename_rows,
    write_renames,
)
from ...formats.safetensors_file import write_shards
from ...formats.shard_index import INDEX, INDEXES, Shard, earlier_files, file_names, split
from ...ir import Graph, Parameter, TensorData, TensorType, numpy_dtype
from ...ir.provenance import SourceParameter
from .dialect import Dialect
from .places import Program, join_path
from .program import make_program


def write_source(
    graph: Graph,
    legal: Graph,
    folder: Path,
    dialect: Dialect,
    *,
    to: str,
    suffix: str,
    limit: int | None = None,
    force: bool = False,
    explicit: bool = False,
    write_one: Callable[[Path, Sequence[Entry]], None] | None = None,
    names_ties: bool = False,
    indexes: Sequence[str] = INDEXES,
) -> list[Path]:
    """Write ``model.py``, its weights and ``renames.json`` into a folder, all of them or none.

    Args:
        graph: the graph before the target's passes.
        legal: the graph after them.
        folder: made if need be.
        dialect: what is written.
        to: name of the target.
        suffix: of the file of weights.
        limit: most bytes of weights in a file; None for one file.
        force: replace files of the same names.
        explicit: whether layers state the initial distributions that are the framework's defaults too.
        write_one: writes the weights into one file of the framework's own format; None for safetensors.
        names_ties: whether that file has a tied tensor under each of its names; entries of one tensor then
            have one handle.
        indexes: names of the index of shards.

    Returns:
        The files written.

    Raises:
        BackendError: when the graph cannot be expressed.
        UsageError: when a file exists already.
    """
    entries: list[Entry] = []
    shards: list[Shard] = []

    def name_checkpoint(program: Program) -> str:
        apart = bool(dialect.constants_file)
        entries.extend(_entries(graph, legal, program, apart=apart, names_ties=names_ties))
        sizes = {name: data.nbytes for name, data, _ in entries}
        shards.extend(split(sizes, limit or sum(sizes.values()), ("model", suffix)))
        return INDEX if len(shards) > 1 else shards[0].file

    program = make_program(legal, dialect, name_checkpoint, explicit=explicit)
    constants = [(n, d, d.shape) for n, d in program.constants] if dialect.constants_file else []
    beside = [dialect.constants_file] if constants else []
    names = ["model.py", *file_names(shards, indexes), *beside, "renames.json"]
    with staged(folder, names, force=force, obsolete=earlier_files(folder)) as stage:
        (stage / names[0]).write_text(program.text, encoding="utf-8")
        if write_one is not None:
            write_one(stage / shards[0].file, entries)
        else:
            write_shards(stage, entries, shards, indexes)
        targets = {p.key: _target(p, legal, program) for p in graph.parameters()}
        joins = _joins(graph, legal, program)
        joined = {name for join in joins for name in join["target"]}
        if constants:
            write_shards(stage, constants, [Shard(dialect.constants_file, tuple(n for n, *_ in constants))])
        write_renames(
            stage / names[-1],
            [
                *(row for row in rename_rows(graph, targets) if row.target not in joined),
                *_dropped_rows(graph, program),
                *_added_rows(graph, program, apart=bool(constants)),
            ],
            source=graph.origin.framework,
            target=to,
            modules=program.renamed_modules,
            joins=joins,
            packed=graph.origin.packed,
            inputs=fixed_shapes(graph),
            computed=graph.origin.computed,
        )
    return [folder / name for name in names]


def _target(parameter: Parameter, legal: Graph, program: Program) -> tuple[str, str, tuple[int, ...]]:
    """Return the name of a parameter in the net, what happens to its values, and their shape there."""
    place = program.targets.get(parameter.key)
    if place is None:
        return "", "", ()
    transform = place.transform
    if legal.provenance is not None and parameter.key in legal.provenance.parts:
        transform = DERIVED  # unless `_joins` says how
    elif legal.parameter(parameter.key).data is not parameter.data:  # a dense layer's, of a matrix product
        transform = "transpose:1,0" if len(place.shape) == 2 else "reshape"
    return place.name, transform, place.shape


def _joins(graph: Graph, legal: Graph, program: Program) -> list[dict[str, Any]]:
    """Return a record for each parameter that the net has in parts, where no pass changed its values."""
    known, parts = graph.provenance, legal.provenance.parts if legal.provenance is not None else {}
    found: list[dict[str, Any]] = []
    for key, part in parts.items():
        whole = graph.parameter(key)
        source = None if known is None else known.parameters.get(key)
        if known is not None and (source is None or source.data is not whole.data or not source.persistent):
            continue
        places = [program.targets[k] for k in part.keys]
        found.append(
            {
                "source": {whole.declared: list(whole.data.shape)},
                "target": {place.name: list(place.shape) for place in places},
                "dtype": whole.data.dtype,
                "order": list(part.order),
            }
        )
    return found


def _entries(
    graph: Graph, legal: Graph, program: Program, *, apart: bool, names_ties: bool
) -> Iterator[Entry]:
    """Yield every tensor of the checkpoint.

    Args:
        graph: the graph before the target's passes.
        legal: the graph after them.
        program: the emitted model.
        apart: whether its constants lie in a file of their own.
        names_ties: whether a tied tensor comes under each of its names.
    """
    for key, target in program.targets.items():
        data = legal.parameter(key).data.reshaped(target.shape) if names_ties else legal.parameter(key).data
        for name in (target.name, *(target.ties if names_ties else ())):
            yield name, data, target.shape
    for name, data in [*([] if apart else program.constants), *_filled(graph, program)]:
        yield name, data, data.shape


def _filled(graph: Graph, program: Program) -> Iterator[tuple[str, TensorData]]:
    """Yield the tensors that the framework's layers hold and the graph does not, with the source's values."""
    kept = _kept(graph, program)
    for name, fill, size, dtype in program.extra:
        if name in kept:
            yield name, kept[name].data
        else:
            yield name, TensorData.of(np.full(size, fill, numpy_dtype(dtype)))


def _kept(graph: Graph, program: Program) -> dict[str, SourceParameter]:
    """Return name of such a tensor -> what the source has there, though no operator reads it: a counter."""
    if graph.provenance is None:
        return {}
    found: dict[str, SourceParameter] = {}
    types = {
        name: TensorType(dtype, (size,) if isinstance(size, int) else size)
        for name, _, size, dtype in program.extra
        if not dtype.startswith(("float", "bfloat"))  # a scale that the source stores and does not use
    }
    for key in graph.provenance.dropped:
        source = graph.provenance.parameters[key]
        for path in source.paths if source.persistent else ():
            module, _, last = path.rpartition(".")
            name = join_path(program.renamed_modules.get(module, module), last)
            if types.get(name) == source.data.type:
                found[name] = source
    return found


def _dropped_rows(graph: Graph, program: Program) -> list[Rename]:
    """Return the rows of what the graph has no more; of what the framework's layers keep, with its name."""
    names = {path: name for name, source in _kept(graph, program).items() for path in source.paths}
    rows = dropped_rows(graph)
    return [
        replace(row, target=name, by="", transform="identity", target_shape=row.shape)
        if (name := names.get(row.source_path))
        else row
        for row in rows
    ]


def _added_rows(graph: Graph, program: Program, *, apart: bool) -> list[Rename]:
    """Return the rows of what only the target's checkpoint has; its constants may lie `apart` from it."""
    kept = _kept(graph, program)
    added = [*([] if apart else program.constants), *_filled(graph, program)]
    return added_rows((name, data) for name, data in added if name not in kept)
