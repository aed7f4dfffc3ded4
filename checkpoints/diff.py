"""Two checkpoints side by side, tensor by tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..ir import TensorData
from .side_by_side import lay_side_by_side

_CHUNK = 1 << 16
_SAME = 8
"""Names of one value that are listed for a name of the other side: of n and n there are n² pairs."""


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
        """Return the report as JSON values; infinities and NaN are text."""
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


def diff_checkpoints(
    first: Path | str,
    second: Path | str,
    map_: Path | str | None = None,
    part: str | None = None,
) -> Diff:
    """Compare two checkpoints of any kind, one pair of tensors in memory at a time.

    Args:
        first: a checkpoint.
        second: another.
        map_: a ``renames.json`` whose two sides these are, or an object of pairs of paths, in either order;
            what it does not carry over is noted and no difference. Without it names are paired whatever the
            framework's spelling.
        part: which of several sets of tensors is read, in the files that have it; see `read_checkpoint`.

    Raises:
        ModelError: when a file cannot be read.
        UsageError: when a suffix is none of a checkpoint.
    """
    notes: list[str] = []
    sides = lay_side_by_side(first, second, map_, notes, part)
    a, b, pairs, excused, taken_in = sides.a, sides.b, sides.pairs, sides.excused, sides.taken_in
    rows = [compared(*pair) for pair in pairs]
    seen_a, seen_b = {pair.name for pair in pairs}, {pair.other for pair in pairs}
    only_first = [name for name in a if name not in seen_a and name not in excused[0]]
    only_second = [name for name in b if name not in seen_b and name not in excused[1]]
    for side, names, seen, file in ((a, only_first, seen_a, first), (b, only_second, seen_b, second)):
        tied = _tied(side, names, seen)
        names[:] = [name for name in names if name not in tied]
        notes += [f"`{name}` is one tensor with `{other}` in `{file}`" for name, other in tied.items()]
    by_map = "" if map_ is None else " by the map"
    for side, excuses, seen in ((first, excused[0], seen_a), (second, excused[1], seen_b)):
        if names := excuses - seen - taken_in:
            shown = ", ".join(f"`{n}`" for n in sorted(names)[:3]) + (", …" if len(names) > 3 else "")
            notes.append(f"{len(names)} tensors of `{side}` have no counterpart{by_map}: {shown}")
    changed = [r for r in rows if not r.equal]
    elsewhere = matches(
        {n: a[n] for n in [*only_first, *(r.name for r in changed)] if n in a},
        {n: b[n] for n in [*only_second, *(r.other for r in changed)] if n in b},
    )
    return Diff(rows, only_first, only_second, elsewhere, notes)


def _tied(side: Mapping[str, TensorData], names: Iterable[str], paired: set[str]) -> dict[str, str]:
    """Return unpaired names whose elements the file also has under another name with a counterpart."""
    held = {
        (d.storage, d.dtype, d.shape): n for n, d in side.items() if n in paired and d.storage is not None
    }
    keys = {n: (side[n].storage, side[n].dtype, side[n].shape) for n in names}
    return {name: held[key] for name, key in keys.items() if key in held}


def compared(name: str, other: str, a: TensorData, b: TensorData) -> Difference:
    """Return two tensors, element by element, in chunks and in float64."""
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
    """Return pairs of names whose elements are equal, whatever the shape; constant tensors say nothing."""
    kinds = {(data.dtype, data.nbytes) for data in a.values()} & {(d.dtype, d.nbytes) for d in b.values()}
    found: dict[str, list[str]] = {}
    for name, data in b.items():
        if (data.dtype, data.nbytes) in kinds and (digest := _digest(data)):
            found.setdefault(digest, []).append(name)
    pairs: list[tuple[str, str]] = []
    for name, data in a.items():
        if (data.dtype, data.nbytes) in kinds and (digest := _digest(data)):
            others = found.get(digest, ())[: _SAME + 1]
            pairs += [(name, other) for other in others if other != name][:_SAME]
    return pairs


def _digest(data: TensorData) -> str:
    """Return a digest of type and elements; empty for tensors all of whose elements are the same."""
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
