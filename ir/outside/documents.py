"""Reads data files: regular files only, and JSON in bounded memory."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from ..errors import ModelError
from .names import near_names

_MOST = 1 << 22
"""Most brackets, braces and commas; each costs Python up to 100 bytes."""

_LARGEST = 1 << 28
"""Most bytes of a document; large because maps may hold values of tensors."""


def require_file(path: Path) -> int:
    """Return the size of a file in bytes.

    Raises:
        ModelError: E101 when there is none, or it is a folder, a device or a pipe, which may never end.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing_file(path) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ModelError("E101", f"cannot read `{path}`: {reason}") from error
    if not stat.S_ISREG(found.st_mode):
        what = "a directory" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise ModelError("E101", f"cannot read `{path}`: expected a file, got {what}")
    return found.st_size


def missing_file(path: Path | str) -> ModelError:
    """Return the error for a file that is not there, and the name or folder that is meant."""
    path = Path(path)
    folder, relative = path.parent, not path.is_absolute()
    near: list[str] = []
    hint = f"the working folder is `{Path.cwd()}`" if relative else ""
    try:
        found = sorted(folder.iterdir())
        beside = {other.stem: other.name for other in found if other.suffix == path.suffix}
        beside |= {other.stem: other.name for other in found if other.stem == path.stem}
        near = [beside[stem] for stem in near_names(path.stem, beside, 1, 0.6)]
    except FileNotFoundError:
        hint = f"there is no folder `{folder}`" + (
            f" in the working folder, `{Path.cwd()}`" if relative else ""
        )
    except OSError:  # the folder is a file, or must not be listed
        pass
    if near:
        hint = f"did you mean `{folder / near[0]}`?"
    return ModelError("E101", f"no such file: `{path}`", hint=hint)


def read_json(path: Path) -> object:
    """Return the document that a file holds.

    Raises:
        ModelError: when it cannot be read, or as `parse_json` does.
    """
    return parse_json(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """Return the content of a small file, such as a document.

    Raises:
        ModelError: E101 when it cannot be read; E106 when it is larger than any such file.
    """
    size = require_file(path)
    if size > _LARGEST:
        raise ModelError(
            "E106", f"expected a file of at most {_LARGEST >> 20} MB, got {size >> 20}", place=str(path)
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError("E101", f"cannot read `{path}`: {error.strerror}") from error


def parse_json(raw: bytes, place: str = "") -> object:
    """Parse a JSON document.

    Args:
        raw: its bytes.
        place: the file, for messages.

    Raises:
        ModelError: E101 when it is no UTF-8, no JSON, nested too deep, or has a number too long; E106 when it
            has more parts than any file that is read here.
    """

    def at(byte: int) -> str:
        return f"{place}, byte {byte}" if place else f"byte {byte}"

    parts = sum(map(raw.count, (b"[", b"{", b",")))
    if parts > _MOST:
        raise ModelError("E106", f"expected JSON of at most {_MOST} parts, got {parts}", place=place)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError("E101", "expected UTF-8 text", place=at(error.start)) from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        byte = len(text[: error.pos].encode())
        what = error.msg.lower().removesuffix(" at").removesuffix(" starting")  # the place says where
        raise ModelError("E101", f"expected JSON: {what}", place=at(byte)) from error
    except (RecursionError, ValueError) as error:
        message = "expected JSON, got it nested too deep or with a number too long"
        raise ModelError("E101", message, place=place) from error
