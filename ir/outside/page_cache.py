"""Evicts pages of large files from the page cache, far behind their last reader or writer.

The system keeps the pages of files until it needs the memory. Finding unused pages then costs about as much
as copying them did.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..types import Array
from .memory_limits import file_memory

_PART = 4
"""Divisor of the memory for files: the share that one `PageEvictor` keeps in use."""


class PageEvictor:
    """Evict data that has been read or written in order, except for its last part.

    Args:
        bound: bytes that stay; None for a quarter of the memory that files may take.
    """

    def __init__(self, bound: int | None = None) -> None:
        self._bound = file_memory() // _PART if bound is None else bound
        self._lock, self._size = Lock(), 0
        self._passed: deque[tuple[int, Callable[[], None]]] = deque()

    def add(self, size: int, evict: Callable[[], None]) -> None:
        """Add `size` bytes and the function that evicts their pages; evict the pages far behind."""
        far: list[Callable[[], None]] = []
        with self._lock:
            self._passed.append((size, evict))
            self._size += size
            while self._passed and self._size - self._passed[0][0] >= self._bound:
                first, behind = self._passed.popleft()
                self._size -= first
                far.append(behind)
        for behind in far:
            behind()

    def add_part(self, path: Path, start: int, size: int) -> None:
        """Add bytes of a file from one on."""
        self.add(size, partial(forget_part, path, start, size))


def forget_part(path: Path, start: int, size: int) -> None:
    """Evict pages of a file that no process has mapped, except pages that wait to be written."""
    if not hasattr(os, "posix_fadvise"):  # macOS, Windows
        return
    with suppress(OSError), path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), start, size, os.POSIX_FADV_DONTNEED)


def read_ahead(stored: Array) -> None:
    """Let the system begin to read elements that lie in a mapped file in order, as their use is not."""
    found = _mapping_of(stored)
    if found is not None:
        mapped, start, size = found
        mapped.madvise(mmap.MADV_WILLNEED, start, size)


def read_spots(path: Path, places: Iterable[int], size: int) -> bytes:
    """Read a few bytes at each of some places of a file, without the megabytes that a system reads around.

    Args:
        path: the file.
        places: their first bytes.
        size: how many bytes at each; fewer come where the file ends before them.

    Raises:
        OSError: when the system refuses.
    """
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        found: list[bytes] = []
        for place in places:
            file.seek(place)
            found.append(file.read(size))
        return b"".join(found)


def unmap(stored: Array) -> None:
    """Take pages of a mapped file that nobody may write to out of this process; they come back when read."""
    found = _mapping_of(stored)
    if found is not None and not stored.flags.writeable:
        mapped, start, size = found
        mapped.madvise(mmap.MADV_DONTNEED, start, size)


def _mapping_of(stored: Array) -> tuple[Any, int, int] | None:
    """Return the mapping that an array lies in, and its first byte and size there, from a page's start on."""
    mapped: Any = stored
    while isinstance(mapped, np.ndarray):
        mapped = mapped.base
    if isinstance(mapped, memoryview):
        mapped = mapped.obj
    if not isinstance(mapped, mmap.mmap) or not hasattr(mapped, "madvise"):
        return None
    start = stored.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    early = start % mmap.PAGESIZE
    return mapped, start - early, stored.nbytes + early
