"""The initializers of an .onnx file, each read from its slice of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..ir import ModelError, TensorData, require_name, require_shape
from ..ir.outside import protobuf
from ..ir.outside.mapped import MappedFile
from ..ir.outside.onnx_files import settle_tensors
from ..ir.types import dtype_of_onnx

if TYPE_CHECKING:
    import onnx

# field numbers of onnx.proto, which never change
_MODEL_GRAPH, _GRAPH_INITIALIZER, _GRAPH_SPARSE_INITIALIZER = 7, 5, 15
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA, _LOCATION = 1, 2, 8, 9, 14


@dataclass(slots=True)
class _Header:
    """A TensorProto without its elements."""

    name: str = ""
    number: int = 0
    dims: tuple[int, ...] = ()
    raw: tuple[int, int] | None = None
    external: bool = False


def read_onnx(path: Path) -> dict[str, TensorData]:
    """Return the initializers of a model's graph, none of them loaded.

    Raises:
        ModelError: when the file is missing, truncated or malformed, with the byte at fault.
    """
    file = MappedFile(path, "an ONNX model")
    tensors: dict[str, TensorData] = {}
    graphs = [f for f in protobuf.fields(file, 0, file.size) if f.number == _MODEL_GRAPH]
    if not graphs or any(g.wire != protobuf.BYTES for g in graphs):
        raise file.fail("expected a model with a graph, got none", 0)
    for graph in graphs:
        for part in protobuf.fields(file, graph.start, graph.end):
            if part.number == _GRAPH_SPARSE_INITIALIZER:
                raise file.fail("expected dense initializers, got a sparse one", part.start)
            if part.number == _GRAPH_INITIALIZER:
                header = _header(file, part)
                if header.name in tensors:
                    raise file.fail(f"expected every name once, got `{header.name}` again", part.start)
                tensors[header.name] = _tensor(file, part, header)
    return tensors


def read_without_weights(path: Path) -> onnx.ModelProto:
    """Return the model of a file that `read_onnx` reads, without its initializers.

    Raises:
        ModelError: when the file is malformed.
    """
    import onnx
    from google.protobuf.message import DecodeError

    file = MappedFile(path, "an ONNX model")
    found, graphs = onnx.ModelProto(), (_MODEL_GRAPH,)
    try:
        found.ParseFromString(b"".join(_fields_but(file, 0, file.size, graphs)))
        for graph in (f for f in protobuf.fields(file, 0, file.size) if f.number in graphs):
            weights = (_GRAPH_INITIALIZER, _GRAPH_SPARSE_INITIALIZER)
            found.graph.MergeFromString(b"".join(_fields_but(file, graph.start, graph.end, weights)))
    except (DecodeError, UnicodeDecodeError) as error:  # the latter from protobuf's implementation in Python
        raise file.fail(f"expected an ONNX model, got a malformed file: {error}", 0) from error
    return found


def _fields_but(file: MappedFile, start: int, end: int, numbers: Sequence[int]) -> Iterator[bytes]:
    """Yield the bytes of the fields of a message but those of some numbers."""
    for part in protobuf.fields(file, start, end):
        if part.number not in numbers:
            yield bytes(file.view[start : part.end])
        start = part.end


def _header(file: MappedFile, tensor: protobuf.Field) -> _Header:
    found = _Header()
    for part in protobuf.fields(file, tensor.start, tensor.end):
        if part.number == _DIMS:
            found.dims = (*found.dims, *protobuf.numbers(file, part))
        elif part.number == _DATA_TYPE:
            found.number = part.value
        elif part.number == _NAME:
            found.name = protobuf.text(file, part)
        elif part.number == _RAW_DATA:
            found.raw = (part.start, part.end - part.start)
        elif part.number == _LOCATION:
            found.external = part.value == 1
        # the others are elements in typed fields and descriptions; `_loaded` reads what it needs of them
    return found


def _tensor(file: MappedFile, field: protobuf.Field, header: _Header) -> TensorData:
    try:
        dtype = dtype_of_onnx(header.number)
    except KeyError:
        dtype = "string"
    if dtype == "string":
        raise file.fail(
            f"expected numbers in `{header.name}`, got ONNX's element type {header.number}", field.start
        )
    require_name(header.name, "the name of a tensor", f"{file.path}, byte {field.start}")
    require_shape(header.dims, f"`{header.name}` of {file.path}")
    if header.raw is not None and not header.external:
        return file.tensor(header.name, dtype, header.dims, [header.raw])
    return TensorData(dtype, header.dims, _loaded(file, field, header.name), (str(file.path), field.start))


def _loaded(file: MappedFile, field: protobuf.Field, name: str) -> Callable[[], np.ndarray]:
    """Return a loader for elements that are not raw bytes of this file: onnx's, which checks places."""

    def load() -> np.ndarray:
        import onnx
        from google.protobuf.message import DecodeError

        try:
            proto = onnx.TensorProto.FromString(bytes(file.view[field.start : field.end]))
            return onnx.numpy_helper.to_array(proto, str(settle_tensors([proto], file.path)))
        except (DecodeError, OSError, ValueError, onnx.checker.ValidationError) as error:
            raise ModelError(
                "E101",
                f"cannot read the elements of `{name}`: {str(error).strip()}",
                place=f"{file.path}, byte {field.start}",
                hint="an ONNX model's external data lie beside it",
            ) from error

    return load
