"""The files that a case opened: with their digests they say whether its verdict still holds.

What a model imports, and what its code opens, is known only once it ran: modules beside it, those of an
installation in development, weights in a cache. What is installed counts by its version already.
"""

from __future__ import annotations

import site
import sysconfig
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path

from .fingerprint import content_digest, is_own

Opened = dict[str, tuple[int, int, str]]
"""Path, from the suite's folder where it lies there -> (bytes, nanoseconds of its change, digest).

Of a file that was looked for and is not there it is `_ABSENT`: the verdict holds until it is.
"""

_ABSENT = (-1, 0, "absent")


def read_opened(record: Path, folder: Path, room: Path, began: int) -> Opened:
    """Return the files that a process opened to read, or tried to.

    Args:
        record: what `record_opened` wrote.
        folder: the suite's, absolute.
        room: the case's own, which does not count.
        began: when it began, in nanoseconds by the clock of files. The digest of what was changed since then
            is empty: which content was read is not known, and the verdict does not last.
    """
    try:
        paths = {Path(p) for p in record.read_bytes().decode(errors="surrogateescape").split("\0") if p}
    except OSError:
        return {}
    found: Opened = {}
    for path in sorted({_source(path) for path in paths}):
        if path.is_relative_to(room) or is_own(path) or any(path.is_relative_to(p) for p in _installed()):
            continue
        name = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
        try:
            stated = path.stat()
            regular = path.is_file()
        except FileNotFoundError:
            found[name] = _ABSENT
            continue
        except (OSError, ValueError):
            continue
        if regular:
            changed = stated.st_mtime_ns >= began
            digest = "" if changed else content_digest(path, stated.st_size, stated.st_mtime_ns)
            found[name] = (stated.st_size, stated.st_mtime_ns, digest)
    return found


def is_unchanged(opened: Opened, folder: Path) -> bool:
    """Whether the files are what they were; one of the same size and time is not read."""
    for name, (size, changed, digest) in opened.items():
        path, absent = folder / name, (size, changed, digest) == _ABSENT
        try:
            now = path.stat()
        except OSError:
            if absent:
                continue
            return False
        if absent or not digest or now.st_size != size:
            return False
        if now.st_mtime_ns != changed and content_digest(path, now.st_size, now.st_mtime_ns) != digest:
            return False
    return True


def opened_from_json(document: object) -> Opened:
    """Return what JSON says of opened files.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(document, dict):
        raise ValueError("expected files")
    found: Opened = {}
    for name, stated in document.items():
        match stated:
            case [int(size), int(changed), str(digest)] if isinstance(name, str):
                found[name] = (size, changed, digest)
            case _:
                raise ValueError(f"expected a file, got {name!r}: {stated!r}")
    return found


def _source(path: Path) -> Path:
    """Return the source of compiled Python, anything else as it is."""
    if path.suffix == ".pyc":
        try:
            return Path(source_from_cache(str(path)))
        except (ValueError, NotImplementedError):
            pass
    return path


@cache
def _installed() -> list[Path]:
    """Return the folders of Python and its distributions, whose versions are in every key."""
    named = sysconfig.get_paths()
    places = [*(named[n] for n in ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()]
    return [*{Path(place) for place in places}]
