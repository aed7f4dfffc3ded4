"""Checkpoints: MindSpore's .ckpt, streamed tensor by tensor, and .safetensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...ir import BackendError, TensorData, numpy_dtype
from ..elements import ElementWriters
from ..shards import Shard, write_index

_TYPES = {
    "bool": "Bool",
    "bfloat16": "BFloat16",
    **{f"float{n}": f"Float{n}" for n in (16, 32, 64)},
    **{f"{sign}int{n}": f"{sign.upper()}Int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)},
}

SAFETENSORS_TYPES = {
    "bool": "BOOL",
    "bfloat16": "BF16",
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
    **{f"{long}{n}": f"{short}{n}" for short, long in (("I", "int"), ("U", "uint")) for n in (8, 16, 32, 64)},
    "complex64": "C64",
}
"""Element type -> its name in the format."""

Entry = tuple[str, TensorData, tuple[int, ...]]
"""(name, values, shape in the target)."""


def write_ckpt(path: Path, entries: Iterable[Entry]) -> None:
    """Write a .ckpt, repeated ``value {tag, tensor {dims, tensor_type, tensor_content}}``, one by one."""
    with ElementWriters() as writers, writers.open(path) as file:
        for name, data, shape in entries:
            file.write(_value_head(name, _TYPES[data.dtype], shape, data.nbytes))
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


def write_safetensors(path: Path, entries: Iterable[Entry]) -> None:
    """Write a .safetensors file, one tensor in memory at a time.

    Raises:
        BackendError: for an element type that the format does not have.
    """
    with ElementWriters() as writers:
        _write_safetensors(path, entries, writers)


def _write_safetensors(path: Path, entries: Iterable[Entry], writers: ElementWriters) -> None:
    # wide elements first, as the format's own library does, so that each is aligned
    order = sorted(entries, key=lambda entry: -_itemsize(entry))
    header: dict[str, object] = {}
    at = 0
    for name, data, shape in order:
        end = at + data.nbytes
        header[name] = {
            "dtype": SAFETENSORS_TYPES[data.dtype],
            "shape": list(shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with writers.open(path) as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, data, _ in order:
            out.write_elements(data)


def write_shards(folder: Path, entries: Sequence[Entry], shards: Sequence[Shard]) -> None:
    """Write .safetensors files, and their index if there are several.

    Raises:
        BackendError: for an element type that the format does not have.
    """
    held = {entry[0]: entry for entry in entries}
    with ElementWriters() as writers:
        for shard in shards:
            _write_safetensors(folder / shard.file, [held[name] for name in shard.names], writers)
    if len(shards) > 1:
        write_index(folder, shards, {name: data.nbytes for name, data, _ in entries})


def _itemsize(entry: Entry) -> int:
    name, data, _ = entry
    if data.dtype not in SAFETENSORS_TYPES:
        raise BackendError(
            "E602", f"safetensors has no element type `{data.dtype}`", place=f"tensor `{name}`"
        )
    return numpy_dtype(data.dtype).itemsize
