"""Arrays from files: ``@file.npy`` for one input, an ``.npz`` for several by name. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from ..ir import Array, ModelError, UsageError, missing_file

_LARGEST = 1 << 30
"""Bytes of one array."""


def read_array(path: Path) -> Array:
    """Read an ``.npy`` file.

    Raises:
        UsageError: when it is none, or not one of numbers.
        ModelError: when there is no such file.
    """
    try:
        with path.open("rb") as file:
            _require_numbers(file, path, path.stat().st_size)
        return np.load(path, allow_pickle=False)
    except UsageError:
        raise
    except Exception as error:  # what NumPy raises of a damaged header may be anything
        raise _unreadable(path, error) from error


def read_arrays(path: Path) -> dict[str, Array]:
    """Read an ``.npz`` file: name -> array.

    Raises:
        UsageError: when it is none, or not one of numbers.
        ModelError: when there is no such file.
    """
    try:
        found: dict[str, Array] = {}
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    _require_numbers(file, path, entry.file_size)
                with archive.open(entry) as file:
                    found[entry.filename.removesuffix(".npy")] = np.lib.format.read_array(
                        file, allow_pickle=False
                    )
    except UsageError:
        raise
    except Exception as error:  # and of a damaged archive
        raise _unreadable(path, error) from error
    if not found:
        raise UsageError("E001", f"expected arrays in `{path}`, got none")
    return found


def _require_numbers(file: IO[bytes], path: Path, size: int) -> None:
    """Check what an array's header states, before anything is allocated.

    Raises:
        UsageError: when it holds no numbers, or more than the file can.
        ValueError: when there is no header.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format")
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(file)
    stated = prod(shape) * dtype.itemsize
    if dtype.kind not in "biufc" or dtype.itemsize > np.dtype(np.complex128).itemsize:
        raise UsageError("E001", f"expected numbers in `{path}`, got {dtype}")
    if not 0 <= stated <= min(size, _LARGEST):
        raise UsageError(
            "E106", f"expected at most {_LARGEST >> 20} MB in `{path}`, got {list(shape)} of {dtype}"
        )


def _unreadable(path: Path, error: Exception) -> UsageError | ModelError:
    if isinstance(error, FileNotFoundError):
        return missing_file(path)
    return UsageError(
        "E001",
        f"expected an array that NumPy has saved, got `{path}`: {error}",
        hint="write it with np.save(path, array), or several with np.savez(path, name=array)",
    )
