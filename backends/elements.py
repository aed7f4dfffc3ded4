"""Writes the elements of tensors in bounded memory: in order, little-endian, transposed matrices by bands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from ..ir import BackendError, TensorData
from ..ir.types import Array

_CHUNK = 1 << 23
"""Bytes written at a time."""

BAND = 1 << 26
"""Bytes of a transposed matrix in memory at a time."""

_STRIP = 16
"""Rows of a matrix that are transposed at a time: their lines of the target stay in the processor's cache."""


def write_elements(data: TensorData, out: BinaryIO) -> None:
    """Write the elements of a tensor where a file stands; each of them is read once.

    Args:
        data: the tensor.
        out: a file that can be positioned, at its end.

    Raises:
        BackendError: E602 when there are not as many bytes as type and shape say.
    """
    array = data.numpy()
    _require_size(data, array)
    for part in _matrices(array):
        if _is_transposed(part) and part.nbytes > BAND:
            _write_bands(part, out)
        else:
            for chunk in _chunks(part):
                out.write(chunk)


def element_chunks(data: TensorData) -> Iterator[memoryview]:
    """Yield the elements of a tensor in order, for files that cannot be positioned.

    Raises:
        BackendError: as `write_elements`.
    """
    array = data.numpy()
    _require_size(data, array)
    for part in _matrices(array):
        yield from _chunks(part)


def _require_size(data: TensorData, array: Array) -> None:
    if array.nbytes != data.nbytes:
        raise BackendError(
            "E602",
            f"expected {data.nbytes} bytes of data for a parameter {data.type}, got {array.nbytes}",
            hint="the frontend's lazy handle states another type than it loads",
        )


def _matrices(array: Array) -> Iterator[Array]:
    """Yield the parts of an array that are written one after another: matrices, where they are large."""
    if array.ndim > 2 and not array.flags.c_contiguous and array.nbytes > BAND:
        for part in array:
            yield from _matrices(part)
    else:
        yield array


def _is_transposed(array: Array) -> bool:
    return array.ndim == 2 and not array.flags.c_contiguous and array.T.flags.c_contiguous


def _chunks(array: Array) -> Iterator[memoryview]:
    if _is_transposed(array):
        rows = max(1, BAND // max(1, array[0].nbytes))
        for at in range(0, len(array), rows):
            yield from _chunks(_turned(array.T[:, at : at + rows]))
        return
    if array.ndim and not array.flags.c_contiguous:  # some rows at a time: a copy is made of them
        rows = max(1, _CHUNK // max(1, array[0].nbytes))
        for at in range(0, len(array), rows):
            yield from _chunks(np.ascontiguousarray(array[at : at + rows]))
        return
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.byteorder == ">":
        flat = flat.astype(flat.dtype.newbyteorder("<"))
    view = flat.view(np.uint8)
    for at in range(0, view.size, _CHUNK):
        yield view[at : at + _CHUNK].data


def _turned(matrix: Array) -> Array:
    """Return the transposed copy of a matrix whose rows lie in order."""
    made = np.empty(matrix.shape[::-1], matrix.dtype)
    for at in range(0, len(matrix), _STRIP):
        made[:, at : at + _STRIP] = matrix[at : at + _STRIP].T
    return made


def _write_bands(array: Array, out: BinaryIO) -> None:
    """Write a transposed matrix that is larger than `BAND`: a band of the stored rows is read at a time.

    Each band is a part of every written row. To write row by row would read the stored matrix once a row.
    """
    stored, start, size = array.T, out.tell(), array.itemsize
    rows = max(1, BAND // max(1, stored[0].nbytes))
    for at in range(0, len(stored), rows):
        band = _turned(stored[at : at + rows])
        if band.dtype.byteorder == ">":
            band = band.astype(band.dtype.newbyteorder("<"))
        for row, part in enumerate(band):
            out.seek(start + (row * len(stored) + at) * size)
            out.write(part.view(np.uint8).data)
    out.seek(start + array.nbytes)
