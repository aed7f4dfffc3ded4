"""Writes ONNX models one tensor at a time: never a second copy of the weights in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx

from ...ir import BackendError, TensorData

_ALIGNMENT = 4096  # a page, so that runtimes can map each tensor
_CHUNK = 1 << 23  # bytes written at a time

# field numbers of onnx.proto, which never change
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9


def write_embedded(model: onnx.ModelProto, weights: Mapping[str, TensorData], path: Path) -> None:
    """Write a model whose external initializers are filled from `weights`, all in one file.

    A protobuf message is the concatenation of its fields in any order, so the graph without its weights is
    written first and the weights follow as further `initializer` fields.

    Args:
        model: from ``to_model(graph, data=False)``; its external initializers are taken out.
        weights: initializer name -> data.
        path: the file.
    """
    graph = model.graph
    headers = [_header(t) for t in graph.initializer if is_external(t)]
    small = [t for t in graph.initializer if not is_external(t)]
    del graph.initializer[:]
    graph.initializer.extend(small)
    names = [name for name, _ in headers]
    tensors = [head + _key(_TENSOR_RAW_DATA, weights[name].nbytes) for name, head in headers]
    fields = [
        _key(_GRAPH_INITIALIZER, len(tensor) + weights[name].nbytes) + tensor
        for name, tensor in zip(names, tensors, strict=True)
    ]
    body = graph.SerializeToString(deterministic=True)
    size = len(body) + sum(len(f) + weights[n].nbytes for n, f in zip(names, fields, strict=True))
    shell = onnx.ModelProto()
    shell.CopyFrom(model)
    shell.ClearField("graph")
    with path.open("wb") as out:
        out.write(shell.SerializeToString(deterministic=True) + _key(_MODEL_GRAPH, size) + body)
        for name, field in zip(names, fields, strict=True):
            out.write(field)
            _copy(weights[name], out)


def write_external(model: onnx.ModelProto, weights: Mapping[str, TensorData], path: Path) -> None:
    """Write the values of external initializers to `path`, and where they are into the model.

    Args:
        model: from ``to_model(graph, data=False)``; it gets offsets and lengths.
        weights: initializer name -> data.
        path: the file of weights; the model refers to it by its name.
    """
    with path.open("wb") as out:
        for tensor in model.graph.initializer:
            if not is_external(tensor):
                continue
            out.write(b"\0" * (-out.tell() % _ALIGNMENT))
            start, length = out.tell(), weights[tensor.name].nbytes
            _copy(weights[tensor.name], out)
            for key, value in (("location", path.name), ("offset", start), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether an initializer's values are elsewhere, or still to come."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def _header(tensor: onnx.TensorProto) -> tuple[str, bytes]:
    """Return the name of a tensor, and its encoding without data."""
    plain = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    return tensor.name, plain.SerializeToString(deterministic=True)


def _key(field: int, length: int) -> bytes:
    """Return the protobuf key of a field, and its length."""
    return _varint(field << 3 | 2) + _varint(length)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _copy(data: TensorData, out: BinaryIO) -> None:
    """Write the elements as little-endian bytes."""
    written = 0
    for chunk in _chunks(data.numpy()):
        written += out.write(chunk)
    if written != data.nbytes:
        raise BackendError(
            "E602",
            f"expected {data.nbytes} bytes of data for a parameter {data.type}, got {written}",
            hint="the frontend's lazy handle states another type than it loads",
        )


def _chunks(array: np.ndarray) -> Iterator[memoryview]:
    if array.ndim and not array.flags.c_contiguous:  # some rows at a time: a copy is made of them
        rows = max(1, _CHUNK // max(1, array[0].nbytes))
        for at in range(0, len(array), rows):
            yield from _chunks(np.ascontiguousarray(array[at : at + rows]))
        return
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.byteorder == ">":
        flat = flat.astype(flat.dtype.newbyteorder("<"))
    view = flat.view(np.uint8)
    for at in range(0, view.size, _CHUNK):
        yield view[at : at + _CHUNK].data
