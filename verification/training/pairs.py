"""Pairs the parameters of a source with those of a target."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...checkpoints.joins import Join
from ...formats.renames import read_renames
from ...ir import Graph, TensorData
from ..two_nets.layers import Net
from ..two_nets.pairing import Pairing
from .step import Step, Trained


@dataclass(frozen=True, slots=True)
class Pair:
    """Parameters of the source, usually one, and the target's that holds their values.

    Attributes:
        sources: names in the source's step.
        target: name in the target's step; empty or unknown there when it has none.
        transform: what happens to the values, as in ``renames.json``.
        shape: shape in the target.
        others: further source -> its transform, where it is another.
    """

    sources: tuple[str, ...]
    target: str
    transform: str = "identity"
    shape: tuple[int, ...] = ()
    others: dict[str, str] = field(default_factory=dict)

    def applied(self, array: np.ndarray, source: str = "") -> np.ndarray:
        """Return an array of a source's shape, by default the first's, in the target's shape."""
        kind, _, order = self.others.get(source, self.transform).partition(":")
        if kind == "transpose":
            return array.transpose([int(axis) for axis in order.split(",")])
        return array.reshape(self.shape) if kind == "reshape" else array


def paired(
    graph: Graph, source: Collection[str], target: Collection[str], other: Pairing | Path
) -> list[Pair]:
    """Pair every parameter of the source, in its order.

    Args:
        graph: the source's graph.
        source: names in the source's step, in its order.
        target: names in the target's step.
        other: what tells: an emitted folder with its ``renames.json``, or the pairs of two nets.
    """
    found = _by_map(graph, source, other) if isinstance(other, Path) else _by_pairing(source, target, other)
    known = {name for pair in found for name in pair.sources}
    found += [Pair((name,), "") for name in source if name not in known]
    order = {name: place for place, name in enumerate(source)}
    return sorted(found, key=lambda pair: order[pair.sources[0]])


def _by_map(graph: Graph, source: Collection[str], folder: Path) -> list[Pair]:
    """Pair parameters by the ``renames.json`` of an emitted folder."""
    rows = read_renames(folder / "renames.json")["parameters"]
    assert isinstance(rows, list)
    keys = {path: key for key, paths in graph.parameter_paths().items() for path in paths}
    keys = {**{p.declared: p.key for p in graph.parameters()}, **keys}
    known = {keys[name]: name for name in source if name in keys}
    groups: dict[str, dict[str, Pair]] = {}
    for row in rows:
        key = keys.get(row["source_path"], keys.get(row["source"]))
        if key in known and row["target"]:
            name = known[key]
            pair = Pair((name,), row["target"], row["transform"], tuple(row["target_shape"]))
            groups.setdefault(row["target"], {}).setdefault(name, pair)
    order = {name: place for place, name in enumerate(source)}
    found: list[Pair] = []
    for target, group in groups.items():
        names = sorted(group, key=order.__getitem__)
        first = group[names[0]]
        others = {n: p.transform for n, p in group.items() if p.transform != first.transform}
        found.append(Pair(tuple(names), target, first.transform, first.shape, others))
    return found


def _by_pairing(source: Collection[str], target: Collection[str], pairing: Pairing) -> list[Pair]:
    """Return the pairs found before anything ran, under the names that the steps use."""
    names = [
        _step_names(known, net.graph) for known, net in ((source, pairing.source), (target, pairing.target))
    ]
    found = [
        Pair(
            (names[0][mine],),
            names[1][theirs],
            p.form if p.turned else "reshape" if p.fits else "identity",
            p.target_shape,
        )
        for (mine, theirs), p in pairing.parameters.items()
        if mine in names[0] and theirs in names[1]
    ]
    mine = {pairing.source.names[key]: name for key, name in names[0].items()}
    joined = [(mine[n], _label(join, n)) for join in pairing.joins for n in join.source if n in mine]
    return found + [Pair((name,), label) for name, label in joined if label in target]


def _label(join: Join, source: str) -> str:
    """Return the target's label of a joined parameter of the source."""
    held = " + ".join(join.target)
    return held if len(join.source) == 1 else f"{source} in {held}"


def in_parts_of(step: Step, pairing: Pairing) -> Step:
    """Return a step of the target in which what the source has whole or in parts is as the source has it."""
    theirs = _held(step.tensors, pairing.target)
    tensors = dict(step.tensors)
    for join in pairing.joins:
        if not join.target.keys() <= theirs.keys():
            continue
        parts = {name: tensors.pop(theirs[name]) for name in join.target}
        fields = [
            _joined(join, {name: getattr(part, each) for name, part in parts.items()})
            for each in ("before", "forward", "after", "gradient")
        ]
        trainable = any(part.trainable for part in parts.values())
        for name in join.source:
            before, forward, after, gradient = (found.get(name) for found in fields)
            assert before is not None
            assert forward is not None
            assert after is not None
            tensors[_label(join, name)] = Trained(before, forward, after, gradient, trainable)
    return replace(step, tensors=tensors)


def arrays_in_parts(arrays: Mapping[str, np.ndarray], pairing: Pairing) -> dict[str, np.ndarray]:
    """Return the target's arrays, and what the source has whole or in parts as the source has it."""
    theirs = _held(arrays, pairing.target)
    found = dict(arrays)
    for join in pairing.joins:
        if join.target.keys() <= theirs.keys():
            whole = _joined(join, {name: arrays[theirs[name]] for name in join.target})
            found |= {_label(join, name): array for name, array in whole.items()}
    return found


def joined_names(source: Collection[str], target: Collection[str], pairing: Pairing) -> list[tuple[str, str]]:
    """(parameter of the source, one of the target that holds some of it), of what one side keeps whole."""
    mine, theirs = _held(source, pairing.source), _held(target, pairing.target)
    return [
        (mine[a], theirs[b])
        for join in pairing.joins
        for a in join.source
        for b in join.target
        if a in mine and b in theirs
    ]


def _held(known: Collection[str], net: Net) -> dict[str, str]:
    """Name of a parameter in a net -> in a step."""
    return {net.names[key]: name for key, name in _step_names(known, net.graph).items()}


def _joined(join: Join, parts: Mapping[str, np.ndarray | None]) -> dict[str, np.ndarray]:
    """The source's tensors of the target's; none where there are none, zeros where some are missing."""
    known = [part for part in parts.values() if part is not None]
    if not known:
        return {}
    zeros = {name: np.zeros(shape, known[0].dtype) for name, shape in join.target.items()}
    given = {name: TensorData.of(zeros[name] if part is None else part) for name, part in parts.items()}
    return {name: data.numpy() for name, data in join.turned().typed(given).applied(given).items()}


def _step_names(known: Collection[str], graph: Graph) -> dict[int, str]:
    """Return key of a parameter -> its name in a step."""
    paths = graph.parameter_paths()
    return {p.key: n for p in graph.parameters() for n in (*paths.get(p.key, ()), p.declared) if n in known}
