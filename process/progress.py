"""Progress: a long call reports its phases to a reporter of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Protocol


class Reporter(Protocol):
    """Is told which phase of a call begins and ends: a spinner, a log, a progress bar of a notebook."""

    def began(self, phase: str) -> None:
        """Take note that a phase begins: "load", "rewrite", "write", "verify", "check"; phases may nest."""
        ...

    def ended(self, phase: str, seconds: float) -> None:
        """Take note that a phase has ended, with an error or without."""
        ...


_REPORTER: ContextVar[Reporter | None] = ContextVar("regraft_reporter", default=None)


@contextmanager
def reporting(reporter: Reporter | None) -> Iterator[None]:
    """Report the phases of this thread's calls to `reporter` in a with block; None for no reporter.

    Example:
        >>> class Log:
        ...     def began(self, phase): print("began", phase)
        ...     def ended(self, phase, seconds): print("ended", phase)
        >>> with reporting(Log()), phase("load"):
        ...     pass
        began load
        ended load
    """
    token = _REPORTER.set(reporter)
    try:
        yield
    finally:
        _REPORTER.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Mark a with block or a decorated function as a phase of a call."""
    reporter = _REPORTER.get()
    if reporter is None:
        yield
        return
    start = perf_counter()
    reporter.began(name)
    try:
        yield
    finally:
        reporter.ended(name, perf_counter() - start)
