"""Checkpoints: MindSpore's .ckpt, streamed tensor by tensor, and .safetensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ...ir import TensorData

_TYPES = {
    "bool": "Bool",
    "bfloat16": "BFloat16",
    **{f"float{n}": f"Float{n}" for n in (16, 32, 64)},
    **{f"{sign}int{n}": f"{sign.upper()}Int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)},
}

Entry = tuple[str, TensorData, tuple[int, ...]]
"""(name, values, shape in the target)."""


def write_ckpt(path: Path, entries: Iterable[Entry]) -> None:
    """Write a .ckpt, repeated ``value {tag, tensor {dims, tensor_type, tensor_content}}``, one by one."""
    with path.open("wb") as file:
        for name, data, shape in entries:
            content = np.ascontiguousarray(data.numpy())
            _write_value(file, name, _TYPES[data.dtype], shape, content.reshape(-1).view(np.uint8).data)


def _write_value(file: BinaryIO, name: str, type_: str, shape: tuple[int, ...], content: memoryview) -> None:
    dims = b"".join(b"\x08" + _varint(d) for d in (shape or (0,)))  # MindSpore writes a scalar's dims as [0]
    head = dims + _bytes_field(2, type_.encode()) + b"\x1a" + _varint(content.nbytes)
    tag = _bytes_field(1, name.encode())
    tensor = b"\x12" + _varint(len(head) + content.nbytes) + head
    file.write(b"\x0a" + _varint(len(tag) + len(tensor) + content.nbytes) + tag + tensor)
    file.write(content)


def _bytes_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def write_safetensors(path: Path, entries: Iterable[Entry]) -> None:
    """Write a .safetensors file."""
    from safetensors.numpy import save_file

    save_file(
        {name: np.ascontiguousarray(data.numpy()).reshape(shape) for name, data, shape in entries}, path
    )
