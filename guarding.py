"""The walls of every call into the library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .frontends.user_code import exits_refused
from .ir import system_errors_told
from .process_state import as_it_was


@contextmanager
def guarded() -> Iterator[None]:
    """The walls of every call into the library: process state, the system's errors, exits of user code."""
    with as_it_was(), system_errors_told(), exits_refused():
        yield
