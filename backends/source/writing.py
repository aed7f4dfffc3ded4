"""Writes the folder of an emitted net: its source, its weights, and the map of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ...formats.elements import Entry
from ...formats.files import staged
from ...formats.renames import added_rows, dropped_rows, fixed_shapes, rename_rows, write_renames
from ...formats.safetensors_file import write_shards
from ...formats.shard_index import INDEX, Shard, earlier_files, file_names, split
from ...ir import Graph, Parameter, TensorData, numpy_dtype
from .dialect import Dialect
from .places import Program
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

    Returns:
        The files written.

    Raises:
        BackendError: when the graph cannot be expressed.
        UsageError: when a file exists already.
    """
    entries: list[Entry] = []
    shards: list[Shard] = []

    def name_checkpoint(program: Program) -> str:
        entries.extend(_entries(legal, program, apart=bool(dialect.constants_file)))
        sizes = {name: data.nbytes for name, data, _ in entries}
        shards.extend(split(sizes, limit or sum(sizes.values()), ("model", suffix)))
        return INDEX if len(shards) > 1 else shards[0].file

    program = make_program(legal, dialect, name_checkpoint, explicit=explicit)
    constants = [(n, d, d.shape) for n, d in program.constants] if dialect.constants_file else []
    beside = [dialect.constants_file] if constants else []
    names = ["model.py", *file_names(shards), *beside, "renames.json"]
    with staged(folder, names, force=force, obsolete=earlier_files(folder)) as stage:
        (stage / names[0]).write_text(program.text, encoding="utf-8")
        if write_one is not None:
            write_one(stage / shards[0].file, entries)
        else:
            write_shards(stage, entries, shards)
        added = _added_tensors(program, apart=bool(constants))
        targets = {p.key: _target(p, legal, program) for p in graph.parameters()}
        if constants:
            write_shards(stage, constants, [Shard(dialect.constants_file, tuple(n for n, *_ in constants))])
        write_renames(
            stage / names[-1],
            [*rename_rows(graph, targets), *dropped_rows(graph), *added_rows(added)],
            source=graph.origin.framework,
            target=to,
            modules=program.renamed_modules,
            packed=graph.origin.packed,
            inputs=fixed_shapes(graph),
        )
    return [folder / name for name in names]


def _target(parameter: Parameter, legal: Graph, program: Program) -> tuple[str, str, tuple[int, ...]]:
    """Return the name of a parameter in the net, what happens to its values, and their shape there."""
    place = program.targets.get(parameter.key)
    if place is None:
        return "", "", ()
    transform = place.transform
    if legal.parameter(parameter.key).data is not parameter.data:  # a dense layer's, of a matrix product
        transform = "transpose:1,0" if len(place.shape) == 2 else "reshape"
    return place.name, transform, place.shape


def _entries(graph: Graph, program: Program, *, apart: bool) -> Iterator[Entry]:
    """Yield every tensor of the checkpoint; tied ones once."""
    for key, target in program.targets.items():
        yield target.name, graph.parameter(key).data, target.shape
    for name, data in _added_tensors(program, apart=apart):
        yield name, data, data.shape


def _added_tensors(program: Program, *, apart: bool) -> Iterator[tuple[str, TensorData]]:
    """Yield every tensor of the checkpoint that is not a parameter of the graph.

    Args:
        program: the emitted model.
        apart: whether its constants lie in a file of their own.
    """
    if not apart:
        yield from program.constants
    for name, fill, size, dtype in program.extra:
        yield name, TensorData.of(np.full(size, fill, numpy_dtype(dtype)))
