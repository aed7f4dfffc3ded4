"""Pairs the parameters of a source with those of a target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..backends.renames import read_renames
from ..ir import Graph
from .training_step import Step

_TERMS = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}
"""MindSpore's term -> torch's."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Parameters of the source, usually one, and the target's that holds their values.

    Attributes:
        sources: names in the source's step.
        target: name in the target's step; empty or unknown there when it has none.
        transform: what happens to the values, as in ``renames.json``.
        shape: in the target.
    """

    sources: tuple[str, ...]
    target: str
    transform: str = "identity"
    shape: tuple[int, ...] = ()

    def applied(self, array: np.ndarray) -> np.ndarray:
        """An array of the source's shape in the target's."""
        kind, _, order = self.transform.partition(":")
        if kind == "transpose":
            return array.transpose([int(axis) for axis in order.split(",")])
        return array.reshape(self.shape) if kind == "reshape" else array


def paired(graph: Graph, source: Step, target: Step, other: Graph | Path) -> list[Pair]:
    """The pairs, in the source's order: every parameter of the source is in one.

    Args:
        graph: the source's graph.
        source: the source's step.
        target: the target's step.
        other: the target: an emitted folder, whose ``renames.json`` tells, or a graph with its own model.
    """
    found = _by_map(graph, source, other) if isinstance(other, Path) else _by_name(source, target)
    known = {name for pair in found for name in pair.sources}
    found += [Pair((name,), "") for name in source.tensors if name not in known]
    order = {name: place for place, name in enumerate(source.tensors)}
    return sorted(found, key=lambda pair: order[pair.sources[0]])


def _by_map(graph: Graph, source: Step, folder: Path) -> list[Pair]:
    rows = read_renames(folder / "renames.json")["parameters"]
    assert isinstance(rows, list)
    keys = {path: key for key, paths in graph.parameter_paths().items() for path in paths}
    keys = {**{p.declared: p.key for p in graph.parameters()}, **keys}
    names = {keys[name]: name for name in source.tensors if name in keys}
    groups: dict[str, dict[str, Pair]] = {}
    for row in rows:
        key = keys.get(row["source_path"], keys.get(row["source"]))
        if key in names and row["target"]:
            name = names[key]
            pair = Pair((name,), row["target"], row["transform"], tuple(row["target_shape"]))
            groups.setdefault(row["target"], {}).setdefault(name, pair)
    order = {name: place for place, name in enumerate(source.tensors)}
    return [
        Pair(tuple(sorted(group, key=order.__getitem__)), name, first.transform, first.shape)
        for name, group in groups.items()
        for first in [next(iter(group.values()))]
    ]


def _by_name(source: Step, target: Step) -> list[Pair]:
    """By path in torch's terms; what is left by equal values, in order."""
    free = {_plain(name): name for name in target.tensors}
    pairs: list[Pair] = []
    left: list[str] = []
    for name, trained in source.tensors.items():
        other = free.get(_plain(name))
        if other is not None and trained.before.size == target.tensors[other].before.size:
            pairs.append(_reshaped(name, other, target))
            del free[_plain(name)]
        else:
            left.append(name)
    for name in left:
        values = source.tensors[name].before
        for plain, other in free.items():
            theirs = target.tensors[other].before
            if theirs.size == values.size and np.array_equal(theirs.ravel(), values.ravel()):
                pairs.append(_reshaped(name, other, target))
                del free[plain]
                break
    return pairs


def _reshaped(name: str, other: str, target: Step) -> Pair:
    return Pair((name,), other, "reshape", target.tensors[other].before.shape)


def _plain(name: str) -> str:
    head, _, last = name.rpartition(".")
    head = re.sub(r"\.bn2d$", "", head)  # inside MindSpore's BatchNorm3d
    return f"{head}.{_TERMS.get(last, last)}"
