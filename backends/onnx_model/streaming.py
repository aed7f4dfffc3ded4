"""Writes ONNX models one tensor at a time: never a second copy of the weights in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from ...formats.elements import ElementWriters
from ...ir import TensorData

ALIGNMENT = 4096  # a page, so that runtimes can map each tensor

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
    headers = [_header(t) for t in graph.initializer if _is_to_come(t)]
    small = [t for t in graph.initializer if not _is_to_come(t)]
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
    with ElementWriters() as writers, writers.open(path) as out:
        out.write(shell.SerializeToString(deterministic=True) + _key(_MODEL_GRAPH, size) + body)
        for name, field in zip(names, fields, strict=True):
            out.write(field)
            out.write_elements(weights[name])


def write_external(
    model: onnx.ModelProto, weights: Mapping[str, TensorData], files: Mapping[Path, Sequence[str]]
) -> None:
    """Write the values of external initializers to files of their own, and where they are into the model.

    Args:
        model: from ``to_model(graph, data=False)``; it gets offsets and lengths.
        weights: initializer name -> data.
        files: file of weights -> names of those in it, in order; the model refers to it by its name.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer if _is_to_come(tensor)}
    with ElementWriters() as writers:
        for path, names in files.items():
            with writers.open(path) as out:
                for name in names:
                    out.write(b"\0" * (-out.at % ALIGNMENT))
                    start, length = out.at, weights[name].nbytes
                    out.write_elements(weights[name])
                    for key, value in (("location", path.name), ("offset", start), ("length", length)):
                        tensors[name].external_data.add(key=key, value=str(value))


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether an initializer's values are elsewhere, or still to come."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def _is_to_come(tensor: onnx.TensorProto) -> bool:
    """Whether an initializer's values are still to come."""
    return is_external(tensor) and not tensor.external_data


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
