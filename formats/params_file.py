"""MXNet's .params: every layout since 0.8 read array by array, and files that MXNet 0.11 and later load."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from ..ir import BackendError, ModelError, TensorData, numpy_dtype, require_file, require_name, require_shape
from .elements import ElementWriters

FILE_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
DTYPES = (
    "float32",
    "float64",
    "float16",
    "uint8",
    "int32",
    "int8",
    "int64",
    "bool",
    "int16",
    "uint16",
    "uint32",
    "uint64",
    "bfloat16",
)
"""MXNet's type flags, by number; those above 7 only occur in files of 2.0 development builds."""

WRITABLE = DTYPES[:8]
"""Element types of MXNet 1.9."""

_CPU = 1
_DENSE, _ROW_SPARSE, _CSR = 0, 1, 2
_AUXILIARY = {_DENSE: 0, _ROW_SPARSE: 1, _CSR: 2}
_MAX_RANK = 32
_DENSE_BYTES, _DENSE_RATIO = 1 << 28, 64
"""A sparse array becomes a dense one of at most so many bytes, or so many times the file's."""


@dataclass(frozen=True, slots=True)
class SavedArray:
    """One array of a file: `name` is as saved ("arg:w", "aux:m", "w", or "" in a list without names)."""

    name: str
    data: TensorData


def read_params(path: Path) -> list[SavedArray]:
    """Return the arrays of a ``.params`` file, unloaded: each reads its slice of the file when asked.

    Raises:
        ModelError: when the file is missing, truncated or malformed, with the byte at fault.
    """
    size = require_file(path)
    try:
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise ModelError("E101", f"cannot read `{path}`: {error.strerror}") from error
    return _Reader(path, view, size).file()


class _Reader:
    """A position in a mapped file; every read is checked against the file's end."""

    def __init__(self, path: Path, view: mmap.mmap | bytes, size: int) -> None:
        self.path, self.view, self.size = path, view, size
        self.at = 0

    def fail(self, message: str, at: int | None = None) -> ModelError:
        return ModelError(
            "E101",
            message,
            place=f"{self.path}, byte {self.at if at is None else at}",
            hint="the file is truncated, damaged, or no `.params` file: save or copy it again",
        )

    def take(self, layout: str, what: str) -> tuple[int, ...]:
        length = struct.calcsize(f"<{layout}")
        if self.at + length > self.size:
            raise self.fail(f"expected {what}, got the end of the file")
        values = struct.unpack_from(f"<{layout}", self.view, self.at)
        self.at += length
        return values

    def file(self) -> list[SavedArray]:
        magic, _reserved = self.take("QQ", "a header of 16 bytes")
        if magic != FILE_MAGIC:
            raise self.fail(f"expected the magic number {FILE_MAGIC:#x}, got {magic:#x}", 0)
        count = self.count(4, "the number of arrays")
        arrays = [self.array() for _ in range(count)]
        where = self.at
        names = [self.name() for _ in range(self.count(8, "the number of names"))]
        if names and len(names) != len(arrays):
            raise self.fail(f"expected {len(arrays)} names, got {len(names)}", where)
        return [SavedArray(n, a) for n, a in zip(names or [""] * len(arrays), arrays, strict=True)]

    def count(self, least: int, what: str) -> int:
        """Read a count of items that take at least `least` bytes each."""
        (count,) = self.take("Q", what)
        if count * least > self.size - self.at:
            raise self.fail(f"expected {what}, got {count}, more than the file can hold", self.at - 8)
        return count

    def name(self) -> str:
        (length,) = self.take("Q", "the length of a name")
        if length > self.size - self.at:
            raise self.fail(f"expected the length of a name, got {length}, more than is left", self.at - 8)
        raw = self.view[self.at : self.at + length]
        self.at += length
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.fail("expected a name in UTF-8", self.at - length) from None
        return require_name(name, "the name of an array", f"{self.path}, byte {self.at - length}")

    def array(self) -> TensorData:
        start = self.at
        (magic,) = self.take("I", "an array")
        storage = _DENSE
        if magic in (V2, V3):
            (storage,) = self.take("i", "a storage type")
            if storage not in _AUXILIARY:
                raise self.fail(f"expected a storage type 0 to 2, got {storage}", self.at - 4)
        stored = self.shape() if storage != _DENSE else None
        if magic in (V1, V2, V3):
            shape = self.shape()
        else:  # the oldest layout: what looked like a magic number is the rank, dimensions have 32 bits
            self.at = start
            shape = self.shape("I")
        if not shape and magic != V3:
            raise self.fail("expected an array, got one without shape", start)
        self.take("ii", "a device")
        dtype = self.dtype()
        kinds = [(self.dtype(), self.shape()) for _ in range(_AUXILIARY[storage])]
        if stored is not None:
            self.check_sparse(storage, shape, stored, kinds, start)
            self.check_dense(shape, dtype, start)
        main = self.block(dtype, shape if stored is None else stored)
        auxiliary = [self.block(*kind) for kind in kinds]
        if storage == _DENSE:
            return TensorData(dtype, shape, main, (str(self.path), start))
        place = f"{self.path}, byte {start}"
        load = _densified(storage, shape, numpy_dtype(dtype), main, auxiliary, place)
        return TensorData(dtype, shape, load, (str(self.path), start))

    def check_sparse(
        self,
        storage: int,
        shape: tuple[int, ...],
        stored: tuple[int, ...],
        kinds: list[tuple[str, tuple[int, ...]]],
        start: int,
    ) -> None:
        """Check that the parts of a sparse array are those of its kind and shape."""
        whole = all(dtype.startswith(("int", "uint")) for dtype, _ in kinds)
        parts = [part for _, part in kinds]
        if storage == _ROW_SPARSE:
            fits = bool(shape and stored) and stored[1:] == shape[1:] and parts == [stored[:1]]
        else:
            fits = len(shape) == 2 and len(stored) == 1 and parts == [(shape[0] + 1,), stored]
        if not whole or not (fits or not any(map(prod, (stored, *parts)))):
            raise self.fail(
                f"expected the parts of a sparse array {list(shape)}, got {list(stored)} with {kinds}", start
            )

    def check_dense(self, shape: tuple[int, ...], dtype: str, start: int) -> None:
        """Refuse a sparse array that is far larger than the file that states it."""
        size = prod(shape) * numpy_dtype(dtype).itemsize
        if size > max(_DENSE_BYTES, _DENSE_RATIO * self.size):
            raise self.fail(f"expected a sparse array in proportion to the file, got {list(shape)}", start)

    def shape(self, dim: str = "q") -> tuple[int, ...]:
        (rank,) = self.take("I", "a rank")
        if rank > _MAX_RANK:
            raise self.fail(f"expected an array of at most {_MAX_RANK} dimensions, got {rank}", self.at - 4)
        shape = self.take(f"{rank}{dim}", "a shape") if rank else ()
        require_shape(shape, f"{self.path}, byte {self.at}")
        return shape

    def dtype(self) -> str:
        (flag,) = self.take("i", "an element type")
        if not 0 <= flag < len(DTYPES):
            raise self.fail(f"expected an element type 0 to {len(DTYPES) - 1}, got {flag}", self.at - 4)
        return DTYPES[flag]

    def block(self, dtype: str, shape: tuple[int, ...]) -> Callable[[], np.ndarray]:
        kind, count, at = numpy_dtype(dtype), prod(shape), self.at
        if count * kind.itemsize > self.size - at:
            raise self.fail(
                f"expected {count * kind.itemsize} bytes for an array {list(shape)}, got {self.size - at}"
            )
        self.at += count * kind.itemsize
        view = self.view
        return lambda: np.frombuffer(view, kind, count, at).reshape(shape)


def _densified(
    storage: int,
    shape: tuple[int, ...],
    dtype: np.dtype,
    values: Callable[[], np.ndarray],
    auxiliary: list[Callable[[], np.ndarray]],
    place: str,
) -> Callable[[], np.ndarray]:
    """Return a loader that makes a row-sparse or CSR array dense; refuses indices outside the array."""

    def load() -> np.ndarray:
        dense = np.zeros(shape, dtype)
        data = values()
        if not data.size:
            return dense
        if storage == _ROW_SPARSE:
            rows = auxiliary[0]()
            if ((rows < 0) | (rows >= shape[0])).any():
                raise ModelError("E101", f"expected row numbers below {shape[0]}", place=place)
            dense[rows] = data
            return dense
        starts, columns = auxiliary[0](), auxiliary[1]()
        lengths = np.diff(starts.astype(np.int64))  # unsigned differences are never negative
        if (
            starts[0] != 0
            or (lengths < 0).any()
            or lengths.sum() != len(data)
            or ((columns < 0) | (columns >= shape[1])).any()
        ):
            raise ModelError(
                "E101", "expected increasing row starts and columns inside a sparse array", place=place
            )
        dense[np.repeat(np.arange(shape[0]), lengths), columns] = data
        return dense

    return load


def write_params(path: Path, arrays: Iterable[tuple[str, TensorData]]) -> None:
    """Write a ``.params`` file.

    Args:
        path: the file.
        arrays: name ("arg:w", "aux:m") and values, in order.

    Raises:
        BackendError: for an element type that MXNet 1.9 does not have.
    """
    rows = list(arrays)
    for name, data in rows:
        if data.dtype not in WRITABLE:
            raise BackendError(
                "E602", f"expected an element type of MXNet, got `{data.dtype}`", place=f"parameter `{name}`"
            )
    with ElementWriters() as writers, writers.open(path) as file:
        file.write(struct.pack("<QQQ", FILE_MAGIC, 0, len(rows)))
        for _, data in rows:
            # arrays without dimensions or elements exist in numpy-shape mode only, which has its own magic
            file.write(struct.pack("<Ii", V2 if data.shape and all(data.shape) else V3, _DENSE))
            file.write(struct.pack(f"<I{len(data.shape)}q", len(data.shape), *data.shape))
            file.write(struct.pack("<iii", _CPU, 0, WRITABLE.index(data.dtype)))
            file.write_elements(data)
        file.write(struct.pack("<Q", len(rows)))
        for name, _ in rows:
            raw = name.encode()
            file.write(struct.pack("<Q", len(raw)) + raw)
