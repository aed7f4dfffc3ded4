"""Finds tensors of a target whose values differ from what ``renames.json`` or passes say of them.

A comparison of outputs notices a small change of a weight only if its effect exceeds rounding. The tensors
themselves are compared bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ...checkpoints.diff import compared
from ...checkpoints.mapping import Map, applied
from ...formats.renames import Rename, computed
from ...formats.transposing import transposed_blocks
from ...ir import Graph, TensorData, numpy_dtype
from ...ir.provenance import Provenance
from .report import ValueRow
from .sharing import Held

_RUN = 1 << 20
"""Elements that are compared at once where they lie in order on both sides."""

_ROUNDED = 4
"""Units in the last place that a value computed by a pass may be off."""


def compare_values(source: Graph, target: Sequence[Held], mapping: Map) -> tuple[list[ValueRow], int]:
    """Return the tensors that differ, and how many were compared; see `ValueComparison`."""
    return ValueComparison(source, target, mapping).rows()


class ValueComparison:
    """The comparison of a target's tensors with the source's, each made once: on demand, or at the end.

    Args:
        source: the source's graph, before any pass.
        target: the tensors of what was written from it.
        mapping: its ``renames.json``. A tensor that it says was computed otherwise, or tied to another as
            the user asked, is not compared.
    """

    def __init__(self, source: Graph, target: Sequence[Held], mapping: Map) -> None:
        self._mapping, self._given = mapping, _source_tensors(source, mapping)
        self._held = {name: tensor for tensor in target for name in tensor.names}
        self._names = {id(tensor): tensor.names for tensor in target}
        self._by_target: dict[str, list[int]] = {}
        for number, row in enumerate(mapping.rows):
            self._by_target.setdefault(row.target, []).append(number)
        self._found: dict[int, ValueRow | None] = {}
        self._joined: dict[str, tuple[str, TensorData]] = {}
        for join in mapping.joins:
            if all(name in self._given and self._given[name].shape == s for name, s in join.source.items()):
                made = join.typed(self._given).applied(self._given)
                self._joined |= {name: (next(iter(join.source)), data) for name, data in made.items()}

    def look_at(self, name: str) -> None:
        """Compare a tensor of the target now, by any of its names."""
        tensor = self._held.get(name)
        for known in () if tensor is None else self._names[id(tensor)]:
            for number in self._by_target.get(known, ()):
                self._compare(number)

    def rows(self) -> tuple[list[ValueRow], int]:
        """Return the tensors that differ, and how many were compared, all by now."""
        rows: dict[str, ValueRow] = {}
        for number, row in enumerate(self._mapping.rows):
            found = self._compare(number)
            if found is not None:
                rows.setdefault(row.target, found)
        compared_names = {self._mapping.rows[number].target for number in self._found}
        for target, (source, expected) in self._joined.items():
            if target in self._held:
                compared_names.add(target)
                found = _difference(source, source, target, expected, self._held[target])
                if found is not None:
                    rows.setdefault(target, found)
        return list(rows.values()), len(compared_names)

    def _compare(self, number: int) -> ValueRow | None:
        """Return the difference that a row of the map shows; None without one or if none was looked for."""
        if number in self._found:
            return self._found[number]
        row = self._mapping.rows[number]
        tensor = self._held.get(row.target)
        expected = None if tensor is None else _find_expected(row, self._mapping, self._given)
        if tensor is None or expected is None:
            return None
        name = row.source_path or row.source or (row.norms[0].statistics[0] if row.norms else "")
        self._found[number] = _difference(name or row.target, row.source, row.target, expected, tensor)
        return self._found[number]


def _difference(name: str, source: str, target: str, expected: TensorData, tensor: Held) -> ValueRow | None:
    """Return how a tensor of the target differs from what is expected; None where it does not.

    Args:
        name: what the row calls the source's tensor.
        source: its name in the source's checkpoint.
        target: its name in the target.
        expected: what the target should hold.
        tensor: what it holds.
    """
    found = TensorData(tensor.dtype, tensor.shape, tensor.load)
    if expected.dtype != found.dtype:
        expected = _cast(expected, found.dtype)
    if same_bits(expected, found):
        return None
    difference = compared(source, target, expected, found)
    return None if difference.equal else ValueRow(name, target, difference.shapes, difference.max_relative)


def values_in(
    source: Graph, target: Sequence[Held], mapping: Map, rows: Sequence[ValueRow]
) -> dict[str, np.ndarray] | None:
    """Return the target's values of some of the source's parameters, by first path, in the source's layout.

    Args:
        source: the source's graph, before any pass.
        target: the target's tensors.
        mapping: its ``renames.json``.
        rows: the parameters.

    Returns:
        None where one has another shape, or took a normalisation in, which the source's own has not.
    """
    paths = source.parameter_paths()
    first = {path: found[0] for found in paths.values() for path in found}
    held = {name: tensor for tensor in target for name in tensor.names}
    by_target = {row.target: row for row in mapping.rows}
    found: dict[str, np.ndarray] = {}
    for differing in rows:
        row, tensor = by_target.get(differing.target), held[differing.target]
        if row is None:  # a part of a tensor
            return None
        plain = not (row.norms or computed(row.transform)) and differing.max_relative is not None
        if not plain or row.source_path not in first:
            return None
        data = TensorData(tensor.dtype, tensor.shape, tensor.load)
        found[first[row.source_path]] = applied(row, data, reverse=True).numpy()
    return found


def expected_in(
    source: Graph, target: Sequence[Held], mapping: Map, rows: Sequence[ValueRow]
) -> dict[str, np.ndarray] | None:
    """Return what a target should hold in place of some of its tensors, by their names in it.

    Returns:
        None where one has another shape.
    """
    given = _source_tensors(source, mapping)
    held = {name: tensor for tensor in target for name in tensor.names}
    by_target = {row.target: row for row in mapping.rows}
    found: dict[str, np.ndarray] = {}
    for differing in rows:
        row = by_target.get(differing.target)
        expected = None if row is None else _find_expected(row, mapping, given)
        if expected is None or differing.max_relative is None:
            return None
        found[differing.target] = _cast(expected, held[differing.target].dtype).numpy()
    return found


def expected_from(
    source: Graph, values: Mapping[str, TensorData], target: Sequence[Held], mapping: Map
) -> dict[str, np.ndarray]:
    """Return what a target should hold if some of the source's parameters had other values.

    Args:
        source: the source's graph, before any pass.
        values: first path of a parameter -> its other values.
        target: the target's tensors.
        mapping: its ``renames.json``.

    Returns:
        Name of a tensor of the target -> its values; none where the map does not say what one of them holds.
    """
    paths = source.parameter_paths()
    other = {path: values[known[0]] for known in paths.values() if known[0] in values for path in known}
    given = _source_tensors(source, mapping)
    changed: set[str] = set()
    for row in mapping.rows:
        if row.source_path in other and row.source:
            given[mapping.source_name(row)] = other[row.source_path]
            changed.add(mapping.source_name(row))
    held = {name: tensor for tensor in target for name in tensor.names}
    found: dict[str, np.ndarray] = {}
    for row in mapping.rows:
        reads = (
            set(mapping.read_by(row)) if row.norms else {mapping.source_name(row)} if row.source else set()
        )
        if row.target not in held or not reads & changed:
            continue
        expected = _find_expected(row, mapping, given)
        if expected is None or expected.shape != held[row.target].shape:
            return {}
        found[row.target] = _cast(expected, held[row.target].dtype).numpy()
    return found


def compare_parameters(source: Graph, target: Graph) -> tuple[list[ValueRow], int, dict[str, np.ndarray]]:
    """Compare the tensors of a graph that passes made from the source's, as `compare_values` does.

    Values that a pass computed are compared too, up to rounding; whether others make up for a difference, a
    run of the source decides. Parameters that took a normalisation in are not compared.

    Returns:
        The tensors that differ, how many were compared, and what the target holds of those that differ, by
        their first paths in the source.
    """
    known = target.provenance or Provenance()
    rows: list[ValueRow] = []
    values: dict[str, np.ndarray] = {}
    paths, count = source.parameter_paths(), 0
    own = {p.key: p for p in source.parameters()}
    for parameter in target.parameters():
        before, mine = known.parameters.get(parameter.key), own.get(parameter.key)
        if before is None or mine is None or before.data is not mine.data or parameter.key in known.folds:
            continue
        given, found = mine.data, parameter.data
        if given.load is None or found.load is None or given.shape != found.shape:
            continue
        count += 1
        if given is found:
            continue
        difference = compared(mine.declared, parameter.name, given, found)
        if difference.equal or (difference.max_relative or 0) <= _ROUNDED * _unit(given.dtype):
            continue
        path = next(iter(paths.get(mine.key, ())), mine.declared)
        rows.append(ValueRow(path, parameter.name, difference.shapes, difference.max_relative))
        values[path] = found.numpy()
    return rows, count, values


def same_bits(a: TensorData, b: TensorData) -> bool:
    """Whether two tensors have one type, shape and bits; a block of both at a time is in memory."""
    if (a.dtype, a.shape) != (b.dtype, b.shape) or a.dtype == "string":
        return False
    first, second = a.numpy(), b.numpy()
    if first.dtype.itemsize > 8 or not first.size:
        return False
    first, second = (x.view(f"u{x.dtype.itemsize}") for x in (first, second))
    if first.flags.f_contiguous and second.flags.f_contiguous:
        first, second = first.T, second.T
    if first.flags.c_contiguous and second.flags.c_contiguous:
        one, two = first.reshape(-1), second.reshape(-1)
        starts = range(0, one.size, _RUN)
        return all(np.array_equal(one[at : at + _RUN], two[at : at + _RUN]) for at in starts)
    return first.ndim == 2 and _same_matrices(first, second)  # one may be the other transposed


def _same_matrices(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two matrices are equal; fastest where one is in order by rows and the other by columns."""
    if second.flags.c_contiguous:
        first, second = second, first
    return all(
        np.array_equal(first[row : row + block.shape[0], column : column + block.shape[1]], block)
        for column, row, block in transposed_blocks(second.T)
    )


def _unit(dtype: str) -> float:
    kind = numpy_dtype(dtype)
    return float(np.finfo(kind).eps) if kind.kind == "f" else 0.0


def _source_tensors(source: Graph, mapping: Map) -> dict[str, TensorData]:
    """Return the source's tensors under the names that the map has for them."""
    paths = source.parameter_paths()
    by_path = {path: p.data for p in source.parameters() for path in paths.get(p.key, ())}
    declared = Counter(p.declared for p in source.parameters())
    by_name = {p.declared: p.data for p in source.parameters() if declared[p.declared] == 1}
    found: dict[str, TensorData] = {}
    for row in mapping.rows:
        data = by_path.get(row.source_path) or by_name.get(row.source)
        if row.source and data is not None and data.load is not None:
            found[mapping.source_name(row)] = data
    for name in (name for join in mapping.joins for name in join.source):
        data = by_name.get(name)
        if data is not None and data.load is not None:
            found[name] = data
    return found


def _find_expected(row: Rename, mapping: Map, given: dict[str, TensorData]) -> TensorData | None:
    """Return what the map says a tensor of the target holds; None if it does not say."""
    if row.tie and row.by == "tie-weights":
        return None
    if row.norms:
        shapes = {name: tuple(mapping.by_name.get(name, row).shape) for name in mapping.read_by(row)}
        fits = all(name in given and given[name].shape == shape for name, shape in shapes.items())
        return mapping.made(row, given) if fits else None
    data = given.get(mapping.source_name(row)) if row.source else None
    if data is None or computed(row.transform) or data.shape != tuple(row.shape):
        return None
    return applied(row, data)


def _cast(data: TensorData, dtype: str) -> TensorData:
    def load() -> np.ndarray:
        with np.errstate(all="ignore"):
            return data.numpy().astype(numpy_dtype(dtype))

    return TensorData(dtype, data.shape, load)
