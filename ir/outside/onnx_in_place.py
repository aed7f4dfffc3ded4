"""Opens ONNX files whose weights stay where they lie: tensors refer to the file's own bytes.

A protobuf message is a sequence of fields, so a file is read field by field, and of a large tensor everything
but its elements is kept, with where those are: as if they were external data, in the file itself.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import onnx

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
"""Field numbers of onnx.proto, which never change."""

_LEAST = 1024  # bytes of a tensor that stays: shapes and axes are read by whoever reads the model


def open_in_place(path: Path) -> onnx.ModelProto | None:
    """Return the model in a file without its weights, which refer to the file; None where that cannot be.

    Nothing is said of a file that is damaged or not there: whoever opens it as a whole says what is wrong.

    Args:
        path: the file; tensors that lie in other files of its folder go on doing so.
    """
    if path.is_symlink():  # what is external lies beside the link, its elements do not
        return None
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            parts = list(_model(view, path.name))
        return onnx.ModelProto.FromString(b"".join(parts))
    except Exception:  # of protobuf, whose DecodeError differs between implementations; of the system
        return None


def _model(view: mmap.mmap, name: str) -> Iterator[bytes]:
    for field, start, body, end in _fields(view, 0, len(view)):
        if field == _MODEL_GRAPH:
            graph = b"".join(_graph(view, body, end, name))
            yield _field(_MODEL_GRAPH, graph)
        else:
            yield view[start:end]


def _graph(view: mmap.mmap, at: int, stop: int, name: str) -> Iterator[bytes]:
    for field, start, body, end in _fields(view, at, stop):
        if field == _GRAPH_INITIALIZER and end - body >= _LEAST:
            yield _field(_GRAPH_INITIALIZER, _tensor(view, body, end, name))
        else:
            yield view[start:end]


def _tensor(view: mmap.mmap, at: int, stop: int, name: str) -> bytes:
    """Return a tensor's encoding with the place of its elements for the elements themselves."""
    kept: list[bytes] = []
    place = onnx.TensorProto()
    for field, start, body, end in _fields(view, at, stop):
        if field == _TENSOR_RAW_DATA and end - body >= _LEAST:
            place.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", name), ("offset", body), ("length", end - body)):
                place.external_data.add(key=key, value=str(value))
        else:
            kept.append(view[start:end])
    return b"".join([*kept, place.SerializeToString()])


def _fields(view: mmap.mmap, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, first byte, first byte of what it holds, end) of every field between two bytes.

    Raises:
        ValueError: where no field ends, or one of a form that protobuf has no more.
    """
    while at < stop:
        start = at
        key, at = _varint(view, at)
        form = key & 7
        if form == 0:
            body, at = at, _varint(view, at)[1]
        elif form == 2:
            length, body = _varint(view, at)
            at = body + length
        elif form in (1, 5):
            body, at = at, at + (8 if form == 1 else 4)
        else:
            raise ValueError(form)
        if at > stop:
            raise ValueError(at)
        yield (key >> 3 if form == 2 else 0), start, body, at


def _varint(view: mmap.mmap, at: int) -> tuple[int, int]:
    """Return a number and the byte behind it."""
    number = 0
    for shift in range(0, 70, 7):
        byte = view[at + shift // 7]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + shift // 7 + 1
    raise ValueError(at)


def _field(number: int, body: bytes) -> bytes:
    length, out = len(body), bytearray([number << 3 | 2])
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out) + body
