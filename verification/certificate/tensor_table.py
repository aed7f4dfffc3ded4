"""Collects the tensors of a certificate: in the document itself, or in a file of safetensors beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.safetensors_file import write_safetensors
from ...ir import Array, TensorData

_INLINE = 16
"""Elements up to which a tensor is written in the document itself."""


class TensorTable:
    """The tensors that two graphs hold, equal ones once.

    Attributes:
        entries: name -> what the document says of it; those of a file get their place by `write`.
        data: name -> the tensor.
    """

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.data: dict[str, TensorData] = {}
        self._names: dict[tuple[str, tuple[int, ...], str], str] = {}

    def add(self, data: TensorData) -> str:
        """Return the name of a tensor in the table."""
        array = np.ascontiguousarray(data.numpy())
        digest = hashlib.sha256(_bytes_of(array)).hexdigest()
        key = (data.dtype, tuple(data.shape), digest)
        if key in self._names:
            return self._names[key]
        name = f"t{len(self._names)}"
        self._names[key] = name
        self.data[name] = data
        entry: dict[str, Any] = {"dtype": data.dtype, "shape": list(data.shape)}
        if array.size <= _INLINE and array.dtype.kind in "iubf" and bool(np.isfinite(array).all()):
            entry["values"] = array.reshape(-1).tolist()
        else:
            entry["sha256"] = digest
        self.entries[name] = entry
        return name

    def write(self, path: Path) -> bool:
        """Write the file of tensors and note the place of each; returns whether there is any."""
        held = {name: self.data[name] for name, entry in self.entries.items() if "sha256" in entry}
        if not held:
            return False
        write_safetensors(path, [(name, data, tuple(data.shape)) for name, data in held.items()])
        begin = _places(path)
        for name in held:
            self.entries[name].update(file=path.name, offset=begin[name])
        return True


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _places(path: Path) -> dict[str, int]:
    """Return the byte at which each tensor of a file of safetensors begins."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return {
        name: 8 + length + row["data_offsets"][0] for name, row in header.items() if name != "__metadata__"
    }
