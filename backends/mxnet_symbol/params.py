"""Writes ``.params`` files that MXNet 0.11 and later load, one array in memory at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from ...ir import BackendError, TensorData
from ..elements import ElementWriters

FILE_MAGIC, V2, V3 = 0x112, 0xF993FAC9, 0xF993FACA
DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
"""MXNet's type flags, by number."""

_DENSE, _CPU = 0, 1


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
        if data.dtype not in DTYPES:
            raise BackendError(
                "E602", f"expected an element type of MXNet, got `{data.dtype}`", place=f"parameter `{name}`"
            )
    with ElementWriters() as writers, writers.open(path) as file:
        file.write(struct.pack("<QQQ", FILE_MAGIC, 0, len(rows)))
        for _, data in rows:
            # arrays without dimensions or elements exist in numpy-shape mode only, which has its own magic
            file.write(struct.pack("<Ii", V2 if data.shape and all(data.shape) else V3, _DENSE))
            file.write(struct.pack(f"<I{len(data.shape)}q", len(data.shape), *data.shape))
            file.write(struct.pack("<iii", _CPU, 0, DTYPES.index(data.dtype)))
            file.write_elements(data)
        file.write(struct.pack("<Q", len(rows)))
        for name, _ in rows:
            raw = name.encode()
            file.write(struct.pack("<Q", len(raw)) + raw)
