"""Writes which parameter of two nets is which as a ``renames.json``, by which checkpoints convert."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from ...checkpoints.joins import Fused, Join, take_joined
from ...checkpoints.mapping import Map
from ...checkpoints.packed import is_vector, stem_of, taken_apart, vector_of
from ...checkpoints.prefixes import aligned
from ...checkpoints.spelling import COUNTER, plain_name, universal_name
from ...formats.files import staged
from ...formats.renames import Rename, packed, read_renames, rename_rows, write_renames
from ...ir import Graph, ModelError, Parameter, TensorData, numpy_dtype
from ...ir.fixed_scales import is_fixed_scale
from .by_order import order_refused, pairs_by_order, text_of_pairs
from .constants import constants_of_layers, names_of
from .layers import Net
from .pair_map import PairMap
from .pairing import Pairing, pair

_LISTED = 20


def write_pairing(path: Path, pairing: Pairing, joins: Sequence[Join] = ()) -> None:
    """Write the pairs of two nets; a file that holds another map is replaced, any other is not.

    Args:
        path: the file.
        pairing: the pairs.
        joins: what one side keeps together, by the names in the graphs.

    Raises:
        UsageError: when the file exists and is no map.
    """
    sides = pairing.source.graph, pairing.target.graph
    try:
        own = path.is_file() and bool(read_renames(path))
    except ModelError:  # it is something else
        own = False
    with staged(path.parent, [path.name], force=own) as folder:
        source, target = (graph.origin.framework for graph in sides)
        saved = _by_saved_names(joins, pairing)
        held = {name for join in saved for name in join.source}
        rows = [row for row in _rows(pairing) if row.source not in held]
        joined = [join.to_json() for join in saved]
        write_renames(
            folder / path.name,
            rows,
            source=source,
            target=target,
            joins=joined,
            packed=sides[0].origin.packed,
            target_packed=sides[1].origin.packed,
        )


def _by_saved_names(joins: Sequence[Join], pairing: Pairing) -> list[Join]:
    """Joins by the names that checkpoints of the nets have."""
    mine, theirs = (
        {net.names[key]: names[0] for key, names in _saved_names(net.graph).items()}
        for net in (pairing.source, pairing.target)
    )
    return [
        replace(
            join,
            source={mine[name]: shape for name, shape in join.source.items()},
            target={theirs[name]: shape for name, shape in join.target.items()},
        )
        for join in joins
    ]


def map_like(
    net: Graph,
    source: Path | str,
    given: Mapping[str, TensorData],
    pairs: PairMap | None,
    fused: Sequence[Fused | Join],
    notes: list[str],
    *,
    by_order: bool = False,
) -> tuple[Map, dict[str, TensorData]]:
    """Return a map from a checkpoint's tensors to a net's parameters, and the tensors by its names.

    Args:
        net: the tree of the net.
        source: the checkpoint's file.
        given: its weights.
        pairs: what the user says of their names.
        fused: what the user says of modules that one side keeps together, or a map of its tensors.
        notes: gets how they were paired.
        by_order: whether the order of both sides may pair parameters of one shape.

    Raises:
        ModelError: when a parameter of the net has no counterpart of its shape (E801), or nothing tells which
            it is, or order alone (E703).
    """
    paths = net.parameter_paths()
    shapes = {n: p.data.shape for p in net.parameters() for n in (p.declared, *paths.get(p.key, ()))}
    aligned_tensors = given = _with_paths(aligned(given, shapes, notes, insert=True), net)
    vectors, zeros = _vectors(given, shapes, notes)
    given = taken_apart(vectors, given) | zeros
    joins = [join for each in fused if isinstance(each, Fused) for join in each.joins(given, shapes)]
    stated = [join for each in fused if isinstance(each, Join) for join in (each, each.turned())]
    joins += [j.typed(given) for j in stated if j.source.keys() <= given.keys()]
    joins += _vectors_of(net, given, notes)
    joined, alone = take_joined(joins, given)
    given = {**alone, **joined}
    laid = _turned(given, net, str(source))
    given |= laid
    tied = _tied(given, net)
    given = {name: data for name, data in given.items() if name not in tied}
    stated = None if pairs is None else replace(pairs, fused=())
    pairing = pair(_graph_of(given), net, stated, in_order=True)
    found = [p for p in pairing.parameters.values() if not p.fits]
    problems = [
        f"  `{p.source}`: {list(p.shape)} against {list(p.target_shape)} of `{p.target}`" for p in found
    ]
    own = names_of(net, constants_of_layers(net))
    lacking = [name for name in pairing.only_target if not _is_counter(name) and name not in own]
    problems += _lacking(lacking, net, given)
    if problems:
        unplaced = _unplaced(pairing.only_source, lacking, given)
        problems += [f"  only in the checkpoint: `{name}` {list(given[name].shape)}" for name in unplaced]
        more = [f"  and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
        head = f"the checkpoint `{source}` does not fit the net:"
        text = "\n".join([head, *problems[:_LISTED], *more])
        hint = _fused_hint(pairing.only_source, lacking) or _size_hint(lacking, net, given)
        hint = hint or _pair_hint(unplaced, lacking)
        raise ModelError("E801", text, place=str(source), hint=hint)
    if ordered := pairs_by_order(pairing):
        if not by_order:
            raise order_refused(pairing, ordered, str(source))
        notes.append(f"paired by order alone, as --by-order says: {text_of_pairs(ordered)}")
    by = (p.by for p in pairing.parameters.values())
    notes += [f"paired: {', '.join(f'{n} by {b}' for b, n in Counter(by).items())}", *pairing.notes]
    rows = [
        replace(row, shape=row.shape[::-1], transform="transpose:1,0") if row.source in laid else row
        for row in _rows(pairing, tied)
    ]
    if laid:
        notes.append(f"{len(laid)} matrices of the checkpoint are transposed: `{next(iter(laid))}`, …")
    named = {row.source: row.target for row in rows if row.source in joined and row.target}
    joins = [replace(j, target={named.get(n, n): s for n, s in j.target.items()}) for j in joins]
    rows = [row for row in rows if row.source not in joined]
    rows = [
        replace(row, source="", source_path="", values=packed(zeros[row.source]))
        if row.source in zeros
        else row
        for row in rows
    ]
    saved = _saved_names(net)
    types = {name: p.data.dtype for p in net.parameters() for name in saved[p.key]}
    return Map(Path(source), "", net.origin.framework, rows, joins, (vectors, []), types), aligned_tensors


def _with_paths(given: Mapping[str, TensorData], net: Graph) -> dict[str, TensorData]:
    """A checkpoint whose names have paths, as the net's: a symbol's `conv0_weight` is `conv0.weight`."""
    if any("." in name for name in given) or not net.origin.has_modules:
        return dict(given)
    found = {universal_name(name): data for name, data in given.items()}
    return found if len(found) == len(given) else dict(given)


def _tied(given: Mapping[str, TensorData], net: Graph) -> dict[str, str]:
    """Further names in a checkpoint of a tensor that the net has once -> the name that is paired."""
    paths = net.parameter_paths()
    held: dict[str, list[str]] = {}
    for name in given:
        held.setdefault(plain_name(name), []).append(name)
    found: dict[str, str] = {}
    for parameter in net.parameters():
        names = dict.fromkeys(plain_name(n) for n in (*paths.get(parameter.key, ()), parameter.declared))
        here = [name for each in names for name in held.get(each, ())]
        if len(here) > 1 and len({given[n].shape for n in here}) == 1:
            found |= dict.fromkeys(here[1:], here[0])
    return found


def _vectors(
    given: Mapping[str, TensorData],
    shapes: Mapping[str, tuple[int, ...]],
    notes: list[str],
) -> tuple[list[Join], dict[str, TensorData]]:
    """(how vectors of a checkpoint become parameters of recurrent layers, zeros for what they lack)."""
    joins: list[Join] = []
    zeros: dict[str, TensorData] = {}
    for name, data in given.items():
        vector = None
        if is_vector(name, data.shape) and shapes.get(name) != data.shape:
            vector = vector_of(name, prod(data.shape), shapes)
        if vector is None:
            continue
        head = f"{stem}." if (stem := stem_of(name)) else ""
        parts = {f"{head}{role}": shapes[other] for role, other in vector.roles.items()}
        joins.append(Join({name: data.shape}, parts, data.dtype))
        notes.append(f"`{name}` is one vector of {len(parts)} parameters of a recurrent layer")
        for role, other in vector.absent.items():
            zeros[f"{head}{role}"] = TensorData.of(np.zeros(shapes[other], numpy_dtype(data.dtype)))
        if vector.absent:
            notes.append(f"`{name}` has one bias where the net has two: regraft fills the other with zeros")
    return joins, zeros


def _vectors_of(net: Graph, given: Mapping[str, TensorData], notes: list[str]) -> list[Join]:
    """Map the parameters of a checkpoint's recurrent layers to vectors of a net."""
    joins: list[Join] = []
    shapes = {name: data.shape for name, data in given.items()}
    paths = net.parameter_paths()
    for parameter in net.parameters():
        data = parameter.data
        name = (*paths.get(parameter.key, ()), parameter.declared)[0]
        if not is_vector(name, data.shape) or shapes.get(name) == data.shape:
            continue
        vector = vector_of(name, prod(data.shape), shapes)
        if vector is not None and not vector.absent:
            parts = {other: shapes[other] for other in vector.roles.values()}
            joins.append(Join(parts, {name: data.shape}, data.dtype))
            notes.append(f"{len(parts)} parameters of `{vector.path}` are one vector, `{name}`")
    return joins


def _turned(given: Mapping[str, TensorData], net: Graph, place: str) -> dict[str, TensorData]:
    """The matrices that the net holds transposed, in the net's layout.

    Raises:
        ModelError: where matrices of one layer's kind are transposed, and a square one may be (E801).
    """
    paths = net.parameter_paths()
    shapes = {plain_name(n): p.data.shape for p in net.parameters() for n in paths.get(p.key, [p.declared])}
    flat = {n: d for n, d in given.items() if len(d.shape) == 2 and plain_name(n) in shapes}
    turned = {n: d for n, d in flat.items() if d.shape[::-1] == shapes[plain_name(n)] != d.shape}
    square = [n for n, d in flat.items() if d.shape[0] == d.shape[1] == shapes[plain_name(n)][0]]
    if turned and square:
        raise ModelError(
            "E801",
            f"{len(turned)} matrices of the checkpoint are transposed (`{next(iter(turned))}`), and the "
            f"shape of a square one does not decide: `{square[0]}`",
            place=place,
            hint="transpose them where the checkpoint is made",
        )
    return {n: TensorData(d.dtype, d.shape[::-1], lambda d=d: d.numpy().T) for n, d in turned.items()}


def _fused_hint(only_source: Sequence[str], only_target: Sequence[str]) -> str:
    """Return the hint for tensors that one side joins, with a layout that shapes do not decide."""
    for whole, parts in ((only_source, only_target), (only_target, only_source)):
        for name in whole:
            layer, _, role = name.rpartition(".")
            above = layer.rpartition(".")[0]
            near = [n.rpartition(".")[0] for n in parts if n.endswith(f".{role}") and n.startswith(above)]
            near = [n for n in near if n.rpartition(".")[0] == above]
            if len(near) in (2, 3):
                listed = json.dumps(near)
                return (
                    f'if `{layer}` holds these together, state it with --map FILE: {{"{layer}": {listed}}} '
                    f'where its rows are one after another, {{"{layer}": {{"parts": {listed}, "heads": N}}}} '
                    "where they alternate; shapes do not decide which"
                )
    return ""


def _unplaced(
    only_source: Iterable[str], lacking: Iterable[str], given: Mapping[str, TensorData]
) -> list[str]:
    """Tensors of a checkpoint that are no parameter of the net, which has none of their names either."""
    named = {plain_name(name) for name in lacking}
    return [n for n in only_source if n in given and not _is_counter(n) and plain_name(n) not in named]


def _pair_hint(unplaced: Sequence[str], lacking: Sequence[str]) -> str:
    """Return the hint for layers on both sides that the other lacks by name."""
    for name in unplaced:
        layer, _, role = name.rpartition(".")
        other = next((n for n in lacking if n.rpartition(".")[2] == role), None)
        if other is not None:
            pair = json.dumps({layer: other.rpartition(".")[0]})
            return f"pair a layer of one net with a layer of the other with --map FILE: {pair}"
    return ""


def _size_hint(names: Iterable[str], net: Graph, given: Mapping[str, TensorData]) -> str:
    """Return the hint for parameters with the net's names but other sizes, as for other classes."""
    wanted = _shapes(net)
    held = {plain_name(name): data.shape for name, data in given.items()}
    other = [n for n in names if n in wanted and held.get(plain_name(n), wanted[n]) != wanted[n]]
    if not other:
        return ""
    left_out = json.dumps(dict.fromkeys(name.rpartition(".")[0] or name for name in other))
    return (
        "give the net the file's sizes, or leave out the layers of other sizes, which the net then draws, "
        f"with --map FILE: {left_out}"
    )


def _shapes(net: Graph) -> dict[str, tuple[int, ...]]:
    """Every name of every parameter of a net -> its shape."""
    paths = net.parameter_paths()
    return {n: tuple(p.data.shape) for p in net.parameters() for n in paths.get(p.key, [p.declared])}


def _lacking(names: Iterable[str], net: Graph, given: Mapping[str, TensorData]) -> Iterator[str]:
    """Return a note on parameters of the net without a counterpart in the checkpoint."""
    wanted = _shapes(net)
    held = {plain_name(name): data.shape for name, data in given.items()}
    fitting: list[str] = []
    blamed: set[str] = set()
    for name in names:
        got = held.get(plain_name(name))
        if got is not None and got == wanted.get(name):
            fitting.append(name)
            continue
        blamed.add(name.rpartition(".")[0])
        if got is None or name not in wanted:
            yield f"  only in the net: `{name}`"
        else:
            yield f"  `{name}`: expected {list(wanted[name])}, got {list(got)}"
    for name in fitting:  # beside another of its layer that does not fit it is nobody's fault
        if name.rpartition(".")[0] not in blamed:
            yield f"  `{name}`: its layer has other parameters besides in the checkpoint than in the net"


def _rows(pairing: Pairing, tied: Mapping[str, str] | None = None) -> list[Rename]:
    """A row per parameter of the source, and one per counter, constant and further name of the target alone.

    Args:
        pairing: the pairs.
        tied: further names in the source's checkpoint -> the name that is paired.
    """
    source, target = pairing.source.graph, pairing.target.graph
    names, taken = _saved_names(target), set[int]()
    targets = {p.key: ("", "identity", p.data.shape) for p in source.parameters()}
    for (mine, theirs), p in pairing.parameters.items():
        if p.fits:
            targets[mine] = names[theirs][0], p.form, p.target_shape
            taken.add(theirs)
    for mine, theirs in _counters(pairing):
        targets[mine] = names[theirs][0], "identity", target.parameter(theirs).data.shape
        taken.add(theirs)
    rows = _with_fixed(rename_rows(source, targets), pairing.source)
    by_name = {row.source: row for row in rows}
    rows += [replace(by_name[first], source=name, source_path=name) for name, first in (tied or {}).items()]
    further = {names[key][0]: names[key][1:] for key in taken if len(names[key]) > 1}
    rows += [replace(row, target=n) for row in list(rows) for n in further.get(row.target, ())]
    constants = constants_of_layers(target)
    for parameter in target.parameters():
        name = names[parameter.key][0]
        own = _is_counter(name) or parameter.key in constants
        if parameter.key not in taken and own and parameter.data.load is not None:
            shape = list(parameter.data.shape)
            values = packed(parameter.data)
            rows.append(
                Rename(
                    "", "", name, shape=shape, target_shape=shape, dtype=parameter.data.dtype, values=values
                )
            )
    return rows


def _with_fixed(rows: list[Rename], source: Net) -> list[Rename]:
    """The rows, with the values themselves of the scales that a symbol fixes at 1, whatever a file stores."""
    graph = source.graph
    fixed = {p.declared: p for p in graph.parameters() if is_fixed_scale(graph, p)}
    made: list[Rename] = []
    for row in rows:
        parameter = fixed.get(row.source)
        if parameter is None or not row.target or parameter.data.load is None:
            made.append(row)
            continue
        values, shape = packed(source.data(parameter.key)), row.target_shape
        made.append(replace(row, target="", target_shape=[]))
        made.append(replace(row, source="", source_path="", transform="identity", shape=shape, values=values))
    return made


def _counters(pairing: Pairing) -> Iterator[tuple[int, int]]:
    """Node keys of the counts of batches that both sides keep of layers that are paired."""
    sides: list[dict[str, int]] = []
    for net in (pairing.source, pairing.target):
        held = {name: key for key, name in net.names.items() if _is_counter(name)}
        sides.append({name.rpartition(".")[0]: key for name, key in held.items()})
    for layer, key in sides[0].items():
        other = sides[1].get(pairing.layers.get(layer, layer))
        if other is not None:
            yield key, other


def _saved_names(graph: Graph) -> dict[int, list[str]]:
    """Parameter key -> its names in a checkpoint of its net: torch saves a shared one under each path."""
    paths = graph.parameter_paths()
    if graph.origin.framework == "torch":
        return {p.key: paths.get(p.key) or [p.declared] for p in graph.parameters()}
    return {p.key: [p.declared] for p in graph.parameters()}


def _is_counter(name: str) -> bool:
    return name.rpartition(".")[2] == COUNTER


def _graph_of(tensors: dict[str, TensorData]) -> Graph:
    """A graph of the names alone: a module for every part of a path."""
    graph = Graph()
    root = graph.modules.add("", None, "")
    modules: dict[str, int] = {"": root}
    for name, data in tensors.items():
        path, _, attribute = name.rpartition(".")
        key, above = root, ""
        for part in path.split(".") if path else ():
            inner = f"{above}.{part}" if above else part
            if inner not in modules:
                modules[inner] = graph.modules.add("", key, part)
            key, above = modules[inner], inner
        node = graph.add_parameter(Parameter(name=name, declared=name, data=data)).node
        graph.modules.module(key).parameters[attribute] = node
    return graph
