"""A map between two checkpoints: the rows of ``renames.json``, checked, in either direction."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np

from ..formats.renames import DERIVED, FOLDED, Norm, Rename, read_renames
from ..ir import ModelError, TensorData, numpy_dtype, require_name, require_shape
from ..ir.folding import fold_normalisations
from ..ir.types import DTYPES, STORED_DTYPES
from .joins import Join, read_joins
from .spelling import COUNTER

ALIAS = "alias"


@dataclass(frozen=True)
class Map:
    """The correspondence between the parameters of a source and of a target.

    Attributes:
        path: the file.
        source: framework of the source.
        target: framework of the target.
        rows: one per name of the source, and one per tensor that only the target has.
        joins: groups of tensors that one side keeps together and the other apart.
        packed: vectors in checkpoints of the source, and of the target, and what they hold.
        types: name in the target -> the element type that floating-point numbers are to have there; of others
            as they are.
        computed: names in the source of tensors of which the target has only what an exporter computed.
        colliding: names that several tensors of the source have; its own checkpoints hold one of each.
    """

    path: Path
    source: str
    target: str
    rows: list[Rename]
    joins: list[Join] = field(default_factory=list)
    packed: tuple[list[Join], list[Join]] = field(default_factory=lambda: ([], []))
    types: Mapping[str, str] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()
    colliding: set[str] = field(init=False, default_factory=set)

    def source_name(self, row: Rename) -> str:
        """Return the name in the source's checkpoint: as declared, or the module path where names collide."""
        return row.source_path if row.source in self.colliding else row.source

    @cached_property
    def names(self) -> frozenset[str]:
        """All names of tensors, of both sides."""
        rows = [n for row in self.rows for n in (self.source_name(row), row.target) if n]
        joins = (*self.joins, *self.packed[0], *self.packed[1])
        return frozenset([*rows, *(n for join in joins for n in (*join.source, *join.target))])

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """All names of tensors, of both sides, with no word on their shapes."""
        return dict.fromkeys(sorted(self.names))

    def constants(self, given: Iterable[str]) -> set[str]:
        """Return the target's tensors that are constants: an ONNX graph holds more than parameters."""
        return set(given) - {row.target for row in self.rows} if self.target == "onnx" else set()

    def statistics(self, norm: Norm) -> list[str]:
        """Return the source's names of statistics that a layer took in; "" for those in the map itself."""
        return [
            self.source_name(self._by_path[path]) if path in self._by_path else path
            for path in norm.statistics
        ]

    def read_by(self, row: Rename) -> list[str]:
        """Return the names in the source's checkpoint of all that the target's tensor is made of."""
        own = [self.source_name(row)] if row.source else []
        return own + [name for norm in row.norms for name in self.statistics(norm) if name]

    def made(self, row: Rename, given: Mapping[str, TensorData]) -> TensorData:
        """Return the target's tensor of a row, computed when it is asked for.

        Args:
            row: one with a target, whose values are not `DERIVED`.
            given: the source's tensors, among them all that `read_by` names.

        Raises:
            ModelError: when what was taken in has another shape than the channels, or is damaged.
        """
        data = given[self.source_name(row)] if row.source else None
        taken: list[tuple[Norm, list[TensorData]]] = []
        for norm in row.norms:
            names = self.statistics(norm)
            channels = (row.shape[norm.axis],)
            statistics = [
                given[name] if name else unpacked(values, row.dtype, channels, row.target)
                for name, values in zip(names, norm.values, strict=True)
            ]
            if any(statistic.shape != channels for statistic in statistics):
                raise ModelError(
                    "E101",
                    f"expected statistics of {channels[0]} channels for `{row.target}`, got "
                    + ", ".join(str(list(statistic.shape)) for statistic in statistics),
                    place=str(self.path),
                )
            taken.append((norm, statistics))
        if taken:
            data = _taken_in(data, taken, tuple(row.shape), row.dtype)
        assert data is not None
        return applied(row, data)

    def __post_init__(self) -> None:
        holders: dict[str, set[str]] = {}
        for row in self.rows:
            if row.source:
                holders.setdefault(row.source, set()).add(row.target)
        collide = self.source != "onnx"  # whose names are of one tensor each, which several layers may read
        several = {name for name, found in holders.items() if collide and len(found) > 1}
        object.__setattr__(self, "colliding", several)

    @cached_property
    def taken_in(self) -> set[str]:
        """Names in the source's checkpoint of the statistics that weights and biases took in."""
        norms = (norm for row in self.rows for norm in row.norms)
        return {name for norm in norms for name in self.statistics(norm) if name}

    def counters(self, given: Iterable[str], *, reverse: bool = False) -> dict[str, str]:
        """Return torch's counters of batches that no row pairs -> their names on the other side.

        A counter belongs to the normalisation whose running variance a row pairs. A model that was exported
        for evaluation has none.

        Args:
            given: names in a checkpoint of the source; of the target with `reverse`.
            reverse: whether to go from the target to the source.
        """
        rows = [(self.source_name(r), r.target) for r in self.rows if r.source and r.target]
        known = {name for row in rows for name in row}
        heads = {
            sides[1 if reverse else 0].rpartition(".")[0]: sides[0 if reverse else 1].rpartition(".")[0]
            for sides in rows
            if sides[1 if reverse else 0].rpartition(".")[2] == "running_var"
        }
        return {
            name: f"{heads[head]}.{COUNTER}".lstrip(".")
            for name in given
            if name not in known
            for head, _, last in [name.rpartition(".")]
            if last == COUNTER and head in heads
        }

    @cached_property
    def _by_path(self) -> dict[str, Rename]:
        return {row.source_path: row for row in reversed(self.rows) if row.source}

    @cached_property
    def by_name(self) -> dict[str, Rename]:
        """Name in the source's checkpoint -> its first row."""
        return {self.source_name(row): row for row in reversed(self.rows) if row.source}


def read_map(path: Path | str) -> Map:
    """Read a ``renames.json``.

    Raises:
        ModelError: when it is missing, malformed or of another version.
    """
    path = Path(path)
    document = read_renames(path)
    rows = document.get("parameters")
    if not isinstance(rows, list):
        raise ModelError("E101", "expected a list under `parameters`", place=str(path))
    found = Map(
        path,
        str(document.get("source", "")),
        str(document.get("target", "")),
        [_row(row, f"{path}, row {number}") for number, row in enumerate(rows, 1)],
        read_joins(document.get("joins", []), str(path)),
        _packed(document.get("packed", {"source": [], "target": []}), str(path)),
        computed=_names(document.get("computed", []), str(path)),
    )
    sides = {row.source for row in found.rows}, {row.target for row in found.rows}
    joined = [name for join in found.joins for name in join.source if name in sides[0]]
    joined += [name for join in found.joins for name in join.target if name in sides[1]]
    joined += [
        n
        for side, packed in zip(sides, found.packed, strict=True)
        for j in packed
        for n in j.source
        if n in side
    ]
    if joined:
        raise ModelError("E101", f"expected `{joined[0]}` in a row or in a join, got both", place=str(path))
    return found


def _names(found: object, place: str) -> frozenset[str]:
    if not isinstance(found, list):
        raise ModelError("E101", "expected a list of names under `computed`", place=place)
    return frozenset(require_name(name, "the name of a tensor", place) for name in found)


def _packed(found: object, place: str) -> tuple[list[Join], list[Join]]:
    if not isinstance(found, dict) or found.keys() != {"source", "target"}:
        raise ModelError("E101", "expected source and target under `packed`", place=place)
    source, target = (read_joins(found[side], f"{place}, packed {side}") for side in ("source", "target"))
    return source, target


def _row(found: object, place: str) -> Rename:
    known = {f.name: f.type for f in fields(Rename)}
    kinds = {"str": str, "bool": bool, "list[int]": list, "list[Norm]": list}
    if not isinstance(found, dict):
        raise ModelError("E101", f"expected an object, got `{found!r}`", place=place)
    for name, value in found.items():
        if name not in known or not isinstance(value, kinds[str(known[name])]):
            raise ModelError(
                "E101", f"`{name}` is not a field of a row, or not a {known.get(name)}", place=place
            )
    try:
        row = Rename(**{**found, "norms": [_norm(norm, place) for norm in found.get("norms", ())]})
    except TypeError as error:
        raise ModelError("E101", "expected source, source_path and target", place=place) from error
    for name in (row.source, row.source_path, row.target, row.tie):
        require_name(name, "the name of a tensor", place)
    sizes = [*row.shape, *row.target_shape]
    if (
        row.dtype not in DTYPES | STORED_DTYPES
        or row.dtype == "string"
        or not all(type(d) is int for d in sizes)
    ):
        raise ModelError("E101", f"expected an element type and shapes, got {row.dtype} {sizes}", place=place)
    require_shape(row.shape, place)
    require_shape(row.target_shape, place)
    if bool(row.norms) != (row.transform.partition(":")[0] == FOLDED):
        raise ModelError("E101", f"expected `norms` with `{FOLDED}`, and only there", place=place)
    if any(not -1 <= norm.axis < len(row.shape) or not row.shape for norm in row.norms):
        raise ModelError("E101", f"expected axes of {row.shape} in `norms`", place=place)
    if row.target and row.transform != DERIVED:
        expected = transformed_shape(row, place)
        if expected != tuple(row.target_shape):
            raise ModelError(
                "E101",
                f"`{row.transform}` of {row.shape} is {list(expected)}, got {row.target_shape}",
                place=place,
            )
    return row


_NO_EPSILON = 1e30
"""Above any epsilon; an integer that no float holds is above it too."""


def _norm(found: object, place: str) -> Norm:
    if isinstance(found, dict) and found.keys() == {f.name for f in fields(Norm)}:
        names, values = found["statistics"], found["values"]
        texts = [*names, *values] if isinstance(names, list) and isinstance(values, list) else [None]
        good = all(isinstance(text, str) for text in texts) and len(names) == len(values) == 4
        epsilon = found["epsilon"]
        numbers = (
            isinstance(epsilon, (int, float)) and 0 <= epsilon < _NO_EPSILON and type(found["axis"]) is int
        )
        if good and numbers and all(name or value for name, value in zip(names, values, strict=True)):
            return Norm(**{**found, "epsilon": float(epsilon)})
    raise ModelError("E101", f"expected statistics, values, epsilon and axis, got `{found!r}`", place=place)


def transformed_shape(row: Rename, place: str = "") -> tuple[int, ...]:
    """Return the shape that a row's transform makes of the source's.

    Raises:
        ModelError: when the transform is unknown, or cannot be applied.
    """
    if row.transform == "identity":
        return tuple(row.shape)
    if row.transform in ("reshape", FOLDED) and prod(row.shape) == prod(row.target_shape):
        return tuple(row.target_shape)
    order = _order(row.transform)
    if order is not None and sorted(order) == list(range(len(row.shape))):
        return tuple(row.shape[axis] for axis in order)
    raise ModelError(
        "E101",
        f"the transform `{row.transform}` cannot be applied to {row.shape} -> {row.target_shape}",
        place=place,
        hint="known transforms: identity, reshape and transpose:1,0",
    )


def _order(transform: str) -> list[int] | None:
    head, _, axes = transform.partition(":")
    parts = axes.split(",")
    known = head in ("transpose", FOLDED) and all(a.isascii() and a.isdigit() and len(a) < 3 for a in parts)
    return [int(a) for a in parts] if known else None


def applied(row: Rename, data: TensorData, *, reverse: bool = False) -> TensorData:
    """Return the tensor on the other side of a row, computed when it is asked for.

    Args:
        row: the row.
        data: the tensor on its source's side; on its target's side with `reverse`.
        reverse: whether to apply the inverse.
    """
    if row.transform == "identity":
        return data
    shape = tuple(row.shape if reverse else row.target_shape)
    order = _order(row.transform)
    if order is None:
        return TensorData(data.dtype, shape, lambda: data.numpy().reshape(shape), data.storage)
    axes = [int(a) for a in np.argsort(order)] if reverse else order
    return TensorData(data.dtype, shape, lambda: data.numpy().transpose(axes), data.storage)


def _taken_in(
    data: TensorData | None,
    taken: Sequence[tuple[Norm, list[TensorData]]],
    shape: tuple[int, ...],
    dtype: str,
) -> TensorData:
    def load() -> np.ndarray:
        array = None if data is None else data.numpy()
        norms = [([s.numpy() for s in statistics], norm.epsilon) for norm, statistics in taken]
        return fold_normalisations(array, norms, taken[0][0].axis)

    return TensorData(dtype, shape, load)


def unpacked(values: str, dtype: str, shape: tuple[int, ...], name: str) -> TensorData:
    """Return the elements that a map itself holds for the tensor `name`.

    Raises:
        ModelError: when they are damaged.
    """
    kind = numpy_dtype(dtype)
    size = prod(shape) * kind.itemsize
    if size > _LARGEST:
        raise ModelError(
            "E106", f"expected values of `{name}` of at most {_LARGEST >> 20} MB, got {size >> 20}"
        )

    def load() -> np.ndarray:
        raw = zlib.decompressobj().decompress(base64.b64decode(values, validate=True), size + 1)
        if len(raw) != size:
            raise ValueError(f"expected {size} bytes, got another number")
        return np.frombuffer(raw, kind).reshape(shape)

    try:
        load()  # now rather than when half of the output is written
    except (binascii.Error, ValueError, zlib.error) as error:
        raise ModelError("E101", f"the values of `{name}` are damaged: {error}") from error
    return TensorData(dtype, shape, load)


_LARGEST = 1 << 28
"""Bytes of one tensor that a map holds or fills in; they compress a thousandfold."""


def zeros(dtype: str, shape: tuple[int, ...]) -> TensorData:
    """Return a tensor of zeros, made when it is asked for."""
    return TensorData(dtype, shape, lambda: np.zeros(shape, numpy_dtype(dtype)))
