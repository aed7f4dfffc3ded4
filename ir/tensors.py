"""Tensor data behind a handle: borrowed or memory-mapped, read when a backend writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .types import Array, TensorType, dtype_name, numpy_dtype


@dataclass(frozen=True, slots=True, eq=False)
class TensorData:
    """A lazy tensor.

    Attributes:
        dtype: element type, NumPy's spelling.
        shape: static shape.
        load: returns the array; called anew each time, so that nothing is kept alive.
        storage: identity of the memory behind it, equal for views of one storage; None when unknown, or when
            `load` computes it.
        digest: content digest, known beforehand only for data parsed from text (which has none).
        place: file and byte at which its elements lie as they are; None elsewhere. See `find_place`.
        stays: whether its elements are still those at `place`; None where nothing here writes to them.
    """

    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], Array] | None
    storage: object = None
    digest: str = field(default="", repr=False)
    place: tuple[Path, int] | None = field(default=None, repr=False, compare=False)
    stays: Callable[[], bool] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(array: Array, storage: object = None) -> TensorData:
        """Return a handle on an array in memory (borrowed, not copied)."""
        return TensorData(dtype_name(array.dtype), tuple(array.shape), lambda: array, storage)

    @property
    def type(self) -> TensorType:
        """Its tensor type."""
        return TensorType(self.dtype, self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * numpy_dtype(self.dtype).itemsize

    def in_parts(self) -> TensorData:
        """Return a complex tensor as graphs have it, real and imaginary part on a last axis; else itself."""
        kinds = {"complex64": "float32", "complex128": "float64"}
        if self.dtype not in kinds:
            return self
        shape, kind = (*self.shape, 2), kinds[self.dtype]
        return TensorData(kind, shape, lambda: np.ascontiguousarray(self.numpy())[..., None].view(kind))

    def numpy(self) -> Array:
        """Return the array.

        Raises:
            ValueError: when the data is not there (a graph parsed from text).
        """
        if self.load is None:
            raise ValueError("this tensor has a type but no data: it was parsed from the text form")
        return self.load()

    def find_place(self) -> tuple[Path, int] | None:
        """Return the file and byte at which its elements lie now; None where they lie nowhere as they are."""
        return self.place if self.place is not None and (self.stays is None or self.stays()) else None

    def transposed(self) -> TensorData:
        """Return a handle on the transpose of this matrix, without a copy of it."""
        load = None if self.load is None else lambda: self.numpy().T
        return replace(self, shape=self.shape[::-1], load=load, digest="", place=None)

    def reshaped(self, shape: tuple[int, ...]) -> TensorData:
        """Return a handle on the same elements in another shape, or itself; without a copy of them."""
        if shape == self.shape:
            return self
        load = None if self.load is None else lambda: self.numpy().reshape(shape)
        return replace(self, shape=shape, load=load, digest="")

    def content_digest(self) -> str:
        """Return a short digest of dtype, shape and bytes; reads the data once."""
        if self.digest:
            return self.digest
        digest = hashlib.sha256(f"{self.dtype}{list(self.shape)}".encode())
        array = np.ascontiguousarray(self.numpy())
        if array.dtype.hasobject:
            digest.update(array.tobytes())
        elif array.size:
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()[:16]
