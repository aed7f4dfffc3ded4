"""Keeps the values that a run records: equal ones once, and on disk beyond a memory budget."""

from __future__ import annotations

import mmap
import tempfile
from typing import IO

import numpy as np

from ...ir.outside.memory_limits import memory_limit

IN_MEMORY = 128 * 2**20
"""Bytes of recorded values that one runner holds in memory at most; further ones lie in a temporary file."""

_OF_LIMIT = 32
"""The part of this process's memory that they are at most: as many runners as there may be take a tenth."""

_SHARED = 2**16
"""Bytes above which a value is looked up among those kept, because a call's output is another's input."""


_PART = 64 * 2**20
"""Bytes of the file that are mapped at a time."""

_ALIGNED = 64
"""Bytes to whose multiples values are aligned in the file."""

_SAMPLE = 64
"""Elements by which values are looked up, before all of them are compared."""


class ValueStore:
    """The recorded values of one runner.

    The file for values beyond the budget is unlinked, so that it goes with the process, however that ends.

    Args:
        budget: bytes that may be held in memory; None for `IN_MEMORY`, or less where memory is limited.
    """

    def __init__(self, budget: int | None = None) -> None:
        self._budget = min(IN_MEMORY, memory_limit() // _OF_LIMIT) if budget is None else budget
        self._held = 0
        self._known: dict[tuple[str, tuple[int, ...], bytes], list[np.ndarray]] = {}
        self._file: IO[bytes] | None = None
        self._start = self._room = self._end = 0  # of the part of the file that is filled now
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
        some = array.reshape(-1)[:: max(1, array.size // _SAMPLE)].tobytes()
        alike = self._known.setdefault((array.dtype.name, array.shape, some), [])
        for known in alike:
            if _has_bytes(known, array):
                return known
        alike.append(self._new(array, raw))
        return alike[-1]

    def _new(self, array: np.ndarray, raw: memoryview) -> np.ndarray:
        """Return a read-only copy of an array, in memory or in the file beyond the budget."""
        if self._held + array.nbytes <= self._budget:
            self._held += array.nbytes
            kept = np.array(array, copy=True)
            kept.flags.writeable = False
            return kept
        if self._end + array.nbytes > self._start + self._room:
            self._map(array.nbytes)
        assert self._file is not None
        at = self._end - self._start
        self._file.seek(self._end)
        self._file.write(raw)
        self._file.flush()
        self._end += -(-array.nbytes // _ALIGNED) * _ALIGNED
        found = np.frombuffer(self._maps[-1], np.uint8, array.nbytes, at)
        return found.view(array.dtype).reshape(array.shape)

    def _map(self, needed: int) -> None:
        """Map a further part of the file, for many values: each map is one more to release."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="regraft-")  # noqa: SIM115 - open until `clear`
        self._start += self._room
        self._end = self._start
        self._room = -(-max(needed, _PART) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self._file.truncate(self._start + self._room)
        mapped = mmap.mmap(self._file.fileno(), self._room, access=mmap.ACCESS_READ, offset=self._start)
        self._maps.append(mapped)

    def release(self) -> None:
        """Release the memory pages that reading values from the file filled."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)

    def clear(self) -> None:
        """Forget all values; those still in use stay readable until they are released."""
        self._known.clear()
        self._maps.clear()
        self._held = self._start = self._room = self._end = 0
        if self._file is not None:
            self._file.close()
            self._file = None


def _has_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two contiguous arrays of one type and shape hold the same bytes, NaN and -0 told apart."""
    words = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    return bool(np.array_equal(a.reshape(-1).view(words), b.reshape(-1).view(words)))
