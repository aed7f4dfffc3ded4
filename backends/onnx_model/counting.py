"""Counts the operators in an ONNX file, whose weights are passed over and never read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import DecodeError

from ...ir import ModelError

# field numbers of onnx.proto, and protobuf's kinds of fields, neither of which ever changes
_MODEL_GRAPH, _GRAPH_NODE = 7, 1
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5


def count_nodes(path: Path) -> Counter[str]:
    """Return operator -> how many nodes of a file apply it, those of nested graphs included.

    Raises:
        ModelError: when the file cannot be read.
    """
    found: Counter[str] = Counter()
    try:
        with path.open("rb") as file:
            nodes = [onnx.NodeProto.FromString(file.read(size)) for size in _places(file, path)]
    except (OSError, DecodeError, EOFError) as error:
        raise ModelError("E101", f"cannot read the ONNX model: {error}", place=str(path)) from error
    graphs = [onnx.GraphProto(node=nodes)]
    while graphs:
        for node in graphs.pop().node:
            found[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
    return found


def _places(file: BinaryIO, path: Path) -> Iterator[int]:
    """Yield the size of each node of the graph, when the file stands at its start."""
    for field, _, end in _fields(file, path.stat().st_size):
        for inner, size, _ in _fields(file, end) if field == _MODEL_GRAPH else ():
            if inner == _GRAPH_NODE:
                yield size


def _fields(file: BinaryIO, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, size, end) of each field until a place in the file, standing at its content.

    Raises:
        EOFError: for a field that is none, or goes on behind the end.
    """
    while file.tell() < end:
        key = _varint(file)
        kind = key & 7
        if kind == _VARINT:
            _varint(file)
            continue
        if kind not in (_EIGHT_BYTES, _SIZED, _FOUR_BYTES):
            raise EOFError(f"byte {file.tell()} begins no field")
        size = _varint(file) if kind == _SIZED else 8 if kind == _EIGHT_BYTES else 4
        after = file.tell() + size
        if after > end:
            raise EOFError(f"a field goes on behind byte {end}")
        if kind == _SIZED:
            yield key >> 3, size, after
        file.seek(after)


def _varint(file: BinaryIO) -> int:
    number = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            raise EOFError("the file ends within a number")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number
    raise EOFError(f"byte {file.tell()} ends a number of more than 64 bits")
