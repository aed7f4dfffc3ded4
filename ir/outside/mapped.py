"""A file mapped into memory: slices of it become arrays when asked for."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np

from ..errors import ModelError
from ..tensors import TensorData
from ..types import Array, numpy_dtype
from .documents import require_file
from .names import require_name, require_shape


class MappedFile:
    """A checkpoint's bytes; the system reads the pages that are looked at, and no others.

    Args:
        path: the file.
        kind: what it is expected to be, e.g. "a MindSpore checkpoint"; for messages.

    Raises:
        ModelError: when it cannot be read.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.size = require_file(path)
        try:
            self._file = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise ModelError("E101", f"cannot read `{path}`: {error.strerror}") from error
        weakref.finalize(self, os.close, self._file)

    @cached_property
    def view(self) -> mmap.mmap | bytes:
        """The bytes of the file, mapped on first use to save address space."""
        return mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) if self.size else b""

    def head(self, length: int) -> bytes:
        """Return its first bytes, without mapping them."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            return file.read(length)

    def fail(self, message: str, at: int) -> ModelError:
        """Return an error about the byte `at`."""
        return ModelError(
            "E101",
            message,
            place=f"{self.path}, byte {at}",
            hint=f"the file is truncated, damaged, or not {self.kind}: save or copy it again",
        )

    def tensor(
        self, name: str, dtype: str, shape: tuple[int, ...], slices: list[tuple[int, int]]
    ) -> TensorData:
        """Return a handle on the tensor whose bytes are these (start, length) slices of the file, in order.

        Raises:
            ModelError: when their length is not that of the type and shape.
        """
        require_name(name, "the name of a tensor", f"{self.path}, byte {slices[0][0]}")
        require_shape(shape, f"`{name}` of {self.path}")
        expected, found = prod(shape) * numpy_dtype(dtype).itemsize, sum(length for _, length in slices)
        if expected != found:
            raise self.fail(
                f"expected {expected} bytes for `{name}`, {dtype} {list(shape)}, got {found}", slices[0][0]
            )

        def load() -> Array:
            if len(slices) == 1:
                return np.frombuffer(self.view, numpy_dtype(dtype), prod(shape), slices[0][0]).reshape(shape)
            parts = [np.frombuffer(self.view, np.uint8, length, start) for start, length in slices]
            return np.concatenate(parts).view(numpy_dtype(dtype)).reshape(shape)

        if not prod(shape):
            return TensorData(dtype, shape, _empty(dtype, shape), (str(self.path), slices[0][0]))
        place = (self.path, slices[0][0]) if len(slices) == 1 else None
        return TensorData(dtype, shape, load, (str(self.path), slices[0][0]), place=place)


def _empty(dtype: str, shape: tuple[int, ...]) -> Callable[[], Array]:
    return lambda: np.zeros(shape, numpy_dtype(dtype))
