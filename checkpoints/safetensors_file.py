""".safetensors: a JSON header, then the elements; read by slices and written tensor by tensor."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

from ..backends.mindspore_source.checkpoint import SAFETENSORS_TYPES
from ..backends.mindspore_source.checkpoint import write_safetensors as write_values
from ..ir import TensorData
from ..ir.outside.mapped import MappedFile

_TYPES = {short: name for name, short in SAFETENSORS_TYPES.items()}


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


def write_safetensors(path: Path, tensors: Mapping[str, TensorData]) -> None:
    """Write a .safetensors file, one tensor in memory at a time.

    Raises:
        BackendError: for an element type that the format does not have.
    """
    write_values(path, ((name, data, data.shape) for name, data in tensors.items()))
