"""Tensors that one side keeps together and the other apart: fused projections, packed recurrent parameters.

A record says that the elements of some tensors, one after another in row-major order, are those of others,
in blocks of one size that may stand in another order. That covers `qkv` against `q`, `k`, `v` (rows one after
another: one block each; rows by head: three blocks a head), gates in another order, and a packed vector.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import prod
from pathlib import Path

import numpy as np

from ..ir import ModelError, TensorData, numpy_dtype, read_json, require_name, require_shape
from ..ir.types import DTYPES

_MOST_BLOCKS = 1 << 16


@dataclass(frozen=True, slots=True)
class Join:
    """One group of tensors.

    Attributes:
        source: names and shapes in the source, in order.
        target: names and shapes in the target, in order.
        dtype: element type of all of them.
        order: for each block of the target the source's block; empty where the order is the same.
    """

    source: dict[str, tuple[int, ...]]
    target: dict[str, tuple[int, ...]]
    dtype: str = "float32"
    order: tuple[int, ...] = field(default=())

    def turned(self) -> Join:
        """Return the same, from the target to the source."""
        return Join(self.target, self.source, self.dtype, tuple(int(i) for i in np.argsort(self.order)))

    def typed(self, given: Mapping[str, TensorData]) -> Join:
        """Return the same with the element type of the source's tensors in a checkpoint, if it is one."""
        types = {given[name].dtype for name in self.source if name in given}
        return Join(self.source, self.target, types.pop(), self.order) if len(types) == 1 else self

    def to_json(self) -> dict[str, object]:
        """Return the record under ``joins`` of a ``renames.json``."""
        sides = [{name: list(shape) for name, shape in side.items()} for side in (self.source, self.target)]
        found: dict[str, object] = {"source": sides[0], "target": sides[1], "dtype": self.dtype}
        return {**found, "order": list(self.order)} if self.order else found

    def applied(self, given: Mapping[str, TensorData]) -> dict[str, TensorData]:
        """Return the target's tensors, computed when they are asked for.

        Raises:
            ModelError: when a tensor is not there, or not of its shape and type (E801).
        """
        for name, shape in self.source.items():
            data = given.get(name)
            if data is None or (data.dtype, data.shape) != (self.dtype, shape):
                got = "none" if data is None else f"{data.dtype} {list(data.shape)}"
                raise ModelError(
                    "E801",
                    f"`{name}`: expected {self.dtype} {list(shape)}, got {got}",
                    hint=f"it becomes {', '.join(f'`{n}`' for n in self.target)} together with the others",
                )

        made: dict[str, TensorData] = {}
        at = 0
        for name, shape in self.target.items():
            load = partial(self._loaded, given, at, shape)
            made[name] = TensorData(self.dtype, shape, load)
            at += prod(shape)
        return made

    def _loaded(self, given: Mapping[str, TensorData], start: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return the target's elements from `start`; only source tensors that hold some of them are read."""
        starts = [0, *accumulate(prod(s) for s in self.source.values())]
        names, stop = list(self.source), start + prod(shape)
        block = starts[-1] // len(self.order) if self.order else starts[-1]
        parts: list[np.ndarray] = []
        arrays: dict[str, np.ndarray] = {}
        at = start
        while at < stop:
            number, offset = divmod(at, block)
            end = min(stop, at + block - offset)
            here = (self.order[number] if self.order else 0) * block + offset
            last = here + end - at
            for i in range(bisect_right(starts, here) - 1, bisect_left(starts, last)):
                name = names[i]
                if name not in arrays:
                    arrays[name] = given[name].numpy().reshape(-1)
                parts.append(arrays[name][max(here - starts[i], 0) : last - starts[i]])
            at = end
        dtype = numpy_dtype(self.dtype)
        return (np.concatenate(parts) if parts else np.empty(0, dtype)).reshape(shape)


def stacked(
    parts: dict[str, tuple[int, ...]], whole: str, shape: tuple[int, ...], dtype: str, heads: int = 1
) -> Join:
    """Return parts whose rows stand in one tensor, one part after another or alternating by heads.

    Args:
        parts: names and shapes of the parts, which are equal where they alternate.
        whole: name of the tensor.
        shape: of the tensor.
        dtype: of all of them.
        heads: how many times the parts alternate.
    """
    order = [part * heads + head for head in range(heads) for part in range(len(parts))]
    return Join(parts, {whole: shape}, dtype, tuple(order) if heads > 1 else ())


def read_joins(found: object, place: str) -> list[Join]:
    """Return the records under ``joins`` of a ``renames.json``, checked.

    Raises:
        ModelError: for anything that is no such record, or does not add up (E101).
    """
    if not isinstance(found, list):
        raise ModelError("E101", "expected a list under `joins`", place=place)
    joins = [_join(each, f"{place}, join {number}") for number, each in enumerate(found, 1)]
    for side in ("source", "target"):
        names = [name for join in joins for name in getattr(join, side)]
        if len(set(names)) < len(names):
            raise ModelError("E101", f"expected every name of the {side} in one join", place=place)
    return joins


def _join(found: object, place: str) -> Join:
    keys = {"source", "target", "dtype", "order"}
    if not isinstance(found, dict) or not {"source", "target", "dtype"} <= found.keys() <= keys:
        raise ModelError("E101", "expected source, target, dtype and at most order", place=place)
    sides = [found["source"], found["target"]]
    order = found.get("order", [])
    for side in sides:
        good = isinstance(side, dict) and side and all(isinstance(s, list) for s in side.values())
        if not good or not all(type(n) is int for s in side.values() for n in s):
            raise ModelError("E101", "expected shapes by name in source and target", place=place)
        for name, shape in side.items():
            require_name(name, "the name of a tensor", place)
            require_shape(shape, place)
    known = isinstance(found["dtype"], str) and found["dtype"] in DTYPES
    if not known or found["dtype"] == "string":
        raise ModelError("E101", f"expected an element type, got `{found['dtype']}`", place=place)
    if (
        not isinstance(order, list)
        or len(order) > _MOST_BLOCKS
        or not all(type(n) is int for n in order)
        or sorted(order) != list(range(len(order)))
    ):
        raise ModelError("E101", "expected `order` to be a permutation of the blocks", place=place)
    sizes = [sum(prod(s) for s in side.values()) for side in sides]
    if sizes[0] != sizes[1] or (order and sizes[0] % len(order)):
        raise ModelError(
            "E101", f"{sizes[0]} elements do not become {sizes[1]} in {len(order) or 1} blocks", place=place
        )
    shapes = [{name: tuple(shape) for name, shape in side.items()} for side in sides]
    return Join(shapes[0], shapes[1], found["dtype"], tuple(order))


@dataclass(frozen=True, slots=True)
class Fused:
    """A user's statement about a fused module: ``{"attn.qkv": ["attn.q", "attn.k", "attn.v"]}``.

    Attributes:
        whole: path of the module, or name of the tensor, that holds all.
        parts: paths of the others, in the order of the rows.
        heads: how many times the parts alternate in the rows: 1 where each stands in one piece.
    """

    whole: str
    parts: tuple[str, ...]
    heads: int = 1

    def joins(self, given: Mapping[str, TensorData], shapes: Mapping[str, tuple[int, ...]]) -> list[Join]:
        """Return the groups that this makes of a checkpoint's tensors, in the checkpoint's direction.

        Args:
            given: the tensors.
            shapes: of the other side's, as far as they are known; equal parts otherwise.

        Raises:
            ModelError: when the rows do not divide (E801).
        """
        made: list[Join] = []
        for name, data in given.items():
            role = name.removeprefix(self.whole)
            if name.startswith(self.whole) and (not role or role[0] == ".") and data.shape:
                names = [f"{part}{role}" for part in self.parts]
                rows, each = data.shape[0], data.shape[0] // len(names)
                parts = {n: shapes.get(n, (each, *data.shape[1:])) for n in names}
                total = sum(s[0] if s else 0 for s in parts.values())
                if total != rows or rows % (self.heads * len(names)):
                    raise self._refused(name, rows)
                made.append(self._join(name, data.shape, parts, data.dtype).turned())
            first = name.removeprefix(self.parts[0])
            if name.startswith(self.parts[0]) and (not first or first[0] == ".") and data.shape:
                names = [f"{part}{first}" for part in self.parts]
                if any(n not in given for n in names):
                    continue
                parts = {n: given[n].shape for n in names}
                rows = sum(s[0] if s else 0 for s in parts.values())
                whole = f"{self.whole}{first}"
                if rows % (self.heads * len(names)):
                    raise self._refused(whole, rows)
                made.append(self._join(whole, (rows, *data.shape[1:]), parts, data.dtype))
        return made

    def _refused(self, name: str, rows: int) -> ModelError:
        return ModelError(
            "E801", f"`{name}`: {rows} rows are not {len(self.parts)} parts of {self.heads} equal pieces each"
        )

    def _join(
        self, whole: str, shape: tuple[int, ...], parts: dict[str, tuple[int, ...]], dtype: str
    ) -> Join:
        """Return the parts as the source, the whole as the target."""
        if self.heads > 1 and len({s[0] for s in parts.values()}) > 1:
            raise self._refused(whole, shape[0])
        return stacked(parts, whole, shape, dtype, self.heads)


def read_fused(path: Path | str) -> list[Fused]:
    """Read the fused modules of a plain map: paths of the parts, or ``{"parts": […], "heads": 8}``.

    Raises:
        ModelError: when it is neither (E101).
    """
    document = read_json(Path(path))
    found: list[Fused] = []
    if not isinstance(document, dict) or "format" in document:
        return found
    for whole, value in document.items():
        if not isinstance(value, (list, dict)):
            continue
        stated = {"parts": value} if isinstance(value, list) else value
        parts, heads = stated.get("parts"), stated.get("heads", 1)
        if not isinstance(parts, list):
            parts = []
        good = len(parts) > 1 and all(isinstance(p, str) and p for p in parts)
        if not good or type(heads) is not int or not 0 < heads <= _MOST_BLOCKS // len(parts):
            raise ModelError(
                "E101",
                f"expected the paths of the parts of `{whole}`, and how many heads they alternate by",
                place=str(path),
                hint='for example {"attn.qkv": {"parts": ["attn.q", "attn.k", "attn.v"], "heads": 8}}',
            )
        if len(set(parts)) < len(parts) or stated.keys() - {"parts", "heads"}:
            raise ModelError(
                "E101", f"expected different parts of `{whole}`, and nothing else", place=str(path)
            )
        for name in (whole, *parts):
            require_name(name, "a path", str(path))
        found.append(Fused(whole, tuple(parts), heads))
    return found


def take_joined(
    joins: Sequence[Join], given: Mapping[str, TensorData]
) -> tuple[dict[str, TensorData], dict[str, TensorData]]:
    """Return (the other side's tensors of all groups, what of the checkpoint belongs to none)."""
    made: dict[str, TensorData] = {}
    for join in joins:
        made |= join.applied(given)
    used = {name for join in joins for name in join.source}
    return made, {name: data for name, data in given.items() if name not in used}
