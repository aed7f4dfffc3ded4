"""Digests of what a verdict depends on, as far as it is known before a case runs: the key of its row.

Every Python file of a model's folder counts, and every installed distribution by its version: a case is run
again too often rather than too seldom. What it imports and opens elsewhere is known once it ran (`opened`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from .case import Case

_MODELS = {".onnx", ".mindir", ".pt2", ".pt", ".json"}
_OWN = Path(__file__).resolve().parents[2]
_BESIDE = ("tests", "docs", "benchmarks", "examples", "out", "build")
"""Folders of a checkout that are no part of regraft."""


@cache
def environment() -> str:
    """Return the digest of this installation: regraft's own source, Python, and every distribution."""
    installed = sorted({f"{d.name}=={d.version}" for d in metadata.distributions()})
    parts = [_sources(_OWN, _BESIDE), platform.python_version(), platform.machine(), *installed]
    return _digest(*parts)


def is_own(path: Path) -> bool:
    """Whether a file is regraft's own, which `environment` counts."""
    return path.is_relative_to(_OWN) and path.relative_to(_OWN).parts[:1] not in [(n,) for n in _BESIDE]


def forget() -> None:
    """Forget what was read of files, which may change between two sweeps of one process."""
    for cached in (_sources, _names, _data, _stated):
        cached.cache_clear()


def fingerprint(case: Case) -> str:
    """Return the digest of all that the verdict on a case depends on, its limits and name left out."""
    folder = Path(case.folder)
    named = [_digest(str(path), content) for path, content in _files(case, folder)]
    said = [case.step, case.model, case.arguments]
    if case.judge:
        said += [case.judge, case.given]
    if case.tolerance:
        said.append(case.tolerance)
    return _digest(environment(), json.dumps(said), *sorted(named))


def _files(case: Case, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files and folders that a case names, with their digests."""
    for name in case.files:
        path = folder / name
        yield Path(name), _sources(path) if path.is_dir() else _content(path)
    if case.judge:
        where = case.judge.rpartition(":")[0]
        yield Path(where), _sources((folder / where).parent)
    if not case.model:
        return
    where = case.model.rpartition(":")[0] or case.model
    model = folder / where
    if model.suffix == ".py":
        yield Path(where), _sources(model.parent)
    elif model.suffix in _MODELS:
        yield Path(model.name), _content(model)
        stem = model.name.removesuffix(".json").removesuffix("-symbol")
        if model.suffix == ".onnx":  # its weights may have any name
            yield Path(), _data(model.parent)
        else:
            names = _names(model.parent)
            for name in names[bisect_left(names, stem) :]:
                if not name.startswith(stem):
                    break
                yield Path(name), _content(model.parent / name)
    else:
        found = PathFinder.find_spec(where.partition(".")[0], [str(folder), *_paths()])
        if found is not None and found.origin is not None:
            origin = Path(found.origin)
            yield Path(where), _sources(origin.parent) if origin.name == "__init__.py" else _content(origin)
    for argument in case.arguments:
        for text in _named(argument):
            path = folder / text
            if text and path.is_file():
                yield Path(text), _sources(path.parent) if path.suffix == ".py" else _content(path)


def _named(argument: str) -> Iterator[str]:
    """Yield what may be a file in ``--data=FILE``, ``--input=x=@FILE`` or ``--pass=FILE:Class``."""
    ends = [0, *(at + 1 for at, letter in enumerate(argument) if letter in "=@")]
    for text in (argument[at:] for at in ends):
        yield text
        yield text.rpartition(":")[0]


def _paths() -> list[str]:
    import sys

    return [path for path in sys.path if path]


@cache
def _sources(folder: Path, without: tuple[str, ...] = ()) -> str:
    """Return the digest of a folder's Python files, those of folders below it included."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        left_out = {"__pycache__", *(without if Path(place) == folder else ())}
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in left_out)
        for name in sorted(names):
            if name.endswith(".py"):
                path = Path(place, name)
                found += [str(path.relative_to(folder)), _content(path)]
    return _digest(*found)


@cache
def _names(folder: Path) -> list[str]:
    """Return the names of a folder's files, sorted."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    except OSError:
        return []


@cache
def _data(folder: Path) -> str:
    """Return the digest of a folder's files that are no models."""
    named = [name for name in _names(folder) if Path(name).suffix not in _MODELS]
    return _digest(*(part for name in named for part in (name, _content(folder / name))))


@cache
def _stated(path: Path) -> tuple[int, int]:
    """Return a file's size and the nanoseconds of its change."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _content(path: Path) -> str:
    """Return the digest of a file's content; of a link that leads nowhere, that of nothing."""
    try:
        return content_digest(path, *_stated(path))
    except OSError:
        return ""


@cache
def content_digest(path: Path, size: int, changed: int) -> str:
    """Return the digest of a file's content; empty for one that cannot be read.

    Args:
        path: the file.
        size: in bytes. With the time it tells contents apart that were read from one path.
        changed: when it was changed, in nanoseconds.
    """
    del size, changed
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, _hash).hexdigest()
    except OSError:
        return ""


def _hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=20)


def _digest(*parts: str) -> str:
    found = _hash()
    for part in parts:
        found.update(f"{len(part)}:".encode() + part.encode(errors="surrogatepass"))
    return found.hexdigest()
