"""Two checkpoints with the tensors of one beside those of the other: by names, by pairs, or by a map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..formats.renames import Rename, computed
from ..ir import ModelError, TensorData
from . import read_checkpoint
from .fixed_gammas import with_fixed_gammas
from .joins import Join, read_fused, take_joined
from .mapping import Map, applied, read_map
from .packed import taken_apart
from .pairs import read_pairs
from .prefixes import aligned
from .slots import optimizer_names
from .spelling import COUNTER
from .unmapped import framework_of, layout, pair_names


@dataclass(slots=True)
class Sides:
    """Two checkpoints.

    Attributes:
        a: the first, without what wrappers put before names.
        b: the second, likewise.
        pairs: what both have.
        excused: names on either side that need no counterpart.
        taken_in: names of what other tensors took in.
    """

    a: dict[str, TensorData]
    b: dict[str, TensorData]
    pairs: list[Pair] = field(default_factory=list)
    excused: tuple[set[str], set[str]] = (set(), set())
    taken_in: set[str] = field(default_factory=set)


def lay_side_by_side(
    first: Path | str,
    second: Path | str,
    map_: Path | str | None,
    notes: list[str],
    part: str | None = None,
) -> Sides:
    """Read two checkpoints and pair their tensors.

    Args:
        first: a checkpoint.
        second: another.
        map_: a ``renames.json`` whose two sides these are, or an object of pairs of paths, in either order.
        notes: gets what was left out of names or laid out otherwise.
        part: which of several sets of tensors is read, in the files that have it; see `read_checkpoint`.
    """
    a, b = _read((first, second), part, notes)
    if framework_of(Path(first), a) != framework_of(Path(second), b):
        a, b = (with_fixed_gammas(s, Path(p), notes) for s, p in zip((a, b), (first, second), strict=True))
    slots = [optimizer_names(side) for side in (a, b)]
    if bool(slots[0]) != bool(slots[1]):
        of = first if slots[0] else second
        notes.append(
            f"not compared, because they belong to an optimizer: {len(slots[0] or slots[1])} "
            f"tensors of `{of}`"
        )
        a, b = ({n: d for n, d in side.items() if n not in s} for side, s in zip((a, b), slots, strict=True))
    stated = None if map_ is None else read_pairs(map_)
    if map_ is not None and stated is None:
        mapping = read_map(map_)
        a, b = (aligned(side, mapping.shapes, notes) for side in (a, b))
        vectors = [*mapping.packed[0], *mapping.packed[1]]
        a, b = (taken_apart(_fitting(vectors, side, notes), side) for side in (a, b))
        pairs, excused = _paired(mapping, a, b)
        joined, used = dict[str, TensorData](), set[str]()
        for join in _fitting([*mapping.joins, *(join.turned() for join in mapping.joins)], a, notes):
            if join.target.keys() <= b.keys():
                joined |= join.applied(a)
                used.update(join.source)
        pairs += [Pair(name, name, data, b[name]) for name, data in joined.items()]
        a = {name: data for name, data in a.items() if name not in used} | joined
        return Sides(a, b, pairs, excused, mapping.taken_in)
    if map_ is not None:
        shapes = {name: data.shape for name, data in b.items()}
        joined, alone = take_joined([j for f in read_fused(map_) for j in f.joins(a, shapes)], a)
        a = {**alone, **joined}
    a, b, found, without = pair_names(a, b, stated, notes)
    apart = framework_of(Path(first), a) != framework_of(Path(second), b)
    counters = [{n for n in side if n.rpartition(".")[2] == COUNTER} for side in (a, b)]
    lone = [set[str]() if all(counters) else some for some in counters]
    pairs = _laid_side_by_side(a, b, found, apart, notes)
    return Sides(a, b, pairs, (lone[0] | without, lone[1]))


def _read(
    files: tuple[Path | str, Path | str], part: str | None, notes: list[str]
) -> list[dict[str, TensorData]]:
    """Return the tensors of two checkpoints, of a part where a file has it.

    Raises:
        ModelError: where neither has the part.
    """
    found: list[dict[str, TensorData] | None] = []
    error: ModelError | None = None
    for file in files:
        try:
            found.append(read_checkpoint(file, notes, part))
        except ModelError as none_there:
            if part is None or none_there.code != "E801":
                raise
            error = none_there
            found.append(None)
    if error is not None and not any(side is not None for side in found):
        raise error
    return [
        read_checkpoint(file, notes) if side is None else side
        for file, side in zip(files, found, strict=True)
    ]


def _fitting(joins: Iterable[Join], given: Mapping[str, TensorData], notes: list[str]) -> list[Join]:
    """Return the joins whose tensors the checkpoint has, in its type; note differing shapes."""
    found: list[Join] = []
    for join in joins:
        if not join.source.keys() <= given.keys():
            continue
        odd = [name for name, shape in join.source.items() if given[name].shape != shape]
        if odd or len({given[name].dtype for name in join.source}) > 1:
            name = next(iter(odd or join.source))
            notes.append(f"`{name}` differs from the map in shape or type, so its join was skipped")
        else:
            found.append(join.typed(given))
    return found


def _laid_side_by_side(
    a: Mapping[str, TensorData],
    b: Mapping[str, TensorData],
    found: Mapping[str, str],
    apart: bool,
    notes: list[str],
) -> list[Pair]:
    """Return the pairs of names, the first in the second's layout; what was transposed is said.

    Only a `kernel` against a `weight` is transposed; in files of one framework a shape is a shape.
    """
    made = {
        name: layout(a[name], b[other], turned=_is_kernel(name, other), flat=apart)
        for name, other in found.items()
    }
    turned = [name for name, (_, how) in made.items() if how.startswith("transpose")]
    if turned:  # then square ones may be as well: their values tell
        notes.append(
            f"{len(turned)} matrices were compared transposed: `{turned[0]}`" + ", …" * (len(turned) > 1)
        )
        for name, other in found.items():
            data, there = a[name], b[other]
            square = len(data.shape) == 2 and data.shape == there.shape == data.shape[::-1]
            if square and _is_kernel(name, other):
                across = TensorData(data.dtype, data.shape, partial(_transposed, data), data.storage)
                if _gap(across, there) < _gap(data, there):
                    made[name] = across, "transpose:1,0"
                    notes.append(
                        f"`{name}` was compared transposed, because the transposed values are closer"
                    )
    return [Pair(name, other, made[name][0], b[other]) for name, other in found.items()]


def _is_kernel(name: str, other: str) -> bool:
    """Whether one side, and one alone, has the name that Keras and Flax give to a matrix of inputs first."""
    return name.endswith("kernel") != other.endswith("kernel")


def _transposed(data: TensorData) -> np.ndarray:
    return data.numpy().T


def _gap(one: TensorData, other: TensorData) -> float:
    with np.errstate(all="ignore"):
        return float(np.nansum(np.abs(one.numpy().astype(np.float64) - other.numpy().astype(np.float64))))


class Pair(NamedTuple):
    """A tensor of the first side and its counterpart: the names, and what to compare."""

    name: str
    other: str
    first: TensorData
    second: TensorData


def _paired(
    mapping: Map, a: Mapping[str, TensorData], b: Mapping[str, TensorData]
) -> tuple[list[Pair], tuple[set[str], set[str]]]:
    """Return the pairs in the second side's layout, and the names that need no counterpart.

    Where a tensor of the map's target took in others, it is made of the source's to be compared.
    """
    sources = {mapping.source_name(r) for r in mapping.rows if r.source}
    targets = {r.target for r in mapping.rows if r.target}
    reverse = sum(n in targets for n in a) + sum(n in sources for n in b) > sum(
        n in sources for n in a
    ) + sum(n in targets for n in b)
    pairs: list[Pair] = []
    given, found = (b, a) if reverse else (a, b)
    excused: tuple[set[str], set[str]] = (set(), set())
    excused[1 if reverse else 0].update(mapping.taken_in & given.keys())
    excused[0 if reverse else 1].update(mapping.constants(found))
    for row in mapping.rows:
        left, right = mapping.source_name(row), row.target
        if row.norms and right in found and _fits(mapping, row, given):
            made = mapping.made(row, given)
            label = left or mapping.statistics(row.norms[0])[1] or right  # a new bias comes from beta
            sides = (right, label, found[right], made) if reverse else (label, right, made, found[right])
            pairs.append(Pair(*sides))
            continue
        here, there = (right, left) if reverse else (left, right)
        if here in a and there in b:
            pairs.append(Pair(here, there, _laid_out(row, a[here], reverse), b[there]))
        elif not left or not right or row.values or computed(row.transform):  # one side only has it
            excused[0].update({here} & a.keys())
            excused[1].update({there} & b.keys())
    for name, other in mapping.counters(given).items():
        if other in found:
            sides = (
                (other, name, found[other], given[name])
                if reverse
                else (name, other, given[name], found[other])
            )
            pairs.append(Pair(*sides))
    excused[1 if reverse else 0].update(mapping.counters(given))
    excused[0 if reverse else 1].update(mapping.counters(found, reverse=True))
    order = {name: at for at, name in enumerate(a)}
    return sorted(pairs, key=lambda pair: order.get(pair.name, len(order))), excused


def _fits(mapping: Map, row: Rename, given: Mapping[str, TensorData]) -> bool:
    """Whether all that a tensor of the map's target is made of is there, and has the map's shapes."""
    return all(
        name in given and given[name].shape == tuple(mapping.by_name.get(name, row).shape)
        for name in mapping.read_by(row)
    )


def _laid_out(row: Rename, data: TensorData, reverse: bool) -> TensorData:
    """Return a tensor in the other side's layout; as it is where its shape is not the row's."""
    known = not computed(row.transform) and data.shape == tuple(row.target_shape if reverse else row.shape)
    return applied(row, data, reverse=reverse) if known else data
