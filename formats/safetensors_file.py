""".safetensors: a JSON header, then the elements; read by slices and written tensor by tensor."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..ir import BackendError, TensorData, numpy_dtype
from ..ir.outside.mapped import MappedFile
from .elements import ElementWriters, Entry
from .shard_index import INDEXES, Shard, write_index

_NAMES = {
    "bool": "BOOL",
    "bfloat16": "BF16",
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
    **{f"{long}{n}": f"{short}{n}" for short, long in (("I", "int"), ("U", "uint")) for n in (8, 16, 32, 64)},
    "complex64": "C64",
}
"""Element type -> its name in the format."""


_TYPES = {short: name for name, short in _NAMES.items()}


def read_safetensors(path: Path) -> dict[str, TensorData]:
    """Return the tensors of a .safetensors file, none of them loaded.

    Raises:
        ModelError: when the file is missing, truncated or malformed.
    """
    from safetensors import SafetensorError, safe_open

    file = MappedFile(path, "a safetensors file")
    try:  # the format's own library checks lengths, overlaps and the header
        with safe_open(str(path), "np"):
            pass
    except (SafetensorError, OSError, ValueError) as error:
        raise file.fail(f"expected a safetensors file: {error}", 0) from error
    (length,) = struct.unpack("<Q", file.head(8))
    header = json.loads(file.head(8 + length)[8:])
    header.pop("__metadata__", None)
    tensors: dict[str, TensorData] = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if entry["dtype"] not in _TYPES:
            raise file.fail(f"expected an element type of `{name}` such as `F32`, got `{entry['dtype']}`", 8)
        start, end = entry["data_offsets"]
        place = (8 + length + start, end - start)
        tensors[name] = file.tensor(name, _TYPES[entry["dtype"]], tuple(entry["shape"]), [place])
    return tensors


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
            "dtype": _NAMES[data.dtype],
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


def write_shards(
    folder: Path, entries: Sequence[Entry], shards: Sequence[Shard], indexes: Sequence[str] = INDEXES
) -> None:
    """Write .safetensors files, and their index under each of its names if there are several.

    Raises:
        BackendError: for an element type that the format does not have.
    """
    held = {entry[0]: entry for entry in entries}
    with ElementWriters() as writers:
        for shard in shards:
            _write_safetensors(folder / shard.file, [held[name] for name in shard.names], writers)
    if len(shards) > 1:
        write_index(folder, shards, {name: data.nbytes for name, data, _ in entries}, indexes)


def _itemsize(entry: Entry) -> int:
    name, data, _ = entry
    if data.dtype not in _NAMES:
        raise BackendError(
            "E602", f"safetensors has no element type `{data.dtype}`", place=f"tensor `{name}`"
        )
    return numpy_dtype(data.dtype).itemsize
