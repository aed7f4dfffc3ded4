"""Standard output that is a command's own: what a model or a framework prints goes to standard error."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_own: TextIO | None = None


def own_output() -> TextIO:
    """Return the stream of a command's own output."""
    return sys.stdout if _own is None else _own


@contextmanager
def foreign_output_diverted() -> Iterator[None]:
    """Open a with block in which only `own_output` reaches standard output."""
    global _own
    if _own is not None:
        yield
        return
    _own, restore = divert()
    try:
        yield
    finally:
        _own = None
        restore()


def divert() -> tuple[TextIO, Callable[[], None]]:
    """Send what is printed to standard error, by the file descriptor too, which compiled code prints to.

    Returns:
        A stream that still writes to standard output, and the function that undoes all of it.
    """
    before = sys.stdout
    descriptor = _descriptor(before)
    if descriptor is None or _descriptor(sys.stderr) is None:  # replaced, as by a test
        sys.stdout = sys.stderr
        return before, lambda: setattr(sys, "stdout", before)
    _flush(before)
    kept = os.dup(descriptor)
    os.dup2(sys.stderr.fileno(), descriptor)
    own = os.fdopen(kept, "w", encoding=before.encoding, errors=before.errors)
    sys.stdout = sys.stderr

    def restore() -> None:
        _flush(before)
        os.dup2(kept, descriptor)
        sys.stdout = before
        with contextlib.suppress(OSError):  # every line was flushed as it was printed, and failed there
            own.close()

    return own, restore


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):  # no file, closed, or None
        return None


def _flush(stream: TextIO) -> None:
    """Write what Python and the C library hold back to where the descriptor leads now."""
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no C library to be asked
        ctypes.CDLL(None).fflush(None)
