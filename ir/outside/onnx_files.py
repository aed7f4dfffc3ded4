"""Opens ONNX files: what cannot be read is one error, whoever asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from ..errors import ModelError


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
        return files.load(path, load_external_data=external)
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
