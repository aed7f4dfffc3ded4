"""Private folders: locked while this process lives, and deleted by the next run if it is killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there, and so nothing swept
    fcntl = None

MARK = "regraft.json"
"""The file that marks such a folder as ours."""

_NAME = re.compile(r"\.?regraft-[0-9a-f]{12}\Z")
_SIGNED = {"made by": "regraft"}
_held: dict[Path, OwnFolder] = {}


class OwnFolder:
    """A new folder, locked until `remove`; a killed process's lock is gone with it.

    Args:
        parent: the folder to make it in.
        name: prefix of its name: ``regraft-`` or ``.regraft-``.
        mode: its permissions, before the process's mask.
        finish: what has to be done before it may be removed; False keeps it.

    Raises:
        OSError: when it cannot be made.
    """

    def __init__(
        self, parent: Path, name: str, mode: int = 0o700, finish: Callable[[Path], bool] = lambda _: True
    ) -> None:
        self._finish, self._process = finish, os.getpid()
        while True:
            self.path = parent / f"{name}{secrets.token_hex(6)}"
            self.path.mkdir(mode)
            with contextlib.suppress(FileNotFoundError):  # another run may sweep it before it is locked
                self._lock = lock(self.path, wait=True)
                if self.path.is_dir():
                    break
                self._unlock()
        _held[self.path] = self
        try:
            self.sign({})
        except OSError:  # a full disk
            self.remove()
            raise

    def sign(self, further: dict[str, object]) -> None:
        """Write the mark file, whose content `signature` returns."""
        new = self.path / f"{MARK}.new"
        with new.open("w", encoding="utf-8") as file:
            json.dump({**_SIGNED, **further}, file)
            if further:
                file.flush()
                os.fsync(file.fileno())
        new.replace(self.path / MARK)

    def remove(self) -> None:
        """Finish and delete the folder; what cannot be deleted is left to the next run."""
        if self._process != os.getpid():  # a fork's copy: the folder is its parent's
            return
        try:
            with contextlib.suppress(OSError):
                if self.path.is_dir() and self._finish(self.path):
                    _delete(self.path)
        finally:
            _held.pop(self.path, None)
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_own(folder: Path) -> bool:
    """Whether this process holds a folder or the folder's parent."""
    return folder in _held or folder.parent in _held


def signature(folder: Path) -> dict[str, object] | None:
    """Return the content of a folder's mark file; None if the folder is not ours."""
    try:
        found = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    mark = cast("dict[str, object]", found)
    return mark if _SIGNED.items() <= mark.items() else None


def sweep(parent: Path, finish: Callable[[Path], bool] = lambda _: True) -> None:
    """Delete the folders in `parent` that killed runs left: our name and mark, this user, unlocked.

    Args:
        parent: the folder.
        finish: what has to be done before one may be deleted; False keeps it.
    """
    try:
        with os.scandir(parent) as entries:
            named = [Path(e.path) for e in entries if _NAME.match(e.name)]
    except OSError:
        return
    for folder in named:
        try:
            found = folder.lstat()
            mine = stat.S_ISDIR(found.st_mode) and (os.name != "posix" or found.st_uid == os.geteuid())
            held = lock(folder) if mine else None
        except OSError:
            continue
        if held is None:
            continue
        try:
            unmarked = {entry.name for entry in folder.iterdir()} <= {f"{MARK}.new"}  # killed before it was
            if unmarked or (signature(folder) is not None and finish(folder)):
                _delete(folder)
        except OSError:
            continue
        finally:
            os.close(held)


def abandon() -> None:
    """Finish and delete every folder that this process holds, when a signal ends the process."""
    for folder in list(_held.values()):
        folder.remove()


def temporary_folder() -> OwnFolder:
    """Make a folder among the system's temporary files, after deleting those that killed runs left."""
    sweep_temporary_files()
    return OwnFolder(Path(tempfile.gettempdir()), "regraft-")


def sweep_temporary_files() -> None:
    """Delete what killed runs left among the system's temporary files, once in the life of a process."""
    _sweep_once(Path(tempfile.gettempdir()))


@cache
def _sweep_once(parent: Path) -> None:
    sweep(parent)


def lock(folder: Path, *, wait: bool = False, missing: int | None = None) -> int | None:
    """Return a descriptor that locks a folder until it is closed; None where another process holds it.

    Args:
        folder: no symbolic link.
        wait: whether to wait for the other.
        missing: what is given where the file system has no locks.
    """
    if fcntl is None:
        return missing
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(descriptor)
        return None if isinstance(error, BlockingIOError) else missing
    return descriptor


def _delete(folder: Path) -> None:
    """Delete a folder, the mark file last, so that the next run can finish an interrupted deletion."""
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != MARK:
            entry.unlink(missing_ok=True)
    if {entry.name for entry in folder.iterdir()} <= {MARK}:
        (folder / MARK).unlink(missing_ok=True)
        folder.rmdir()
