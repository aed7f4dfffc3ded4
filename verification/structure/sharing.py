"""Compares which weights are shared, by the tensors that a target holds and not by its ``renames.json``.

A weight that is written twice computes the same until it is trained or changed. Tensors are identified by
their content: two of equal elements, in any order of the axes, are copies of one; where all elements of a
tensor are equal, its name decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...formats.renames import Rename, computed
from ...ir import Constant, Graph, Parameter, TensorData
from .report import SharedRow


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor of a target.

    Attributes:
        names: every name under which the target holds it.
        dtype: element type.
        shape: its shape.
        load: gives its elements.
        constant: whether it is part of the program rather than of the state.
    """

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray]
    constant: bool = False

    @staticmethod
    def of(names: Iterable[str], data: TensorData, *, constant: bool = False) -> Held:
        """Return a tensor behind a handle."""
        return Held(tuple(names), data.dtype, tuple(data.shape), data.numpy, constant)


Contents = tuple[object, ...]
"""Hash of a tensor's elements in any order of the axes; empty if it identifies nothing."""

Rows = Sequence[Rename]
"""The parameters of a ``renames.json``."""

_CHUNK = 1 << 18
"""Number of elements that are read at a time, so that no weight is copied as a whole."""


def held_by_graph(graph: Graph) -> list[Held]:
    """Return the tensors of a target graph that was read back from another framework's files."""
    paths = graph.parameter_paths()
    found = [
        Held.of(dict.fromkeys([*paths.get(p.key, []), p.declared]), p.data)
        for p in graph.parameters()
        if p.data.load is not None
    ]
    return found + [Held.of((), d, constant=True) for d in _constants(graph)]


def compare_sharing(
    source: Graph, target: Sequence[Held], rows: Rows | None, *, contents: bool = True
) -> tuple[list[SharedRow], list[str]]:
    """Return the weights that are one on one side and several on the other, and notes.

    Args:
        source: the source's graph, before any pass.
        target: the tensors of what was written from it.
        rows: the parameters of its ``renames.json``; None without. A tie that they state was asked for: it is
            a note.
        contents: whether tensors are told by their elements too, which reads all of them, or by names only.
    """
    return _Comparison(source, target, rows, contents=contents).compare()


@dataclass(frozen=True, slots=True)
class _Source:
    """A weight of the source; parameters on one memory are one weight."""

    parameters: tuple[Parameter, ...]
    names: tuple[str, ...]
    used: bool


class _Comparison:
    def __init__(self, source: Graph, target: Sequence[Held], rows: Rows | None, *, contents: bool) -> None:
        self.contents = contents
        self.source, self.target = source, target
        self.rows = rows
        self.declared = Counter(p.declared for p in source.parameters())
        self.weights = _weights(source)
        self.by_source: dict[str, list[Rename]] = {}
        for row in rows or ():
            for name in {row.source_path, row.source} - {""}:
                self.by_source.setdefault(name, []).append(row)
        self.known = {row.target for row in rows or () if row.source}
        self.asked: list[str] = []

    def compare(self) -> tuple[list[SharedRow], list[str]]:
        """Return the rows of differences, and notes on what the user asked for."""
        # what elements of one size hold is looked at only where there are several tensors of it
        theirs: dict[tuple[str, int], list[Held]] = {}
        for held in self.target:
            theirs.setdefault(_size(held.dtype, held.shape), []).append(held)
        mine: dict[tuple[str, int], list[_Source]] = {}
        for weight in self.weights:
            data = weight.parameters[0].data
            mine.setdefault(_size(data.dtype, data.shape), []).append(weight)
        constants: dict[tuple[str, int], list[TensorData]] = {}
        for data in _constants(self.source):
            constants.setdefault(_size(data.dtype, data.shape), []).append(data)
        result: list[SharedRow] = []
        for size, held in theirs.items():
            weights = mine.get(size, [])
            if self.contents and size[1] > 1 and _is_float(size[0]) and len(held) + len(weights) > 2:
                result += self._of_one_size(weights, held, constants.get(size, []))
        result += self._compare_by_names(result)
        names = ", ".join(self.asked)
        note = f"one weight in the target, as `renames.json` says that they were tied: {names}"
        return result, [note] if self.asked else []

    def _of_one_size(
        self, weights: Sequence[_Source], held: Sequence[Held], constants: Sequence[TensorData]
    ) -> list[SharedRow]:
        """Compare tensors of one size and element type by their contents."""
        theirs: dict[Contents, list[Held]] = {}
        for tensor in held:
            theirs.setdefault(_contents(tensor.load()), []).append(tensor)
        mine: dict[Contents, list[_Source]] = {}
        for weight in weights:
            mine.setdefault(_contents_of(weight.parameters[0].data), []).append(weight)
        plain = [_contents_of(data) for data in constants]
        rows: list[SharedRow] = []
        for contents, tensors in theirs.items():
            if not contents:
                continue
            same = mine.get(contents, [])
            trained = [w for w in same if not all(p.is_buffer for p in w.parameters)]
            if len(tensors) > len(same) + plain.count(contents) and (
                trained or self._is_folded_twice(tensors)
            ):
                names = tuple(w.names[0] for w in same) or self._sources_of(tensors)
                rows.append(SharedRow(names, tuple(map(_name, tensors))))
            elif self.rows is not None and trained:
                rows += self._find_merged(trained, tensors)
        return rows

    def _is_folded_twice(self, tensors: Sequence[Held]) -> bool:
        """Whether one of these tensors took a normalisation in, and another is unknown."""
        known = [t for t in tensors if self.known & set(t.names)]
        return bool(known) and len(known) < len(tensors) and bool(self._sources_of(tensors))

    def _sources_of(self, tensors: Sequence[Held]) -> tuple[str, ...]:
        names = {name for t in tensors for name in t.names}
        found = (
            row.source_path or row.source
            for row in self.rows or ()
            if row.target in names and row.source and not row.buffer
        )
        return tuple(dict.fromkeys(found))[:1]

    def _find_merged(self, weights: Sequence[_Source], tensors: Sequence[Held]) -> list[SharedRow]:
        """Return weights that the target has fewer of, and that were not computed, dropped or tied."""
        left: list[_Source] = []
        for weight in weights:
            told = [row for name in weight.names for row in self.by_source.get(name, [])]
            told += [row for p in weight.parameters for row in self.by_source.get(p.declared, [])]
            ties = [row for row in told if row.tie and row.by == "tie-weights"]
            gone = any(not row.target or computed(row.transform) for row in told)
            if ties and len(weights) > len(tensors):
                self.asked.append(f"`{weight.names[0]}`")
            elif weight.used and told and not gone:
                left.append(weight)
        if len(left) <= len(tensors):
            return []
        return [SharedRow(tuple(w.names[0] for w in left), tuple(map(_name, tensors)))]

    def _compare_by_names(self, found: Sequence[SharedRow]) -> list[SharedRow]:
        """Return differences by name, for tensors whose elements do not identify them."""
        if self.rows is None:
            return []
        tensors = {name: held for held in self.target for name in held.names}
        reached: dict[int, dict[int, _Source]] = {}
        result: list[SharedRow] = []
        said = {name for row in found for name in row.sources}
        for weight in self.weights:
            names = dict.fromkeys([*weight.names, *(p.declared for p in weight.parameters)])
            told = [row for name in names for row in self.by_source.get(name, [])]
            if any(
                self.declared[p.declared] > 1 for p in weight.parameters
            ):  # several parameters bear this name: the paths alone tell
                told = [row for row in told if row.source_path in weight.names]
            plain = [row for row in told if row.target and not computed(row.transform)]
            ends = {id(h): h for row in plain if (h := tensors.get(row.target)) is not None}
            if len(ends) > 1 and weight.names[0] not in said:
                result.append(SharedRow(weight.names[:1], tuple(map(_name, ends.values()))))
            tied = any(row.tie and row.by == "tie-weights" for row in told)
            for key in ends if not tied else ():
                reached.setdefault(key, {})[id(weight.parameters[0])] = weight
        for held in self.target:
            sharing = list(reached.get(id(held), {}).values())
            if len(sharing) > 1 and not said & {w.names[0] for w in sharing}:
                result.append(SharedRow(tuple(w.names[0] for w in sharing), (_name(held),)))
        return result


def _weights(graph: Graph) -> list[_Source]:
    """Return the source's weights; parameters of one memory and size with equal values are one."""
    paths = graph.parameter_paths()
    groups: dict[object, list[Parameter]] = {}
    for p in graph.parameters():
        if p.data.load is not None:
            memory = ("alone", p.key) if p.data.storage is None else (p.data.storage, p.data.nbytes)
            groups.setdefault(memory, []).append(p)
    for memory, group in list(groups.items()):
        if len(group) > 1:  # two slices of one memory are two weights
            del groups[memory]
            for p in group:
                groups.setdefault((memory, _contents_of(p.data)), []).append(p)
    return [
        _Source(
            tuple(group),
            tuple(dict.fromkeys(n for p in group for n in paths.get(p.key, [p.declared]))),
            any(graph.flow.out_degree(p.key) or p.key in graph.updates for p in group),
        )
        for group in groups.values()
    ]


def _constants(graph: Graph) -> list[TensorData]:
    return [
        node.data
        for part in graph.subgraphs()
        for node in part.nodes()
        if isinstance(node, Constant) and node.data.load is not None
    ]


def _size(dtype: str, shape: Sequence[int]) -> tuple[str, int]:
    return dtype, int(np.prod(shape, dtype=np.int64))


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _name(held: Held) -> str:
    return held.names[0] if held.names else "a constant"


def _contents_of(data: TensorData) -> Contents:
    return _contents(data.numpy())


def _contents(array: np.ndarray) -> Contents:
    """Return a hash of a tensor's elements regardless of order; empty if all elements are equal.

    The hash is the sum of the elements' bits and the sum of their squares, modulo 2^64, which is exact.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if not flat.size or flat.dtype.itemsize > 8:
        return ()
    bits = flat.view(f"u{flat.dtype.itemsize}")
    if bool((bits == bits[0]).all()):
        return ()
    total = squares = 0
    for start in range(0, len(bits), _CHUNK):
        wide = bits[start : start + _CHUNK].astype(np.uint64)
        total += int(wide.sum())
        squares += int((wide * wide).sum())
    return flat.dtype.name, flat.size, total % 2**64, squares % 2**64
