"""Turns errors of the operating system into ours: unwritable files, exhausted memory."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from ..errors import ModelError, UsageError


@contextmanager
def system_errors_told() -> Generator[None]:
    """Turn errors of the operating system into errors of ours.

    Raises:
        UsageError: E002 for an `OSError`, with the file and the system's reason.
        ModelError: E106 for a `MemoryError`.
    """
    try:
        yield
    except BrokenPipeError:  # whoever read our output has gone
        raise
    except OSError as error:
        raise system_error(error) from error
    except RuntimeError as error:  # what pathlib makes of links that lead in a circle
        cause = error.__context__
        if isinstance(cause, OSError) and cause.errno == errno.ELOOP:
            raise system_error(cause) from error
        raise
    except MemoryError as error:
        detail = f": {error}" if str(error) else ""
        raise ModelError("E106", f"not enough memory{detail}", hint="give smaller inputs") from error


def system_error(error: OSError) -> UsageError:
    """Return our form of an `OSError`."""
    name = error.filename2 or error.filename
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    return UsageError(
        "E002",
        f"cannot read or write files: {reason}"
        if name is None
        else f"cannot read or write `{name}`: {reason}",
        hint=_REMEDIES.get(error.errno or 0, ""),
    )


_REMEDIES = {
    errno.ENOSPC: "free space on that disk, or give an output on another; temporary files are in TMPDIR",
    errno.EDQUOT: "the quota is used up: give an output elsewhere; temporary files are in TMPDIR",
    errno.EFBIG: "the limit on the size of files is too small (`ulimit -f`)",
    errno.EROFS: "give an output elsewhere",
    errno.EACCES: "give an output elsewhere, or change the permissions",
    errno.ENAMETOOLONG: "give a shorter name",
}
