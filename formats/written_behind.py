"""Files that are read while they are still being written, in the same process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from threading import Condition

_AHEAD = 1 << 30
"""Bytes by which writing may be ahead of reading: the system keeps as much of files in memory."""

Await = Callable[[Path, int, int], None]
"""Waits until some bytes of a file are there: the file, the first of them, and how many."""


def all_there(_file: Path, _start: int, _size: int) -> None:
    """Wait for nothing."""


@dataclass(slots=True, eq=False)
class _Part:
    """Bytes of a file, and what writes them.

    Attributes:
        write: writes them.
        begun: whether a thread writes them, or has.
        wanted: whether somebody reads them, or has.
    """

    start: int
    size: int
    write: Callable[[], None]
    done: Future[None]
    begun: bool = False
    wanted: bool = False

    def run(self) -> None:
        """Write the bytes, in this thread."""
        self.done.set_running_or_notify_cancel()
        try:
            self.write()
        except BaseException as error:
            self.done.set_exception(error)
            raise
        self.done.set_result(None)


class WritingBehind:
    """The unwritten rest of files that are already read.

    A part that is read before its turn is written by the thread that reads it.
    """

    def __init__(self) -> None:
        self._ahead, self._changed = _AHEAD, Condition()
        self._parts: dict[Path, list[_Part]] = {}
        self._written = self._read = 0
        self._stopped = False
        self._endings: list[Callable[[], object]] = []

    def submit(
        self, threads: Executor, write: Callable[[], None], path: Path, start: int, size: int
    ) -> Future[None]:
        """Have bytes of a file written in their turn, or when they are read."""
        part = _Part(start, size, write, Future())
        self._parts.setdefault(path.resolve(), []).append(part)
        threads.submit(self._take_turn, part)
        return part.done

    def at_end(self, ending: Callable[[], object]) -> None:
        """Call a function when the writing ends; the last one added is called first."""
        self._endings.append(ending)

    def wait_for(self, file: Path, start: int, size: int) -> None:
        """Wait until bytes of a file are there, or write them; those of any other file are there.

        Raises:
            OSError: when the system refuses them.
        """
        for part in self._parts.get(file.resolve(), ()):
            if part.start < start + size and start < part.start + part.size:
                self._want(part)

    def finish(self) -> None:
        """Wait until all is written; the first error is raised."""
        with self._changed:
            self._ahead = 1 << 62
            self._changed.notify_all()
        for part in self._all():
            part.done.result()
        self._end()

    def stop(self) -> BaseException | None:
        """Write no more; return the first error of what was written."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        begun = [part for part in self._all() if part.begun]
        errors = [error for part in begun if (error := part.done.exception()) is not None]
        self._end()
        return errors[0] if errors else None

    def _take_turn(self, part: _Part) -> None:
        """Write a part unless somebody does, when reading is not far behind."""
        with self._changed:
            self._changed.wait_for(
                lambda: part.begun or self._stopped or self._written - self._read < self._ahead
            )
            if part.begun or self._stopped:
                return
            part.begun = True
            self._written += part.size
        part.run()

    def _want(self, part: _Part) -> None:
        with self._changed:
            own = not (part.begun or self._stopped)
            if own:
                part.begun = True
                self._written += part.size
            if not part.wanted:
                part.wanted = True
                self._read += part.size
            self._changed.notify_all()
        if own:
            part.run()
        elif part.begun:
            part.done.result()

    def _all(self) -> list[_Part]:
        return [part for parts in self._parts.values() for part in parts]

    def _end(self) -> None:
        while self._endings:
            self._endings.pop()()


_BEHIND: ContextVar[WritingBehind | None] = ContextVar("regraft_written_behind", default=None)


def behind() -> WritingBehind | None:
    """Return what the tensors of files that are written now are left to; None where they are waited for."""
    return _BEHIND.get()


@contextmanager
def writing_behind(*, wanted: bool = True) -> Iterator[WritingBehind]:
    """Open a with block in which files have their sizes at once, and their tensors by the end of the block.

    What reads one of them inside the block waits for the bytes that it reads. An exception of the block stops
    the writing; an error of the writing takes its place, as it may have caused it.

    Args:
        wanted: False for a block in which files are written as everywhere else.
    """
    own = WritingBehind()
    token = _BEHIND.set(own if wanted else None)
    try:
        yield own
        own.finish()
    except BaseException as error:
        cause = own.stop()
        if cause is None or cause is error or not isinstance(error, Exception):
            raise
        raise cause from error
    finally:
        _BEHIND.reset(token)
