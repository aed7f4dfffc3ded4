"""MXNet's .params by names alone: the marks ``arg:`` and ``aux:`` are taken off."""

from __future__ import annotations

from pathlib import Path

from ..formats.params_file import read_params as read_arrays
from ..ir import ModelError, TensorData


def read_params(path: Path) -> dict[str, TensorData]:
    """Return the tensors of a .params file, none of them loaded.

    Raises:
        ModelError: when the file is missing, truncated or malformed, or has arrays without names.
    """
    tensors: dict[str, TensorData] = {}
    for array in read_arrays(path):
        name = array.name.removeprefix("arg:").removeprefix("aux:")
        if not name or name in tensors:
            what = f"`{name}` again" if name else "one without a name"
            raise ModelError("E101", f"expected arrays with a name each, got {what}", place=str(path))
        tensors[name] = array.data
    return tensors
