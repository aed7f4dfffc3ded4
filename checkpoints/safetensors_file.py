""".safetensors: a JSON header, then the elements; read by slices and written tensor by tensor."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..ir import BackendError, TensorData
from .mapped import MappedFile

_TYPES = {
    "BOOL": "bool",
    "BF16": "bfloat16",
    **{f"F{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"{short}{n}": f"{long}{n}" for short, long in (("I", "int"), ("U", "uint")) for n in (8, 16, 32, 64)},
    "C64": "complex64",
}
_NAMES = {name: short for short, name in _TYPES.items()}


def read_safetensors(path: Path) -> dict[str, TensorData]:
    """The tensors of a .safetensors file, none of them loaded.

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
    (length,) = struct.unpack_from("<Q", file.view)
    header = json.loads(file.view[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors: dict[str, TensorData] = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if entry["dtype"] not in _TYPES:
            raise file.fail(f"expected an element type of `{name}` such as `F32`, got `{entry['dtype']}`", 8)
        start, end = entry["data_offsets"]
        place = (8 + length + start, end - start)
        tensors[name] = file.tensor(name, _TYPES[entry["dtype"]], tuple(entry["shape"]), [place])
    return tensors


def write_safetensors(path: Path, tensors: Mapping[str, TensorData]) -> None:
    """Write a .safetensors file, one tensor in memory at a time.

    Raises:
        BackendError: for an element type that the format does not have.
    """
    header: dict[str, object] = {}
    at = 0
    # wide elements first, as the format's own library does, so that each is aligned
    order = sorted(tensors, key=lambda name: -_itemsize(name, tensors[name]))
    for name in order:
        data = tensors[name]
        end = at + data.nbytes
        header[name] = {"dtype": _NAMES[data.dtype], "shape": list(data.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            out.write(np.ascontiguousarray(tensors[name].numpy()).reshape(-1).view(np.uint8).data)


def _itemsize(name: str, data: TensorData) -> int:
    if data.dtype not in _NAMES:
        raise BackendError(
            "E602", f"safetensors has no element type `{data.dtype}`", place=f"tensor `{name}`"
        )
    from ..ir import numpy_dtype

    return numpy_dtype(data.dtype).itemsize
