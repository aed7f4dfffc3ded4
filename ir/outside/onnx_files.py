"""Opens ONNX files: what cannot be read is one error, whoever asks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx

from ..errors import ModelError
from .links import file_beside


def open_onnx(path: Path, *, external: bool = False) -> onnx.ModelProto:
    """Return the model in a file, its names as they stand there.

    Args:
        path: the file.
        external: whether to read the tensors that lie in other files, too.

    Raises:
        ModelError: E101 for a file that is not there, or holds no ONNX model.
    """
    files: Any = onnx  # whose annotations of `load` leave out what a path holds
    try:
        proto = files.load(path, load_external_data=False)
        if external:
            onnx.load_external_data_for_model(proto, str(settle_links(proto, path)))
        return proto
    except OSError as error:
        raise ModelError("E101", f"cannot read the ONNX model: {error}", place=str(path)) from error
    except onnx.checker.ValidationError as error:
        raise ModelError(
            "E101",
            f"cannot read the external data: {str(error).strip()}",
            place=str(path),
            hint="an ONNX model's external data lie in its folder",
        ) from error
    except Exception as error:  # protobuf's DecodeError, whose class differs between implementations
        raise ModelError(
            "E101", f"expected an ONNX model, got a malformed file: {error}", place=str(path)
        ) from error


def settle_links(proto: onnx.ModelProto, path: Path) -> Path:
    """Return the folder of a model's external data, and let its tensors name files in place of links to them.

    Args:
        proto: the model; changed only where a link leads to its data.
        path: its file.

    Raises:
        ModelError: E101 for a link that leads elsewhere (`file_beside`).
    """
    return settle_tensors(list(_tensors(proto.graph)), path)


def settle_tensors(tensors: Iterable[onnx.TensorProto], path: Path) -> Path:
    """Settle links as `settle_links` does, for some tensors of the model."""
    external = [t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL]
    entries = [entry for tensor in external for entry in tensor.external_data if entry.key == "location"]
    names = {entry.value for entry in entries}
    if not any(_is_linked(path.parent, name) for name in names):
        return path.parent
    real = {name: file_beside(path, name) for name in names}
    folder = Path(os.path.commonpath([file.parent for file in real.values()]))
    for entry in entries:
        entry.value = real[entry.value].relative_to(folder).as_posix()
    return folder


def _is_linked(folder: Path, name: str) -> bool:
    """Whether a link leads to a file of a folder, apart from those that lead to the folder."""
    if not name or "\0" in name:
        return False
    return (folder / name).resolve() != Path(os.path.normpath(folder.resolve() / name))


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(inner)
