"""Where the tensors of a .pth lie in the file, so that they are read from there and not by torch."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import ModelError, TensorData, numpy_dtype
from ..ir.outside.mapped import MappedFile

if TYPE_CHECKING:
    from ..ir.types import Array

_LOCAL = struct.Struct("<26xHH")
"""The local header of a record in a zip archive; the lengths of its name and of its extra fields end it."""

_REPEATED, _SMALL = 1024, 2**30
"""How many times over a view may read its storage, and how many bytes any view may have: a file of 1,000
bytes can state one of terabytes, while masks and positions that are expanded are a few megabytes."""


class TorchRecords:
    """The storages of an archive of ``torch.save``, for tensors that torch made of it on the device ``meta``.

    Args:
        path: the archive.
        records: from `find_records`.
    """

    def __init__(self, path: Path, records: dict[int, int]) -> None:
        self._file, self._records = MappedFile(path, "a file of torch.save"), records

    def tensor(self, name: str, dtype: str, tensor: Any) -> TensorData | None:
        """A handle on the elements of a tensor; None for one that has none in the file.

        Raises:
            ModelError: when they are not all in the storage that the file has for them.
        """
        begin: int | None = getattr(tensor.untyped_storage(), "_checkpoint_offset", None)
        if begin is None:
            return None
        kind, shape, strides = (
            numpy_dtype(dtype),
            tuple[int, ...](tensor.shape),
            tuple[int, ...](tensor.stride()),
        )
        first = int(tensor.storage_offset())
        extent = first + 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        found = self._records.get(begin)
        if prod(shape) and (found is None or first < 0 or extent * kind.itemsize > found):
            what = "no storage" if found is None else f"a storage of {found} bytes"
            raise self._expected(name, dtype, shape, what, begin)
        if found is not None and prod(shape) * kind.itemsize > max(_REPEATED * found, _SMALL):
            raise self._expected(name, dtype, shape, f"a storage of {found} bytes, repeated", begin)
        start = begin + first * kind.itemsize
        conjugate, negative = tensor.is_conj(), tensor.is_neg()

        def load() -> Array:
            if not prod(shape):
                return np.zeros(shape, kind)
            apart = [stride * kind.itemsize for stride in strides]
            array: Array = np.ndarray(shape, kind, self._file.view, start, apart)
            array = array.conj() if conjugate else array
            return np.negative(array) if negative else array

        lies = _is_in_order(shape, strides) and prod(shape) and not (conjugate or negative)
        place = (self._file.path, start) if lies else None
        return TensorData(dtype, shape, load, (str(self._file.path), start), place=place)

    def _expected(self, name: str, dtype: str, shape: tuple[int, ...], found: str, at: int) -> ModelError:
        return self._file.fail(f"expected the elements of `{name}`, {dtype} {list(shape)}, got {found}", at)


def _is_in_order(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the last axis moves fastest and nothing lies between elements."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def find_records(path: Path) -> dict[int, int] | None:
    """Return the storages of an archive of ``torch.save``: byte of the first element -> bytes.

    Returns:
        None where torch has to read them: files from before torch 1.6, which are no archives, and archives
        that are compressed or big-endian.
    """
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            found: dict[int, int] = {}
            for info in archive.infolist():
                if info.filename.endswith("/byteorder") and archive.read(info)[:8] != b"little":
                    return None
                if "/data/" not in info.filename:
                    continue
                if info.compress_type != zipfile.ZIP_STORED:
                    return None
                file.seek(info.header_offset)
                name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
                found[info.header_offset + _LOCAL.size + name + extra] = info.file_size
            return found
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, struct.error):
        return None
