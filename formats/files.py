"""Writes output: all of its files as one change, never half, and never over a user's file without --force.

Several files in a folder cannot be renamed as one, but one link can. To replace `a` and `b`, each of them in
turn becomes a symbolic link to a file of the same contents in a folder of ours::

    a -> .regraft-1f6c…/now/a      .regraft-1f6c…/now -> old      .regraft-1f6c…/old/{a,b}   as they were
    b -> .regraft-1f6c…/now/b                                     .regraft-1f6c…/new/{a,b}   as they will be

Then `now` is replaced by a link to `new`, which is one rename and the moment of the change. Last, each link
is replaced by the file that it shows. A reader in between, or after a kill at any of these steps, sees the
old files or the new ones. The next run replaces links that a killed run left by the files that they show.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..ir import UsageError
from ..ir.outside.own_folders import OwnFolder, is_own, lock, signature, sweep, sweep_temporary_files

_WAIT = 30.0
"""Seconds to wait for another process that is putting files into the same folder."""

_UP = ("..", "..")


@contextmanager
def staged(
    target: Path, names: Sequence[str], *, force: bool = False, obsolete: Sequence[str] = ()
) -> Iterator[Path]:
    """Make a folder whose files `names` go into the folder `target`, as one change, if the block succeeds.

    A kill at any moment leaves all the old files or all the new ones. If `target` does not exist, it appears
    with its files in one rename; else see the module. A file system without links (FAT) gets one rename per
    file, which the next run completes if interrupted. Folders of this process's own are written directly.

    Args:
        target: the folder that will hold the files; made if need be.
        names: the files, without folders, as the list is when the block ends; one that the block does not
            write is skipped.
        force: whether files of the same name may be replaced.
        obsolete: files that an earlier output of ours left in `target` and that would not belong to this one;
            with `force`, those that the block does not write are deleted in the same change.

    Raises:
        UsageError: when a file exists and `force` is False, or the folder cannot be written to.
    """
    if is_own(target):
        yield target
        return
    where = target.absolute()
    settle(where, *where.parents[:2])
    sweep_temporary_files()
    _refuse(target, names, force)
    home = next((p for p in (where, *where.parents) if p.is_dir()), where)
    try:
        own = OwnFolder(home, ".regraft-", 0o777, _finish)
    except OSError as error:
        raise UsageError("E002", f"cannot write to `{target}`: {error.strerror}") from error
    try:
        new = own.path / "new"
        try:
            new.mkdir()
        except OSError as error:
            raise UsageError("E002", f"cannot write to `{target}`: {error.strerror}") from error
        yield new
        written = [name for name in names if (new / name).is_file()]
        _refuse(target, written, force)
        if not written:
            return
        if home == where:
            with _hold_lock(where):
                settle(where, locked=True)
                gone = [n for n in obsolete if n not in written and (where / n).is_file()] if force else []
                _put(own, where, [*written, *gone], force=force)
        else:
            _create(own.path, home, where, written)
    finally:
        own.remove()


def settle(*folders: Path, locked: bool = False) -> None:
    """Complete or undo what killed runs left in folders of output, and delete their temporary folders.

    Args:
        folders: those that exist are looked at.
        locked: whether the caller holds their lock; without it, one that is being written to is left alone.
    """
    for folder in folders:
        held = None
        try:
            if not locked and (held := lock(folder.resolve())) is None:
                continue
            sweep(folder, _finish)
        except OSError:
            continue
        finally:
            if held is not None:
                os.close(held)


def _refuse(target: Path, names: Sequence[str], force: bool) -> None:
    if (target.exists() or target.is_symlink()) and not target.is_dir():
        raise UsageError("E002", f"expected a directory, got the file `{target}`")
    for name in names:
        if (target / name).is_dir():
            raise UsageError("E002", f"expected a file to write, got the directory `{target / name}`")
        if not force and os.path.lexists(target / name):
            raise _make_exists_error(target / name)


def _make_exists_error(path: Path) -> UsageError:
    return UsageError(
        "E002", f"`{path}` exists already", hint="give --force to replace it, or another output"
    )


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that one run at a time writes to it.

    Raises:
        UsageError: when another holds it for too long.
    """
    end = time.monotonic() + _WAIT
    while (held := _lock_of(folder)) is None and time.monotonic() < end:
        time.sleep(0.05)
    if held is None:
        raise UsageError("E002", f"another run of regraft is writing to `{folder}`", hint="wait for its end")
    try:
        yield
    finally:
        if held >= 0:
            os.close(held)


def _lock_of(folder: Path) -> int | None:
    """Lock a folder; returns a descriptor, None where another holds it, -1 where there are no locks."""
    try:
        return lock(folder.resolve(), missing=-1)
    except OSError:
        return -1


# -- one change ----------------------------------------------------------------------------------------


def _create(own: Path, home: Path, target: Path, names: Sequence[str]) -> None:
    """Make a folder that does not exist, with its files: one rename of the topmost folder that is missing.

    Raises:
        UsageError: when it exists by now.
    """
    missing = target.relative_to(home)
    tree = own / "tree" / missing
    tree.mkdir(parents=True)
    for name in names:
        flush(own / "new" / name)
        (own / "new" / name).rename(tree / name)
    for folder in (tree, *tree.parents[: len(missing.parts)]):
        flush(folder)
    try:
        (own / "tree" / missing.parts[0]).rename(home / missing.parts[0])
    except OSError as error:
        if os.path.lexists(home / missing.parts[0]):
            raise _make_exists_error(home / missing.parts[0]) from error
        raise
    flush(home)


def _put(own: OwnFolder, target: Path, names: Sequence[str], *, force: bool) -> None:
    """Replace and delete files of an existing folder, whose lock is held.

    Args:
        own: our folder, with the new files in `new`.
        target: the folder.
        names: the files; one that is not in `new` is deleted.
        force: whether existing files may be replaced.

    Raises:
        UsageError: when one exists by now and `force` is False.
    """
    new, old = own.path / "new", own.path / "old"
    for name in names:
        _like_before(new / name, target / name)
        flush(new / name)
    if len(names) == 1:
        _put_one(new / names[0], target / names[0], force=force)
        flush(target)
        return
    flush(new)
    try:
        old.mkdir()
        for name in names:
            if os.path.lexists(target / name):
                _keep(target / name, old / name)
        (own.path / "now").symlink_to("old")
    except OSError:  # no links on this file system, or not to files of another user
        own.sign({"files": list(names), "each": True})
        gone = [name for name in names if not (new / name).exists()]
        _finish(own.path)
        for name in gone:
            (target / name).unlink(missing_ok=True)
        return
    own.sign({"files": list(names)})
    flush(own.path)
    for name in names:
        link = _link(own.path, name)
        if os.path.lexists(old / name):
            (own.path / "link").symlink_to(link)
            (own.path / "link").replace(target / name)
            continue
        try:
            (target / name).symlink_to(link)
        except FileExistsError as error:
            raise _make_exists_error(target / name) from error
    flush(target)
    (own.path / "next").symlink_to("new")
    (own.path / "next").replace(own.path / "now")  # this is the change
    flush(own.path)
    _finish(own.path)


def _put_one(new: Path, place: Path, *, force: bool) -> None:
    """Put a file by itself into its place, in one step.

    Raises:
        UsageError: when there is one by now and `force` is False.
    """
    if not force:
        try:
            place.hardlink_to(new)  # never over another file, unlike a rename
            return
        except FileExistsError as error:
            raise _make_exists_error(place) from error
        except OSError:  # no links on this file system
            _refuse(place.parent, [place.name], force)
    new.replace(place)


def _finish(own: Path) -> bool:
    """Replace the links of an interrupted change by the files they show; False if that cannot be decided."""
    said = signature(own) or {}
    listed = said.get("files", [])
    names = (
        [n for n in listed if isinstance(n, str) and Path(n).name == n] if isinstance(listed, list) else []
    )
    each = said.get("each") is True
    now = own / "new" if each else own / "now"
    waiting = [n for n in names if ((now / n).is_file() if each else _shows(own.parent / n, own))]
    if waiting and not _is_as_made(own, now):
        return False
    for name in waiting:
        place, shown = own.parent / name, now / name
        if not os.path.lexists(shown):
            place.unlink()
        elif shown.is_symlink():  # a link of the user's, kept by a link that leads the same way
            (own / "link").unlink(missing_ok=True)
            text = shown.readlink()
            (own / "link").symlink_to(Path(*text.parts[2:]) if text.parts[:2] == _UP else text)
            (own / "link").replace(place)
        else:
            shown.replace(place)
    if waiting:
        flush(own.parent)
    return True


def _is_as_made(own: Path, now: Path) -> bool:
    """Whether a folder has the content we make; one from an archive may hold links that lead elsewhere."""
    leads = now.name == "new" or (now.is_symlink() and now.readlink() in (Path("old"), Path("new")))
    shown = now.resolve()
    return leads and shown.is_dir() and shown.parent == own.resolve()


def _shows(place: Path, own: Path) -> bool:
    """Whether a link of an unfinished change stands in place of a file."""
    return place.is_symlink() and place.readlink() == _link(own, place.name)


def _link(own: Path, name: str) -> Path:
    """Return the path that a file's link leads to during a change."""
    return Path(own.name, "now", name)


def _keep(file: Path, kept: Path) -> None:
    """Give a file a second name; for a symbolic link, a link to the same from two folders below."""
    if not file.is_symlink():
        kept.hardlink_to(file)
        return
    text = file.readlink()
    kept.symlink_to(text if text.is_absolute() else Path(*_UP, text))


def _like_before(file: Path, before: Path) -> None:
    """Give a file the permissions, and the owner if that is allowed, of the file that it replaces."""
    try:
        found = before.lstat()
    except OSError:
        return
    if not stat.S_ISREG(found.st_mode):
        return
    with contextlib.suppress(OSError):
        if os.name == "posix" and (found.st_uid, found.st_gid) != (os.geteuid(), file.stat().st_gid):
            os.chown(file, found.st_uid, found.st_gid)
    with contextlib.suppress(OSError):
        file.chmod(stat.S_IMODE(found.st_mode))


_REFUSED = {errno.EIO, errno.ENOSPC, errno.EDQUOT}
"""Error numbers of a disk that refuses written data; others mean that it cannot flush."""


def flush(path: Path) -> None:
    """Flush a file or folder to disk, if the system can.

    Raises:
        OSError: when the disk is full or broken, or a quota used up: some say so no earlier.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folder
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in _REFUSED:
            raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


def settle_beside(*named: object) -> None:
    """Complete or undo what killed runs left half done beside files about to be read."""
    for each in named:
        if isinstance(each, (str, Path)):
            path = Path(str(each).rpartition(":")[0] or each)
            settle(path if path.is_dir() else path.parent)
