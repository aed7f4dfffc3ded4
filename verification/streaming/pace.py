"""Keeps runs that read the same weights near one another, so that each weight comes from disk once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

Read = Callable[[int], None]
"""Announces a read of so many bytes of weights; waits for other runs if they are far behind."""


def ignore_pace(_size: int) -> None:
    """Wait for no other run."""


def ignore_weight(_name: str) -> None:
    """Do nothing with a weight that has been read."""


class Pace:
    """The common pace of runs in separate threads.

    Args:
        bound: bytes of weights by which a run may be ahead of the slowest one.
    """

    def __init__(self, bound: int) -> None:
        self._bound, self._changed = bound, Condition()
        self._read: list[int | None] = []
        self._aside: set[int] = set()

    def join(self) -> int:
        """Add a run; return its number."""
        with self._changed:
            self._read.append(0)
            return len(self._read) - 1

    @contextmanager
    def run(self, number: int) -> Iterator[Read]:
        """Open a with block in which a joined run reads; after it, no run waits for it."""
        try:
            yield lambda size: self._advance(number, size)
        finally:
            with self._changed:
                self._read[number] = None
                self._changed.notify_all()

    @contextmanager
    def aside(self, number: int) -> Iterator[None]:
        """Open a with block in which no run waits for this one, because it waits for something else."""
        with self._changed:
            self._aside.add(number)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._aside.remove(number)

    def _advance(self, number: int, size: int) -> None:
        with self._changed:
            own = (self._read[number] or 0) + size
            self._read[number] = own
            self._changed.notify_all()
            self._changed.wait_for(lambda: own - self._last(own) <= self._bound)  # the last one never waits

    def _last(self, own: int) -> int:
        """Return the bytes read by the slowest run in the race; `own`: those of the asking run."""
        return min([own, *(n for at, n in enumerate(self._read) if n is not None and at not in self._aside)])
