"""PyTorch's .pth: read without torch and without running anything, and written one tensor at a time."""

from __future__ import annotations

import mmap
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from ..ir import BackendError, ModelError, TensorData, numpy_dtype, require_file
from ..ir.outside.mapped import MappedFile
from ..ir.types import DTYPES
from .elements import element_chunks
from .pickled import Strided, read_pickle
from .refusals import malformed

if TYPE_CHECKING:
    from ..ir.types import Array

_STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int8": "CharStorage",
    "int16": "ShortStorage",
    "int32": "IntStorage",
    "int64": "LongStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}

_ALIGNMENT = 64  # torch's own, so that storages can be mapped

_LOCAL = struct.Struct("<26xHH")
"""The local header of a record in a zip archive; the lengths of its name and of its extra fields end it."""

_REPEATED, _SMALL = 1024, 2**30
"""Maximum repeats of its storage in a view, and the bytes that any view may have: a file of 1,000 bytes can
state a view of terabytes, while expanded masks and positions are a few megabytes."""

_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""Magic number of a file from before torch 1.6, after the version of its pickles."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, OSError, ValueError, RuntimeError, EOFError)
"""Errors of Python's reader of archives."""

_LARGEST_PICKLE = 1 << 28
"""Bytes of a pickle, where the archive that holds it has fewer."""


class Record(NamedTuple):
    """The bytes of a storage in a file.

    Attributes:
        start: byte of the first element; where the archive compresses it, of the inflated record.
        size: bytes.
        packed: the name of the record, where the archive compresses it.
    """

    start: int
    size: int
    packed: str = ""


class TorchFile:
    """A file of ``torch.save``: an archive, or the pickles that torch before 1.6 wrote one behind the other.

    Args:
        path: the file.

    Attributes:
        content: what the file holds, with `Strided` in the place of tensors and `Unknown` in that of objects.

    Raises:
        ModelError: when the file is missing or malformed.
    """

    def __init__(self, path: Path) -> None:
        require_file(path)
        self.path, self._file = path, MappedFile(path, "a file of torch.save")
        self._swapped = False
        self._records: dict[str, Record] = {}
        archive = self._file.head(4) == b"PK\x03\x04"
        self.content = self._read_archive() if archive else self._read_pickles()

    def tensor(self, name: str, found: Strided) -> TensorData | None:
        """Return a handle on the elements of a tensor; None for an element type that regraft does not have.

        Raises:
            ModelError: when they are not all in the storage that the file has for them.
        """
        if found.dtype not in DTYPES:
            return None
        kind, shape, strides = numpy_dtype(found.dtype), found.sizes, found.strides
        record = self._records.get(found.storage.key)
        start = (0 if record is None else record.start) + found.offset * kind.itemsize
        if len(shape) != len(strides) or min((found.offset, *shape, *strides)) < 0:
            raise self._expected(name, found, "sizes and strides that no tensor has", start)
        extent = found.offset + 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        if prod(shape) and (record is None or extent * kind.itemsize > record.size):
            what = "no storage" if record is None else f"a storage of {record.size} bytes"
            raise self._expected(name, found, what, start)
        if record is not None and prod(shape) * kind.itemsize > max(_REPEATED * record.size, _SMALL):
            raise self._expected(name, found, f"a storage of {record.size} bytes, repeated", start)

        def load() -> Array:
            if not prod(shape) or record is None:
                return np.zeros(shape, kind)
            apart = [stride * kind.itemsize for stride in strides]
            held = self._inflated(record) if record.packed else self._file.view
            array: Array = np.ndarray(shape, kind, held, start, apart)
            array = _swapped(array) if self._swapped else array
            array = array.conj() if found.conjugate else array
            return np.negative(array) if found.negative else array

        plain = not (found.conjugate or found.negative or self._swapped or record is None or record.packed)
        place = (self.path, start) if plain and prod(shape) and _is_in_order(shape, strides) else None
        packed = "" if record is None else record.packed
        return TensorData(found.dtype, shape, load, (str(self.path), packed, start), place=place)

    def _read_archive(self) -> object:
        path, pickled, order = self.path, b"", b"little"
        try:
            with zipfile.ZipFile(path) as archive, path.open("rb") as file:
                for info in archive.infolist():
                    folder, _, name = info.filename.rpartition("/")
                    if name == "data.pkl":
                        if info.file_size > max(self._file.size, _LARGEST_PICKLE):
                            raise malformed(
                                f"expected a smaller data.pkl, got {info.file_size:,} bytes", str(path)
                            )
                        pickled = archive.read(info)
                    elif name == "byteorder":
                        order = archive.read(info)[:8].strip()
                    elif folder == "data" or folder.endswith("/data"):
                        self._records[name] = _located(info, file, self._file.size)
        except _DAMAGED as error:
            raise malformed("expected a file of torch.save, got a damaged archive", str(path)) from error
        if not pickled:
            raise malformed("expected a file of torch.save, got an archive without data.pkl", str(path))
        self._swapped = order == b"big"
        return read_pickle(pickled, str(path), len(pickled))

    def _read_pickles(self) -> object:
        if not self._file.head(len(_MAGIC) + 2)[2:] == _MAGIC:
            raise malformed("expected a file of torch.save, got something else", str(self.path))
        place, most, types = str(self.path), self._file.size, dict[str, str]()
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            data.seek(len(_MAGIC) + 2)
            read_pickle(data, place, most)  # the version of the format
            system = read_pickle(data, place, most)
            content = read_pickle(data, place, most, types)
            keys, at = read_pickle(data, place, most), data.tell()
            for key in keys if isinstance(keys, list) else ():
                count = int.from_bytes(data[at : at + 8], "little")
                size = count * _size_of(types.get(str(key), ""))
                self._records[str(key)] = Record(at + 8, max(0, min(size, most - at - 8)))
                at += 8 + size
        self._swapped = isinstance(system, dict) and system.get("little_endian") is False
        return content

    def _inflated(self, record: Record) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(record.packed)

    def _expected(self, name: str, found: Strided, what: str, at: int) -> ModelError:
        return self._file.fail(
            f"expected the elements of `{name}`, {found.dtype} {list(found.sizes)}, got {what}", at
        )


def _located(info: zipfile.ZipInfo, file: BinaryIO, total: int) -> Record:
    """Return where the bytes of a storage lie in an archive of `total` bytes."""
    if info.compress_type != zipfile.ZIP_STORED:
        return Record(0, info.file_size, info.filename)
    file.seek(info.header_offset)
    name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    start = info.header_offset + _LOCAL.size + name + extra
    return Record(start, max(0, min(info.file_size, total - start)))


def _size_of(dtype: str) -> int:
    """Return the bytes of an element of a storage; of one without a type of its own, 1."""
    if dtype in DTYPES:
        return numpy_dtype(dtype).itemsize
    return {"qint32": 4, "complex32": 4}.get(dtype, 1)


def _swapped(array: Array) -> Array:
    """Return an array whose elements the file holds with their bytes in the other order."""
    if array.dtype.kind != "V":
        return array.byteswap()
    return array.copy().view(f"u{array.dtype.itemsize}").byteswap().view(array.dtype)


def _is_in_order(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the last axis moves fastest and nothing lies between elements."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def write_torch(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write a state dict as ``torch.save`` does, one tensor in memory at a time; or dictionaries of them.

    Names that have one and the same handle share one storage in the file.

    Raises:
        BackendError: for an element type that torch's files do not have.
    """
    keys: dict[int, str] = {}
    stored: list[TensorData] = []
    body = bytearray(pickle.PROTO + b"\x02")

    def add(name: str, data: Any) -> bytes:
        if isinstance(data, Mapping):
            inner = b"".join(_text(key) + add(key, value) + pickle.SETITEM for key, value in data.items())
            return pickle.EMPTY_DICT + inner
        if data.dtype not in _STORAGES:
            raise BackendError("E602", f"torch's files have no `{data.dtype}` here", place=f"tensor `{name}`")
        if id(data) not in keys:
            keys[id(data)] = str(len(stored))
            stored.append(data)
        return _tensor(data, keys[id(data)])

    body += add("", tensors) + pickle.STOP
    stem = path.stem or "archive"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _write(archive, f"{stem}/data.pkl", [memoryview(bytes(body))])
        _write(archive, f"{stem}/byteorder", [memoryview(b"little")])
        for number, data in enumerate(stored):
            _write(archive, f"{stem}/data/{number}", element_chunks(data))
        _write(archive, f"{stem}/version", [memoryview(b"3\n")])


def _write(archive: zipfile.ZipFile, name: str, chunks: Iterable[memoryview]) -> None:
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    # a local header has 30 bytes, the name and extra fields; zipfile adds one of 20 bytes with force_zip64
    start = archive.fp.tell() + 30 + len(name.encode()) + 20 + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    with archive.open(info, "w", force_zip64=True) as record:
        for chunk in chunks:
            record.write(chunk)


def _tensor(data: TensorData, key: str) -> bytes:
    """The call ``torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())``."""
    strides = np.cumprod([1, *reversed(data.shape[1:])], dtype=np.int64)[::-1] if data.shape else []
    count = int(np.prod(data.shape, dtype=np.int64))
    storage = b"".join(
        [
            pickle.MARK,
            _text("storage"),
            _global("torch", _STORAGES[data.dtype]),
            _text(key),
            _text("cpu"),
            _number(count),
            pickle.TUPLE,
            pickle.BINPERSID,
        ]
    )
    arguments = [
        storage,
        _number(0),
        _numbers(data.shape),
        _numbers([int(s) for s in strides]),
        pickle.NEWFALSE,
        _global("collections", "OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE,
    ]
    called = _global("torch._utils", "_rebuild_tensor_v2")
    return called + pickle.MARK + b"".join(arguments) + pickle.TUPLE + pickle.REDUCE


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _text(value: str) -> bytes:
    raw = value.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(raw)) + raw


def _number(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little")
    return pickle.LONG1 + bytes([len(raw)]) + raw


def _numbers(values: Any) -> bytes:
    return pickle.MARK + b"".join(_number(v) for v in values) + pickle.TUPLE
