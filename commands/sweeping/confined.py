"""Prepares a case's own process: sets limits, and records the files that it opens."""

from __future__ import annotations

import os
import signal
import sys

from .process import OPENED

_BUILT_IN = ("/proc/", "/sys/", "/dev/", "/etc/")


def confine(memory: int) -> None:
    """Limit what this process allocates, in bytes, and let it dump no core."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        memory = min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def end_with_group() -> None:
    """End this process and all of its group."""
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM)


def record_opened() -> None:
    """Write every path that Python opens to read from now on, once, into the file that `OPENED` names.

    A verdict depends on these: on modules wherever they lie, and on data that a model's code opens.
    """
    place = os.environ.get(OPENED)
    if not place:
        return
    record = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    seen: set[str] = set()
    write, absolute = os.write, os.path.abspath
    not_read = os.O_WRONLY | os.O_TRUNC | os.O_EXCL | getattr(os, "O_DIRECTORY", 0)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open":
            return
        path, _, flags = arguments
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or path in seen:
            return
        seen.add(path)  # what is written first is no input when it is read again
        if not (isinstance(flags, int) and flags & not_read) and not path.startswith(_BUILT_IN):
            write(record, absolute(path).encode(errors="surrogateescape") + b"\0")

    sys.addaudithook(hook)
