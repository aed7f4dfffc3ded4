"""Writing output: atomically, never half, and never over a user's file unless told to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..ir import UsageError


@contextmanager
def staged(target: Path, names: list[str], *, force: bool = False) -> Iterator[Path]:
    """A temporary folder beside `target` whose files `names` are moved into it when the block succeeds.

    Args:
        target: the folder that will hold the files; made if need be.
        names: the files the block writes, relative to the folder; a file it does not write is skipped.
        force: whether files of the same name may be replaced.

    Raises:
        UsageError: when a file exists and `force` is False, or the folder cannot be made.
    """
    if target.exists() and not target.is_dir():
        raise UsageError("E002", f"expected a directory, got the file `{target}`")
    taken = [n for n in names if (target / n).exists()]
    if taken and not force:
        raise UsageError(
            "E002",
            f"`{target / taken[0]}` exists already",
            hint="give --force to replace it, or another output",
        )
    made = [p for p in [target, *target.parents] if not p.exists()]
    try:
        target.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".regraft-", dir=target))
    except OSError as error:
        raise UsageError("E002", f"cannot write to `{target}`: {error.strerror}") from error
    done = False
    try:
        yield folder
        for name in names:
            if (folder / name).exists():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).replace(target / name)
        done = True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not done:
            for path in made:  # leave no empty folder behind
                if path.exists() and not any(path.iterdir()):
                    path.rmdir()
