"""A map between two checkpoints: the rows of ``renames.json``, checked, in either direction."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path

import numpy as np

from ..backends.renames import Rename, read_renames
from ..ir import ModelError, TensorData, numpy_dtype
from ..ir.types import DTYPES

ALIAS, DERIVED = "alias", "derived"


@dataclass(frozen=True)
class Map:
    """How the parameters of a source and of a target correspond.

    Attributes:
        path: the file.
        source: framework of the source.
        target: framework of the target.
        rows: one per name of the source, and one per tensor that only the target has.
        colliding: names that several tensors of the source have; its own checkpoints hold one of each.
    """

    path: Path
    source: str
    target: str
    rows: list[Rename]
    colliding: set[str] = field(init=False, default_factory=set)

    def source_name(self, row: Rename) -> str:
        """The name in the source's checkpoint: as declared, or the module path where names collide."""
        return row.source_path if row.source in self.colliding else row.source

    def __post_init__(self) -> None:
        holders: dict[str, set[str]] = {}
        for row in self.rows:
            if row.source:
                holders.setdefault(row.source, set()).add(row.target)
        object.__setattr__(self, "colliding", {name for name, found in holders.items() if len(found) > 1})


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
    return Map(
        path,
        str(document.get("source", "")),
        str(document.get("target", "")),
        [_row(row, f"{path}, row {number}") for number, row in enumerate(rows, 1)],
    )


def _row(found: object, place: str) -> Rename:
    known = {f.name: f.type for f in fields(Rename)}
    kinds = {"str": str, "bool": bool, "list[int]": list}
    if not isinstance(found, dict):
        raise ModelError("E101", f"expected an object, got `{found!r}`", place=place)
    for name, value in found.items():
        if name not in known or not isinstance(value, kinds[str(known[name])]):
            raise ModelError(
                "E101", f"`{name}` is no field of a row, or not a {known.get(name)}", place=place
            )
    try:
        row = Rename(**found)
    except TypeError as error:
        raise ModelError("E101", "expected source, source_path and target", place=place) from error
    sizes = [*row.shape, *row.target_shape]
    if row.dtype not in DTYPES or not all(isinstance(d, int) and d >= 0 for d in sizes):
        raise ModelError("E101", f"expected an element type and shapes, got {row.dtype} {sizes}", place=place)
    if row.target and row.transform != DERIVED:
        expected = transformed_shape(row, place)
        if expected != tuple(row.target_shape):
            raise ModelError(
                "E101",
                f"`{row.transform}` of {row.shape} is {list(expected)}, got {row.target_shape}",
                place=place,
            )
    return row


def transformed_shape(row: Rename, place: str = "") -> tuple[int, ...]:
    """The shape that a row's transform makes of the source's.

    Raises:
        ModelError: when the transform is unknown, or cannot be applied.
    """
    if row.transform == "identity":
        return tuple(row.shape)
    if row.transform == "reshape" and prod(row.shape) == prod(row.target_shape):
        return tuple(row.target_shape)
    order = _order(row.transform)
    if order is not None and sorted(order) == list(range(len(row.shape))):
        return tuple(row.shape[axis] for axis in order)
    raise ModelError(
        "E101",
        f"the transform `{row.transform}` cannot be applied to {row.shape} -> {row.target_shape}",
        place=place,
        hint="known are identity, reshape and transpose:1,0",
    )


def _order(transform: str) -> list[int] | None:
    head, _, axes = transform.partition(":")
    parts = axes.split(",")
    return [int(a) for a in parts] if head == "transpose" and all(a.isdigit() for a in parts) else None


def applied(row: Rename, data: TensorData, *, reverse: bool = False) -> TensorData:
    """The tensor on the other side of a row, computed when it is asked for.

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


def held_values(row: Rename) -> TensorData:
    """The values that the row itself holds.

    Raises:
        ModelError: when they are damaged.
    """
    kind, shape = numpy_dtype(row.dtype), tuple(row.target_shape)
    size = prod(shape) * kind.itemsize
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(row.values, validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise ModelError("E101", f"the values of `{row.target}` are damaged: {error}") from error
    if len(raw) != size:
        raise ModelError("E101", f"expected {size} bytes of values of `{row.target}`, got another number")
    array = np.frombuffer(raw, kind).reshape(shape)
    return TensorData.of(array)


def zeros(dtype: str, shape: tuple[int, ...]) -> TensorData:
    """A tensor of zeros, made when it is asked for."""
    return TensorData(dtype, shape, lambda: np.zeros(shape, numpy_dtype(dtype)))
