"""Two checkpoints side by side, tensor by tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..backends.renames import Rename, computed
from ..ir import TensorData
from . import read_checkpoint
from .mapping import Map, applied, read_map
from .pairs import read_pairs
from .prefixes import peeled
from .unmapped import COUNTER, framework_of, layout, pair_names

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Difference:
    """One tensor that both sides have.

    Attributes:
        name: its name on the first side.
        other: its name on the second; the same unless a map says otherwise.
        shapes: on both sides; the first after the map's transform.
        dtypes: on both sides.
        max_abs: largest absolute difference; None where the shapes differ.
        max_relative: largest difference relative to the larger of the two elements; None where shapes differ.
        means: on both sides.
        stds: on both sides.
        equal: whether shape, element type and every element are equal (NaN equals NaN).
    """

    name: str
    other: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    dtypes: tuple[str, str]
    max_abs: float | None
    max_relative: float | None
    means: tuple[float, float]
    stds: tuple[float, float]
    equal: bool


@dataclass(frozen=True, slots=True)
class Diff:
    """Two checkpoints compared.

    Attributes:
        rows: what both have, in the first one's order.
        only_first: names that only the first has.
        only_second: names that only the second has.
        elsewhere: (name on the first side, name on the second) of equal values under different names.
        notes: what was not compared, and why.
    """

    rows: list[Difference]
    only_first: list[str]
    only_second: list[str]
    elsewhere: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether both hold the same tensors under the same (or mapped) names."""
        return not self.only_first and not self.only_second and all(row.equal for row in self.rows)

    def to_json(self) -> dict[str, object]:
        """The report as JSON values; infinities and NaN are text."""
        return {
            "equal": self.equal,
            "tensors": [
                {
                    "name": r.name,
                    "other": r.other,
                    "shapes": [list(s) for s in r.shapes],
                    "dtypes": list(r.dtypes),
                    "max_abs": _json_number(r.max_abs),
                    "max_relative": _json_number(r.max_relative),
                    "means": [_json_number(v) for v in r.means],
                    "stds": [_json_number(v) for v in r.stds],
                    "equal": r.equal,
                }
                for r in self.rows
            ],
            "only_first": self.only_first,
            "only_second": self.only_second,
            "elsewhere": [list(pair) for pair in self.elsewhere],
            "notes": self.notes,
        }


def diff_checkpoints(first: Path | str, second: Path | str, map_: Path | str | None = None) -> Diff:
    """Compare two checkpoints of any kind, one pair of tensors in memory at a time.

    Args:
        first: a checkpoint.
        second: another.
        map_: a ``renames.json`` whose two sides these are, or an object of pairs of paths, in either order;
            what it does not carry over is noted and no difference. Without it names are paired whatever the
            framework's spelling.

    Raises:
        ModelError: when a file cannot be read.
        UsageError: when a suffix is none of a checkpoint.
    """
    notes: list[str] = []
    a, b = read_checkpoint(first, notes), read_checkpoint(second, notes)
    stated = None if map_ is None else read_pairs(map_)
    if map_ is None or stated is not None:
        a, b, found, without = pair_names(a, b, stated, notes)
        apart = framework_of(Path(first), a) != framework_of(Path(second), b)
        pairs = _laid_side_by_side(a, b, found, apart, notes)
        counters = [{n for n in side if n.rpartition(".")[2] == COUNTER} for side in (a, b)]
        lone = [set[str]() if all(counters) else some for some in counters]
        excused, taken_in = (lone[0] | without, lone[1]), set[str]()
    else:
        mapping = read_map(map_)
        a, b = (peeled(side, mapping.names.__contains__, notes) for side in (a, b))
        pairs, excused = _paired(mapping, a, b)
        taken_in = mapping.taken_in
    rows = [compared(*pair) for pair in pairs]
    seen_a, seen_b = {pair.name for pair in pairs}, {pair.other for pair in pairs}
    only_first = [name for name in a if name not in seen_a and name not in excused[0]]
    only_second = [name for name in b if name not in seen_b and name not in excused[1]]
    for side, excuses, seen in ((first, excused[0], seen_a), (second, excused[1], seen_b)):
        if names := excuses - seen - taken_in:
            shown = ", ".join(f"`{n}`" for n in sorted(names)[:3]) + (", …" if len(names) > 3 else "")
            notes.append(f"{len(names)} tensors of `{side}` have no counterpart by the map: {shown}")
    changed = [r for r in rows if not r.equal]
    elsewhere = matches(
        {n: a[n] for n in [*only_first, *(r.name for r in changed)]},
        {n: b[n] for n in [*only_second, *(r.other for r in changed)]},
    )
    return Diff(rows, only_first, only_second, elsewhere, notes)


def _laid_side_by_side(
    a: Mapping[str, TensorData],
    b: Mapping[str, TensorData],
    found: Mapping[str, str],
    apart: bool,
    notes: list[str],
) -> list[Pair]:
    """The pairs of names, the first in the second's layout; what was transposed is said.

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
                    notes.append(f"`{name}` was compared transposed, as it is nearer so")
    return [Pair(name, other, made[name][0], b[other]) for name, other in found.items()]


def _is_kernel(name: str, other: str) -> bool:
    """Whether one side, and one alone, has the name that Keras and Flax give to a matrix of inputs first."""
    return name.endswith("kernel") != other.endswith("kernel")


def _transposed(data: TensorData) -> np.ndarray:
    return data.numpy().T


def _gap(one: TensorData, other: TensorData) -> float:
    with np.errstate(all="ignore"):
        return float(np.nansum(np.abs(_wide(one.numpy()) - _wide(other.numpy()))))


class Pair(NamedTuple):
    """A tensor of the first side and its counterpart: the names, and what to compare."""

    name: str
    other: str
    first: TensorData
    second: TensorData


def _paired(
    mapping: Map, a: Mapping[str, TensorData], b: Mapping[str, TensorData]
) -> tuple[list[Pair], tuple[set[str], set[str]]]:
    """The pairs, laid out as the second side is, and the names on either side that need no counterpart.

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
    order = {name: at for at, name in enumerate(a)}
    return sorted(pairs, key=lambda pair: order.get(pair.name, len(order))), excused


def _fits(mapping: Map, row: Rename, given: Mapping[str, TensorData]) -> bool:
    """Whether all that a tensor of the map's target is made of is there, and has the map's shapes."""
    return all(
        name in given and given[name].shape == tuple(mapping.by_name.get(name, row).shape)
        for name in mapping.read_by(row)
    )


def _laid_out(row: Rename, data: TensorData, reverse: bool) -> TensorData:
    """A tensor in the other side's layout; as it is where its shape is not the row's."""
    known = not computed(row.transform) and data.shape == tuple(row.target_shape if reverse else row.shape)
    return applied(row, data, reverse=reverse) if known else data


def compared(name: str, other: str, a: TensorData, b: TensorData) -> Difference:
    """Two tensors, element by element, in chunks and in float64."""
    first, second = a.numpy(), b.numpy()
    one, two = _Statistics(), _Statistics()
    if a.shape != b.shape:
        for part in _parts(first):
            one.add(part)
        for part in _parts(second):
            two.add(part)
        return Difference(
            name, other, (a.shape, b.shape), (a.dtype, b.dtype), None, None,
            (one.mean, two.mean), (one.std, two.std), False,
        )  # fmt: skip
    largest = relative = 0.0
    same = a.dtype == b.dtype
    for left, right in zip(_parts(first), _parts(second), strict=True):
        one.add(left)
        two.add(right)
        x, y = _wide(left), _wide(right)
        equal = (left == right) if a.dtype == b.dtype else (x == y)
        equal |= np.isnan(x) & np.isnan(y)
        if equal.all():
            continue
        same = False
        with np.errstate(all="ignore"):
            gap = np.where(equal, 0.0, np.abs(x - y))
            gap = np.where(np.isnan(gap), np.inf, gap)  # NaN on one side only
            scale = np.maximum(np.abs(x), np.abs(y))
            ratio = np.where(gap == 0, 0.0, np.where(np.isfinite(gap), gap / scale, np.inf))
        largest, relative = max(largest, float(gap.max())), max(relative, float(ratio.max()))
    return Difference(
        name, other, (a.shape, b.shape), (a.dtype, b.dtype), largest, relative,
        (one.mean, two.mean), (one.std, two.std), same,
    )  # fmt: skip


class _Statistics:
    """Mean and standard deviation of numbers that come in parts (Chan, Golub and LeVeque's update)."""

    def __init__(self) -> None:
        self.count, self.mean, self._squares = 0, 0.0, 0.0

    def add(self, part: np.ndarray) -> None:
        values = np.abs(part) if part.dtype.kind == "c" else _wide(part)
        if not values.size:
            return
        with np.errstate(all="ignore"):
            mean = float(values.mean())
            squares = float(((values - mean) ** 2).sum())
            total, step = self.count + values.size, mean - self.mean
            self._squares += squares + step * step * self.count * values.size / total
            self.mean += step * values.size / total
        self.count = total

    @property
    def std(self) -> float:
        return float(np.sqrt(self._squares / self.count)) if self.count else 0.0


def _parts(array: np.ndarray) -> Iterator[np.ndarray]:
    flat = array.reshape(-1)
    for at in range(0, flat.size, _CHUNK):
        yield flat[at : at + _CHUNK]


def _wide(part: np.ndarray) -> np.ndarray:
    return part.astype(np.complex128 if part.dtype.kind == "c" else np.float64)


def matches(a: Mapping[str, TensorData], b: Mapping[str, TensorData]) -> list[tuple[str, str]]:
    """Pairs of names whose elements are equal, whatever the shape; constant tensors say nothing."""
    kinds = {(data.dtype, data.nbytes) for data in a.values()} & {(d.dtype, d.nbytes) for d in b.values()}
    found: dict[str, list[str]] = {}
    for name, data in b.items():
        if (data.dtype, data.nbytes) in kinds and (digest := _digest(data)):
            found.setdefault(digest, []).append(name)
    pairs: list[tuple[str, str]] = []
    for name, data in a.items():
        if (data.dtype, data.nbytes) in kinds and (digest := _digest(data)):
            pairs += [(name, other) for other in found.get(digest, ()) if other != name]
    return pairs


def _digest(data: TensorData) -> str:
    """A digest of type and elements; empty for tensors all of whose elements are the same."""
    array = data.numpy()
    flat = array.reshape(-1)
    if not flat.size or bool((flat == flat[0]).all()):
        return ""
    digest = hashlib.sha256(data.dtype.encode())
    for part in _parts(array):
        digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return digest.hexdigest()


def _json_number(value: float | None) -> float | str | None:
    return value if value is None or np.isfinite(value) else str(value)
