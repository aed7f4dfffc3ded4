"""Files that another file names beside itself; links are followed within the folder that holds both."""

from __future__ import annotations

from pathlib import Path

from ..errors import ModelError

_HINT = (
    "copy the folder with the files behind its links (`cp -rL FOLDER NEW`), or download it as files: "
    "`hf download NAME --local-dir NEW`"
)


def file_beside(named: Path, location: str) -> Path:
    """Return the real path of a file that another one names.

    Links lead to it where they stay in the folder of the file that names it, or, in the cache of Hugging
    Face's hub, where they lead from a snapshot into the same repository's `blobs`.

    Args:
        named: the file that names it: an ONNX model, or the index of shards.
        location: the name, relative to its folder.

    Raises:
        ModelError: E101 when the name or a link leads elsewhere.
    """
    folder = named.parent
    plain = bool(location) and location.isprintable() and "\\" not in location
    if not plain or Path(location).is_absolute() or ".." in Path(location).parts:
        raise ModelError("E101", f"expected a file beside it, got `{location[:200]}`", place=str(named))
    real = (folder / location).resolve()
    if real.is_relative_to(folder.resolve()):
        return real
    blobs = _blobs(folder)
    if blobs is not None and real.is_relative_to(blobs):
        return real
    raise ModelError(
        "E101",
        f"`{location}` is a link that leads out of the folder, to `{real}`, and is not followed",
        place=str(named),
        hint=_HINT,
    )


def _blobs(folder: Path) -> Path | None:
    """Return the folder of blobs of the repository that a snapshot is of; None outside a cache of the hub."""
    parts = folder.resolve().parts
    for at in range(len(parts) - 2, 0, -1):
        blobs = Path(*parts[:at], "blobs")
        if parts[at] == "snapshots" and blobs.is_dir() and not blobs.is_symlink():
            return blobs
    return None
