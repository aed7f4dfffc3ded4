"""``renames.json``: source name -> target name of every parameter, versioned and invertible."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path

import numpy as np

from ..ir import Graph, ModelError, Parameter, TensorData, read_json
from ..ir.folding import Fold
from ..ir.provenance import Provenance, record

VERSION = 1
DERIVED, FOLDED = "derived", "folded"
SETTLED = "constant"  # a buffer of the source whose values are a constant of the graph
_UNUSED = "drop-unused-modules"  # the pass after which a parameter is gone because nothing reads it


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation that was folded into a layer's weight or bias.

    Attributes:
        statistics: gamma, beta, mean and variance: module paths in the source; "" for what it does not hold.
        values: elements (`packed`) of each statistic that the source does not hold; "" for the others.
        epsilon: what is added to the variance.
        axis: the weight's axis of output channels in the source's layout; -1 for the bias.
    """

    statistics: list[str]
    values: list[str]
    epsilon: float
    axis: int


@dataclass(frozen=True, slots=True)
class Rename:
    """The conversion of one parameter from the source to the target.

    Attributes:
        source: declared name in the source; empty for what only the target has.
        source_path: module path that held it in the source (distinct even where declared names collide).
        target: name in the target's checkpoint; empty for what only the source has.
        by: the pass that renamed, tied or dropped it, or the backend's convention; "alias" for a further name
            under which the source saves one parameter; empty when the name is the same.
        transform: what happens to the values: "identity", "reshape", "transpose:1,0"; "folded" where
            they take `norms` in, with the axes of a transposition after it; "derived" where a pass computed
            others.
        shape: shape in the source.
        target_shape: shape in the target.
        dtype: element type.
        tie: target name of the parameter that holds the values, when this one was tied into it.
        buffer: whether no gradient reaches it by design.
        values: the elements (`packed`) of what only the target holds, in its shape; and of a buffer of the
            source that is a constant of the target, from which the source's own must not differ.
        norms: the normalisations folded into the values, in order.
    """

    source: str
    source_path: str
    target: str
    by: str = ""
    transform: str = "identity"
    shape: list[int] = field(default_factory=list)
    target_shape: list[int] = field(default_factory=list)
    dtype: str = "float32"
    tie: str = ""
    buffer: bool = False
    values: str = ""
    norms: list[Norm] = field(default_factory=list)


def rename_rows(
    graph: Graph, targets: dict[int, tuple[str, str, tuple[int, ...]]] | None = None
) -> list[Rename]:
    """Return the rows of a graph.

    Args:
        graph: after the passes.
        targets: parameter key -> (target name, transform, target shape) where the backend changes any.
    """
    provenance = graph.provenance or record(graph)
    rows: list[Rename] = []
    paths = graph.parameter_paths()
    for key, source in provenance.parameters.items():  # a pass may have moved modules
        paths[key] = list(dict.fromkeys([*source.paths, *paths.get(key, [])]))
    held = provenance.group_by_holder()
    for parameter in graph.parameters():
        target, transform, shape = (targets or {}).get(
            parameter.key, (parameter.name, "identity", parameter.data.shape)
        )
        source = provenance.parameters.get(parameter.key)
        if not target and source is not None and not source.persistent:
            continue  # no checkpoint has it, on either side
        norms = _norms(provenance, parameter)
        if target and norms:
            _, _, axes = transform.partition(":")
            transform = f"{FOLDED}:{axes}" if axes else FOLDED
        elif target and (source is None or source.data is not parameter.data):
            transform = DERIVED
        row = _row(parameter, parameter.declared, paths, target, transform, shape, tie="")
        if norms:
            row = replace(row, norms=norms)
        if source is None and norms:
            row = replace(row, source="", source_path="")
        elif source is not None and not source.persistent and not computed(transform) and target:
            row = replace(row, values=packed(source.data))
        rows.append(row)
        rows += [
            _row(parameter, declared, paths, target, transform, shape, tie=target)
            for declared in parameter.absorbed
        ]
        rows += [
            replace(row, source=path, source_path=path, by="alias", tie=target, values="")
            for path in _aliases(provenance, held.get(parameter.key, []), parameter)
            if graph.origin.framework == "torch" or path in graph.origin.aliases
        ]
        rows += _make_turned_rows(graph, provenance, held.get(parameter.key, []), target, transform, shape)
    return rows


def computed(transform: str) -> bool:
    """Whether the target's values differ from the source's."""
    return transform.partition(":")[0] in (DERIVED, FOLDED)


def _norms(provenance: Provenance, parameter: Parameter) -> list[Norm]:
    """Return the normalisations folded into a parameter; none if unknown or not saved by the source."""
    source = provenance.parameters.get(parameter.key)
    if source is not None and not source.persistent:
        return []
    folds = provenance.folds.get(parameter.key, ())
    norms = [_norm(provenance, fold, parameter.data.dtype) for fold in folds]
    return [] if None in norms else [n for n in norms if n is not None]


def _norm(provenance: Provenance, fold: Fold, dtype: str) -> Norm | None:
    """Return the record of a folded normalisation; None if its values are not known."""
    names, values = [], []
    for statistic in fold.statistics:
        source = None if isinstance(statistic, TensorData) else provenance.parameters[statistic]
        held = source is not None and source.persistent
        data = statistic if source is None else source.data
        assert isinstance(data, TensorData)
        names.append((*source.paths, source.declared)[0] if source is not None and held else "")
        values.append("" if held or data.dtype != dtype else packed(data))
    known = all(name or value for name, value in zip(names, values, strict=True))
    return Norm(names, values, fold.epsilon, fold.axis) if known else None


def _make_turned_rows(
    graph: Graph,
    provenance: Provenance,
    held: Iterable[int],
    target: str,
    transform: str,
    shape: tuple[int, ...],
) -> list[Rename]:
    """Return rows of parameters that were tied into another one transposed."""
    rows: list[Rename] = []
    for key in held:
        if key not in provenance.turned:
            continue
        axes, source = provenance.turned[key], provenance.parameters[key]
        names = [source.declared, *(source.paths if graph.origin.framework == "torch" else ())]
        rows += [
            Rename(
                name,
                source.paths[0] if name == source.declared and source.paths else name,
                target,
                "tie-weights",
                _compose_axes(axes, transform),
                list(source.data.shape),
                list(shape),
                source.data.dtype,
                target,
                source.is_buffer,
            )
            for name in dict.fromkeys(names)
            if source.persistent
        ]
    return rows


def _compose_axes(axes: Sequence[int], transform: str) -> str:
    """Return the transform of a tensor tied transposed into a parameter, from that parameter's transform."""
    kind, _, order = transform.partition(":")
    if kind not in ("identity", "transpose"):
        return DERIVED
    wanted = [int(a) for a in order.split(",")] if order else range(len(axes))
    return "transpose:" + ",".join(str(list(axes).index(axis)) for axis in wanted)


def _aliases(provenance: Provenance, held: Iterable[int], parameter: Parameter) -> list[str]:
    """Return further names under which the source saves a parameter."""
    sources = [provenance.parameters[k] for k in held if k not in provenance.turned]
    names = [path for source in sources for path in source.paths if source.persistent]
    return [n for n in dict.fromkeys(names) if n != parameter.declared and n not in parameter.absorbed]


def dropped_rows(graph: Graph) -> list[Rename]:
    """Return rows without a target, for tensors of the source's checkpoints that the graph dropped."""
    provenance = graph.provenance
    settled = [
        Rename(n, n, "", SETTLED, shape=list(d.shape), dtype=d.dtype, buffer=True, values=packed(d))
        for n, d in graph.origin.settled.items()
    ]
    if provenance is None:
        return settled
    taken_in = {
        key
        for parameter, folds in provenance.folds.items()
        if parameter in graph and _norms(provenance, graph.parameter(parameter))
        for fold in folds
        for key in fold.statistics
        if isinstance(key, int)
    }
    rows = settled
    for key, by in provenance.dropped.items():
        source = provenance.parameters[key]
        names = [source.declared, *source.paths] if graph.origin.framework == "torch" else [source.declared]
        if source.persistent:
            rows += [
                Rename(
                    name,
                    name if name in source.paths or not source.paths else source.paths[0],
                    "",
                    by,
                    "identity" if by == _UNUSED or key in taken_in else DERIVED,
                    shape=list(source.data.shape),
                    dtype=source.data.dtype,
                    buffer=source.is_buffer,
                )
                for name in dict.fromkeys(names)
            ]
    return rows


def added_rows(entries: Iterable[tuple[str, TensorData]]) -> list[Rename]:
    """Return rows with values, for tensors that only the target has."""
    return [
        Rename(
            "",
            "",
            name,
            "backend",
            shape=list(data.shape),
            target_shape=list(data.shape),
            dtype=data.dtype,
            buffer=True,
            values=packed(data),
        )
        for name, data in entries
    ]


def packed(data: TensorData) -> str:
    """Return values as text: base64 of deflated little-endian bytes; empty if there is no data."""
    if data.load is None:
        return ""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(data.numpy()).tobytes(), 9)).decode("ascii")


def _row(
    parameter: Parameter,
    declared: str,
    paths: dict[int, list[str]],
    target: str,
    transform: str,
    shape: tuple[int, ...],
    tie: str,
) -> Rename:
    """Return the row of a parameter under one of the names that the source has for it."""
    held = paths.get(parameter.key, [])
    path = declared if tie and declared in held else held[0] if held else declared
    by = "tie-weights" if tie else "rename-parameters" if declared != parameter.name else ""
    if not by and target != declared:
        by = "backend"
    return Rename(
        declared,
        path,
        target,
        by,
        transform,
        list(parameter.data.shape),
        list(shape),
        parameter.data.dtype,
        tie,
        parameter.is_buffer,
    )


def write_renames(
    path: Path,
    rows: Sequence[Rename],
    *,
    source: str,
    target: str,
    modules: dict[str, str] | None = None,
    calls: Sequence[dict[str, object]] = (),
    joins: Sequence[dict[str, object]] = (),
    packed: Mapping[str, Sequence[str]] | None = None,
    target_packed: Mapping[str, Sequence[str]] | None = None,
    inputs: Sequence[Sequence[int]] = (),
    computed: Sequence[str] = (),
) -> None:
    """Write ``renames.json``.

    Args:
        path: the file.
        rows: one per parameter.
        source: framework of the source.
        target: framework of the target.
        modules: source module path -> target module path, where they differ.
        calls: the source's module calls and the target's nodes in each, for a target that has no modules.
        joins: groups of tensors that one side keeps together and the other apart.
        packed: name of a vector in the source's checkpoints -> the names, among the rows' sources, of what it
            holds, in order.
        target_packed: likewise of the target.
        inputs: the shapes of the inputs, of a target that was written for these alone and does not say so.
        computed: the source's tensors of which the target has only what an exporter computed with them.
    """
    document: dict[str, object] = {
        "format": "regraft-renames",
        "version": VERSION,
        "source": source,
        "target": target,
        "modules": modules or {},
        "parameters": [_document(row) for row in rows],
    }
    shapes = {row.source: (row.shape, row.dtype) for row in rows if row.source}
    theirs = {row.target: (row.target_shape, row.dtype) for row in rows if row.target}
    vectors = {"source": _vectors(packed or {}, shapes), "target": _vectors(target_packed or {}, theirs)}
    for name, found in (("calls", calls), ("joins", joins)):
        if found:
            document[name] = list(found)
    if any(vectors.values()):
        document["packed"] = vectors
    if computed:
        document["computed"] = list(computed)
    if inputs:
        document["inputs"] = [list(shape) for shape in inputs]
    entries = [f" {json.dumps(name)}: {_text(value)}" for name, value in document.items()]
    path.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")


def _text(value: object) -> str:
    """Return JSON of a part with one list element per line: Python's indenting encoder is slow."""
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n ]"
    return json.dumps(value, indent=1, ensure_ascii=False).replace("\n", "\n ")


def _vectors(
    packed: Mapping[str, Sequence[str]], shapes: Mapping[str, tuple[list[int], str]]
) -> list[dict[str, object]]:
    """Return records of vectors and of what they hold, of those whose parameters are all known."""
    return [
        {
            "source": {vector: [sum(prod(shapes[name][0]) for name in names)]},
            "target": {name: shapes[name][0] for name in names},
            "dtype": shapes[names[0]][1],
        }
        for vector, names in packed.items()
        if names and all(name in shapes for name in names)
    ]


_COLUMNS = tuple(f.name for f in fields(Rename) if f.name not in ("values", "norms"))
_OF_NORM = tuple(f.name for f in fields(Norm))


def _document(row: Rename) -> dict[str, object]:
    """Return a row as JSON; values and norms only where there are any."""
    found = {name: getattr(row, name) for name in _COLUMNS}
    if row.values:
        found["values"] = row.values
    if row.norms:
        found["norms"] = [{name: getattr(norm, name) for name in _OF_NORM} for norm in row.norms]
    return found


def fixed_shapes(graph: Graph) -> list[list[int]]:
    """Return the shapes of a graph's inputs; none where one has an open axis."""
    shapes = [node.type.shape for node in graph.input_nodes()]
    found = [[dim for dim in shape or () if isinstance(dim, int)] for shape in shapes]
    open_ = any(shape is None or len(sizes) < len(shape) for shape, sizes in zip(shapes, found, strict=True))
    return [] if open_ else found


def read_renames(path: Path) -> dict[str, object]:
    """Read ``renames.json``.

    Raises:
        ModelError: when it is missing, malformed or of another version.
    """
    document = read_json(path)
    if (
        not isinstance(document, dict)
        or document.get("format") != "regraft-renames"
        or document.get("version") != VERSION
    ):
        raise ModelError("E101", f"expected a renames.json of version {VERSION}", place=str(path))
    return document


def target_of(path: Path) -> str:
    """Return the framework of the target in a ``renames.json``; empty where the file does not say so."""
    try:
        return str(read_renames(path).get("target", ""))
    except ModelError:
        return ""
