"""Finds the memory that this process may use: the machine's, or less under a limit."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
"""Folder of Linux's control groups."""

_MMAP_THRESHOLD = -3
"""``M_MMAP_THRESHOLD`` in glibc's malloc.h."""


def memory_limit() -> int:
    """Return the bytes of memory that this process may use: the least of RAM and of what limits it.

    Limits are those of its control group (either version) and ``RLIMIT_DATA`` or ``RLIMIT_AS``.
    """
    data = data_limit()
    return min([file_memory(), *([] if data is None else [data])])


def file_memory() -> int:
    """Return the bytes of memory that files may take which this process reads and writes."""
    return min([_ram(), *_of_groups()])


def data_limit() -> int | None:
    """Return the bytes of private memory that a resource limit leaves this process; None without one."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return None
    kinds = (resource.RLIMIT_DATA, resource.RLIMIT_AS)
    found = [soft for kind in kinds if (soft := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY]
    return min(found, default=None)


def give_back_memory() -> None:
    """Make the C library give blocks of more than a megabyte back to the system as soon as they are free.

    By itself glibc takes ever larger blocks from one heap, whose free parts count as used.
    """
    try:
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)
    except (OSError, AttributeError, TypeError):  # another C library
        return


def _ram() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # another system: as if there were no end
        return 1 << 62


def _of_groups() -> list[int]:
    """Return the limits of the control groups that this process is in."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[int] = []
    for line in lines:
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            root, name = _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = _GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        for place in (group, *group.parents):
            found += _number(place / name)
            if place == root:
                break
    return found


def _number(path: Path) -> list[int]:
    """Return the number in a file, if it is there and holds one."""
    try:
        text = path.read_text().strip()
    except OSError:
        return []
    return [int(text)] if text.isdigit() else []
