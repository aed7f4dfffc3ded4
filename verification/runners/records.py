"""Keeps the values that a run records: equal ones once, and on disk beyond a memory budget."""

from __future__ import annotations

import hashlib
import mmap
import tempfile
from typing import IO

import numpy as np

IN_MEMORY = 128 * 2**20
"""Bytes of recorded values that one runner holds in memory; further ones lie in a temporary file."""

_SHARED = 2**16
"""Bytes above which a value is looked up among those kept, because a call's output is another's input."""


class ValueStore:
    """The recorded values of one runner.

    The file for values beyond the budget is unlinked, so that it goes with the process, however that ends.

    Args:
        budget: bytes that may be held in memory.
    """

    def __init__(self, budget: int = IN_MEMORY) -> None:
        self._budget = budget
        self._held = 0
        self._known: dict[tuple[str, tuple[int, ...], bytes], np.ndarray] = {}
        self._file: IO[bytes] | None = None
        self._end = 0
        self._maps: list[mmap.mmap] = []

    def keep(self, array: np.ndarray) -> np.ndarray:
        """Return a copy that later changes to `array` do not reach; read-only where it is large.

        Args:
            array: an array of any shape and element type; a view of a framework's tensor is copied.
        """
        if array.nbytes < _SHARED:
            self._held += array.nbytes
            return np.array(array, copy=True)
        array = np.ascontiguousarray(array)
        raw = array.reshape(-1).view(np.uint8).data
        key = array.dtype.name, array.shape, hashlib.blake2b(raw, digest_size=16).digest()
        known = self._known.get(key)
        if known is None:
            self._known[key] = known = self._new(array, raw)
        return known

    def _new(self, array: np.ndarray, raw: memoryview) -> np.ndarray:
        """Return a read-only copy of an array, in memory or in the file beyond the budget."""
        if self._held + array.nbytes <= self._budget:
            self._held += array.nbytes
            kept = np.array(array, copy=True)
            kept.flags.writeable = False
            return kept
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="regraft-")  # noqa: SIM115 - open until `clear`
        start = self._end
        self._file.seek(start)
        self._file.write(raw)
        self._file.flush()
        self._end = -(-(start + array.nbytes) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self._file.fileno(), array.nbytes, access=mmap.ACCESS_READ, offset=start)
        self._maps.append(mapped)
        return np.frombuffer(mapped, np.uint8).view(array.dtype).reshape(array.shape)

    def release(self) -> None:
        """Release the memory pages that reading values from the file filled."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)

    def clear(self) -> None:
        """Forget all values; those still in use stay readable until they are released."""
        self._known.clear()
        self._maps.clear()
        self._held = self._end = 0
        if self._file is not None:
            self._file.close()
            self._file = None
