"""Pairs the parameters of a source with those of a target."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...backends.renames import read_renames
from ...ir import Graph
from ..two_nets.pairing import Pairing


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
    return [
        Pair((names[0][mine],), names[1][theirs], "reshape" if p.fits else "identity", p.target_shape)
        for (mine, theirs), p in pairing.parameters.items()
        if mine in names[0] and theirs in names[1]
    ]


def _step_names(known: Collection[str], graph: Graph) -> dict[int, str]:
    """Return key of a parameter -> its name in a step."""
    paths = graph.parameter_paths()
    return {p.key: n for p in graph.parameters() for n in (*paths.get(p.key, ()), p.declared) if n in known}
