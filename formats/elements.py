"""Writes the elements of tensors in bounded memory: in order, little-endian, several tensors at a time."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..ir import BackendError, TensorData
from ..ir.outside.memory_limits import memory_limit
from ..ir.outside.page_cache import PageEvictor, read_ahead
from ..ir.types import Array
from .files import flush
from .transposing import transposed_blocks
from .written_behind import behind

BAND = 1 << 26
"""Bytes of a transposed matrix in memory at a time, once a thread."""

_CHUNK = 1 << 23
"""Bytes written at a time."""

_FLUSHED = 1 << 28
"""Bytes that wait to go to the disk before somebody makes them."""

_PAGE = 4096
"""Bytes of a file that the system reads at least."""

_SMALL = 1 << 20
"""Bytes below which a tensor is written together with what stands around it."""

_THREADS = 2
"""Most tensors written at a time: one is read and transposed while the other goes to the system."""

Entry = tuple[str, TensorData, tuple[int, ...]]
"""A tensor that is written: its name, its values, its shape in the target."""


class ElementWriters:
    """Threads that write tensors, each with the memory for a part of a transposed one.

    Use as a context manager; files are opened inside it, one after another. Inside `writing_behind` the
    threads go on behind it.
    """

    def __init__(self) -> None:
        self._behind = behind()
        limit = memory_limit() // (8 * BAND)
        self._threads = ThreadPoolExecutor(max(1, min(os.cpu_count() or 1, _THREADS, limit)))
        self._scratch = threading.local()
        self._one = threading.Lock()
        self._read, self._written = PageEvictor(), PageEvictor()

    def __enter__(self) -> ElementWriters:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._behind is not None and kind is None:
            self._behind.at_end(self._threads.shutdown)
        else:
            self._threads.shutdown(cancel_futures=True)

    @contextmanager
    def open(self, path: Path) -> Iterator[TensorFile]:
        """Write a file in a with block; at its end the file is complete, or the first error is raised.

        Inside `writing_behind` the file has its size at the end, and all of it but tensors still to come.

        Raises:
            BackendError: E602 when a tensor does not have as many bytes as its type and shape say.
            OSError: when the system refuses.
        """
        with ExitStack() as held:
            raw = held.enter_context(path.open("wb", buffering=0))
            file = TensorFile(PlacedFile(raw, path), path, self)
            held.callback(file.stop)
            yield file
            if self._behind is None:
                file.finish()
            else:
                file.leave()
                self._behind.at_end(held.pop_all().close)

    def submit(self, data: TensorData, path: Path, raw: PlacedFile, at: int) -> Future[None]:
        """Have the elements of a tensor written to a file from a byte on."""
        if self._behind is None:
            return self._threads.submit(self._write_and_forget, data, path, raw, at)
        write = partial(self._write_and_forget, data, path, raw, at)
        return self._behind.submit(self._threads, write, path, at, data.nbytes)

    def _write_and_forget(self, data: TensorData, path: Path, raw: PlacedFile, at: int) -> None:
        """Write the elements of a tensor, and let go of pages that lie far behind them."""
        self.write(data, raw, at)
        self._written.add_part(path, at, data.nbytes)
        place = data.find_place()
        if place is not None and self._behind is None:  # else it is read once more
            self._read.add_part(*place, data.nbytes)

    def write(self, data: TensorData, raw: PlacedFile, at: int) -> None:
        """Write the elements of a tensor to a file from a byte on, in the caller's thread."""
        place = data.find_place()
        if place is not None and _is_copied(*place, data.nbytes, raw, at):
            return
        # elements that lie nowhere yet are computed, and one such tensor is in memory at a time
        with self._one if data.storage is None and data.nbytes > BAND else nullcontext():
            array = data.numpy()
            _require_size(data, array)
            for part in _matrices(array):
                if _is_transposed(part):
                    self._write_transposed(part.T, raw, at)
                else:
                    raw.write(_chunks(part), at)
                at += part.nbytes

    def _write_transposed(self, stored: Array, raw: PlacedFile, at: int) -> None:
        """Write the transpose of a matrix whose rows lie in order, a part of at most `BAND` bytes at a time.

        Some columns of the stored matrix are rows of the written one, which lie together. Where so few
        columns are a part that it has less than a page of a stored row, each page would be read by several
        parts; then some stored rows are a part, which is a piece of every written row.
        """
        rows, columns = stored.shape
        size = stored.itemsize
        read_ahead(stored)
        count = max(1, BAND // (rows * size))
        if count >= columns or count * size >= _PAGE:
            for first in range(0, columns, count):
                turned = self._turned(stored[:, first : first + count])
                raw.write([turned.reshape(-1).view(np.uint8).data], at + first * rows * size)
            return
        count = max(1, BAND // (columns * size))
        for first in range(0, rows, count):
            for column, part in enumerate(self._turned(stored[first : first + count])):
                raw.write([part.view(np.uint8).data], at + (column * rows + first) * size)

    def _turned(self, matrix: Array) -> Array:
        """Return the transpose of a matrix, in memory of this thread that the next one takes over.

        Pages that a process has for the first time cost as much as what is written to them.
        """
        held = getattr(self._scratch, "band", None)
        if held is None or held.size < matrix.nbytes:
            self._scratch.band = held = np.empty(matrix.nbytes, np.uint8)
        return _turned(matrix, held)


class TensorFile:
    """A file that is being written: short parts in order by the caller, tensors by the writers' threads.

    Attributes:
        at: the byte that comes next.
    """

    def __init__(self, raw: PlacedFile, path: Path, writers: ElementWriters) -> None:
        self.at = 0
        self._raw, self._path, self._writers = raw, path, writers
        self._waiting = bytearray()
        self._jobs: list[Future[None]] = []

    def write(self, content: bytes | memoryview) -> None:
        """Write what stands between tensors."""
        self._waiting += content
        self.at += len(content)
        if len(self._waiting) >= _CHUNK:
            self._flush()

    def write_elements(self, data: TensorData) -> None:
        """Write the elements of a tensor; they are read by the end of the file at the latest."""
        if data.nbytes < _SMALL:
            for chunk in element_chunks(data):
                self.write(chunk)
            return
        self._flush()
        self._jobs.append(self._writers.submit(data, self._path, self._raw, self.at))
        self.at += data.nbytes

    def finish(self) -> None:
        """Wait for all of the file; the first error of a thread is raised."""
        self._flush()
        for job in self._jobs:
            job.result()

    def leave(self) -> None:
        """Write what stands between tensors, and give the file its size; tensors may come later."""
        self._flush()
        self._raw.truncate(self.at)

    def stop(self) -> None:
        """Wait until no thread writes to the file; what has not begun is left out."""
        for job in self._jobs:
            if not job.cancel():
                job.exception()
        self._raw.settle()

    def _flush(self) -> None:
        if self._waiting:
            self._raw.write([memoryview(bytes(self._waiting))], self.at - len(self._waiting))
            self._waiting.clear()


def element_chunks(data: TensorData) -> Iterator[memoryview]:
    """Yield the elements of a tensor in order, for files that cannot be positioned.

    Raises:
        BackendError: E602 when there are not as many bytes as type and shape say.
    """
    array = data.numpy()
    _require_size(data, array)
    for part in _matrices(array):
        yield from _chunks(part)


_UNABLE = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
"""Error numbers of a system that does not copy between such files."""


def _is_copied(path: Path, start: int, size: int, raw: PlacedFile, at: int) -> bool:
    """Let the system copy bytes from one file to another; return False if it cannot.

    No page of them enters this process. The caller writes them then, from the first on. A file that has
    become too short is left to what reads it otherwise.
    """
    if not hasattr(os, "copy_file_range"):  # not Linux
        return False
    with path.open("rb", buffering=0) as source:
        if os.fstat(source.fileno()).st_size < start + size:
            return False
        done = 0
        while done < size:
            try:
                moved = raw.copy(source.fileno(), start + done, min(size - done, BAND), at + done)
            except OSError as error:
                if error.errno in _UNABLE:
                    return False
                raise
            if not moved:
                return False
            done += moved
    return True


class PlacedFile:
    """A file that several threads write to, each to its own places.

    One writes at a time: the system lets in no more, and others would wait for it on their processor. What
    was written goes to the disk meanwhile, so that little is left to wait for at the end.
    """

    def __init__(self, raw: Any, path: Path) -> None:
        self._raw, self._path, self._writing = raw, path, threading.Lock()
        self._waiting = 0
        self._flushing: threading.Thread | None = None
        self._refused: OSError | None = None

    def truncate(self, size: int) -> None:
        """Give it a size."""
        self._raw.truncate(size)

    def copy(self, source: int, start: int, size: int, at: int) -> int:
        """Let the system copy bytes of another file, from a byte to a place; return how many it did."""
        with self._writing:
            copied = os.copy_file_range(source, self._raw.fileno(), size, start, at)
            self._flush_behind(copied)
        return copied

    def write(self, chunks: Iterable[memoryview], at: int) -> None:
        """Write bytes from a place on."""
        for chunk in chunks:
            while chunk:
                with self._writing:
                    if hasattr(os, "pwrite"):
                        written = os.pwrite(self._raw.fileno(), chunk[:_CHUNK], at)
                    else:  # Windows
                        self._raw.seek(at)
                        written = self._raw.write(chunk)
                    self._flush_behind(written)
                chunk, at = chunk[written:], at + written

    def settle(self) -> None:
        """Wait until nobody holds it open any more, so that it can be moved.

        Raises:
            OSError: when the disk refused what had been written, which the system says once.
        """
        if self._flushing is not None:
            self._flushing.join()
        if self._refused is not None:
            raise self._refused

    def _flush_behind(self, size: int) -> None:
        """Let the system begin to write to the disk when many bytes wait for it; `size` more do."""
        self._waiting += size
        if self._waiting >= _FLUSHED and (self._flushing is None or not self._flushing.is_alive()):
            self._waiting = 0
            self._flushing = threading.Thread(target=self._flush, daemon=True)
            self._flushing.start()

    def _flush(self) -> None:
        try:
            flush(self._path)
        except OSError as error:
            self._refused = error


def _require_size(data: TensorData, array: Array) -> None:
    if array.nbytes != data.nbytes:
        raise BackendError(
            "E602",
            f"expected {data.nbytes} bytes of data for a parameter {data.type}, got {array.nbytes}",
            hint="the frontend's lazy handle loads a type that differs from the stated one",
        )


def _matrices(array: Array) -> Iterator[Array]:
    """Yield the parts of an array that are written one after another: matrices, where they are large."""
    if array.ndim > 2 and not array.flags.c_contiguous and array.nbytes > BAND:
        for part in array:
            yield from _matrices(part)
    else:
        yield array


def _is_transposed(array: Array) -> bool:
    return array.ndim == 2 and not array.flags.c_contiguous and array.T.flags.c_contiguous


def _chunks(array: Array) -> Iterator[memoryview]:
    if _is_transposed(array):
        rows = max(1, BAND // max(1, array[0].nbytes))
        for at in range(0, len(array), rows):
            part = array.T[:, at : at + rows]
            yield from _chunks(_turned(part, np.empty(part.nbytes, np.uint8)))
        return
    if array.ndim and not array.flags.c_contiguous:  # some rows at a time: a copy is made of them
        rows = max(1, _CHUNK // max(1, array[0].nbytes))
        for at in range(0, len(array), rows):
            yield from _chunks(np.ascontiguousarray(array[at : at + rows]))
        return
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.byteorder == ">":
        for at in range(0, flat.size, _CHUNK):
            yield flat[at : at + _CHUNK].astype(flat.dtype.newbyteorder("<")).view(np.uint8).data
        return
    view = flat.view(np.uint8)
    for at in range(0, view.size, _CHUNK):
        yield view[at : at + _CHUNK].data


def _turned(matrix: Array, memory: Array) -> Array:
    """Return the transpose of a matrix, little-endian.

    Args:
        matrix: its rows lie in order.
        memory: bytes that the result takes, from the first on.
    """
    rows, columns = matrix.shape
    kind = matrix.dtype
    if kind.itemsize in (1, 2, 4, 8):  # types of others, as bfloat16 is, are copied one by one
        order = ">" if kind.byteorder == ">" else "<"
        kind = np.dtype(f"{order}u{kind.itemsize}")
        matrix = matrix.view(kind)
    turned = memory[: matrix.nbytes].view(kind.newbyteorder("<")).reshape(columns, rows)
    for row, column, block in transposed_blocks(matrix):
        turned[column : column + block.shape[0], row : row + block.shape[1]] = block
    return turned
