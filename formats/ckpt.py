"""MindSpore's .ckpt without MindSpore: values {1: tag, 2: tensor {1: dims, 2: type, 3: content}}."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..ir import BackendError, TensorData
from ..ir.outside import protobuf
from ..ir.outside.mapped import MappedFile
from .elements import ElementWriters, Entry

_TYPES = {
    "Bool": "bool",
    "BFloat16": "bfloat16",
    **{f"Float{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"{sign}Int{n}": f"{sign.lower()}int{n}" for sign in ("", "U") for n in (8, 16, 32, 64)},
    **{f"Complex{n}": f"complex{n}" for n in (64, 128)},
}
_CHECKSUM, _CHUNK = b"crc_num", 1 << 20
_NAMES = {name: type_ for type_, name in _TYPES.items() if not type_.startswith("Complex")}
"""Element type -> its name in files that are written."""


@dataclass(slots=True)
class _Saved:
    """One parameter of the file; MindSpore saves those above 512 MiB in several values of one tag."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    slices: list[tuple[int, int]] = field(default_factory=list)


def read_ckpt(path: Path) -> dict[str, TensorData]:
    """Return the tensors of a .ckpt, none of them loaded.

    Raises:
        ModelError: when the file is missing, truncated or malformed, with the byte at fault.
    """
    file = MappedFile(path, "a MindSpore checkpoint")
    found: list[_Saved] = []
    seen: set[str] = set()
    for value in protobuf.fields(file, 0, _end(file)):
        if (value.number, value.wire) != (1, protobuf.BYTES):
            raise file.fail(f"expected a parameter (field 1), got field {value.number}", value.start)
        saved = _value(file, value)
        if found and found[-1].name == saved.name and found[-1].shape == saved.shape:
            found[-1].slices += saved.slices
            continue
        if saved.name in seen:
            raise file.fail(f"expected every name once, got `{saved.name}` again", value.start)
        seen.add(saved.name)
        found.append(saved)
    tensors: dict[str, TensorData] = {}
    for s in found:
        shape = _shape(s)
        tensors[s.name] = file.tensor(s.name, s.dtype, shape, s.slices)
    return tensors


def _end(file: MappedFile) -> int:
    """Return the end of the parameters: before a checksum of ``save_checkpoint(crc_check=True)``."""
    end = file.size - len(_CHECKSUM) - 10
    if end < 0 or file.view[end : end + len(_CHECKSUM)] != _CHECKSUM:
        return file.size
    found = 0
    for at in range(0, end, _CHUNK):
        found = zlib.crc32(file.view[at : min(at + _CHUNK, end)], found)
    expected = int.from_bytes(file.view[end + len(_CHECKSUM) : file.size], "big")
    if found != expected:
        raise file.fail(f"expected the checksum {expected:#x} that the file ends with, got {found:#x}", end)
    return end


def _shape(saved: _Saved) -> tuple[int, ...]:
    """Return the shape; MindSpore writes a scalar's dimensions as [0]."""
    return () if saved.shape == (0,) and any(length for _, length in saved.slices) else saved.shape


def _value(file: MappedFile, value: protobuf.Field) -> _Saved:
    name: str | None = None
    tensor: protobuf.Field | None = None
    for part in protobuf.fields(file, value.start, value.end):
        if part.number == 1:
            name = protobuf.text(file, part)
        elif part.number == 2 and part.wire == protobuf.BYTES:
            tensor = part
        else:  # 3 is a map parameter, the rest is unknown
            raise file.fail(f"expected a name and a tensor, got field {part.number}", part.start)
    if name is None or tensor is None:
        raise file.fail(
            f"expected a name and a tensor, got only one of them ({name or 'tensor'})", value.start
        )
    dims: list[int] = []
    kind: str | None = None
    content: tuple[int, int] | None = None
    for part in protobuf.fields(file, tensor.start, tensor.end):
        if part.number == 1:
            dims += protobuf.numbers(file, part)
        elif part.number == 2:
            kind = protobuf.text(file, part)
        elif part.number == 3 and part.wire == protobuf.BYTES:
            content = (part.start, part.end - part.start)
        else:
            raise file.fail(f"expected dimensions, a type and elements, got field {part.number}", part.start)
    if kind not in _TYPES:
        raise file.fail(f"expected an element type of `{name}` such as `Float32`, got `{kind}`", tensor.start)
    if content is None or any(d < 0 for d in dims):
        what = "no elements" if content is None else f"the dimensions {dims}"
        raise file.fail(f"expected elements and dimensions of `{name}`, got {what}", tensor.start)
    return _Saved(name, _TYPES[kind], tuple(dims), [content])


def write_ckpt(path: Path, entries: Iterable[Entry]) -> None:
    """Write a .ckpt, repeated ``value {tag, tensor {dims, tensor_type, tensor_content}}``, one by one.

    Raises:
        BackendError: for an element type that MindSpore does not have.
    """
    rows = list(entries)
    for name, data, _ in rows:
        if data.dtype not in _NAMES:
            raise BackendError(
                "E602", f"MindSpore has no element type `{data.dtype}`", place=f"tensor `{name}`"
            )
    with ElementWriters() as writers, writers.open(path) as file:
        for name, data, shape in rows:
            file.write(_value_head(name, _NAMES[data.dtype], shape, data.nbytes))
            file.write_elements(data)


def _value_head(name: str, type_: str, shape: tuple[int, ...], size: int) -> bytes:
    """Return what stands before the elements of a parameter, which are so many bytes."""
    dims = b"".join(b"\x08" + _varint(d) for d in (shape or (0,)))  # MindSpore writes a scalar's dims as [0]
    head = dims + _bytes_field(2, type_.encode()) + b"\x1a" + _varint(size)
    tag = _bytes_field(1, name.encode())
    tensor = b"\x12" + _varint(len(head) + size) + head
    return b"\x0a" + _varint(len(tag) + len(tensor) + size) + tag + tensor


def _bytes_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
