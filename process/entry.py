"""The guard of every public function: process state, errors of the system, exits of user code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..frontends.user_code import exits_refused
from ..ir import framework_errors_told, system_errors_told
from .state import preserve_process_state


@contextmanager
def public_call() -> Iterator[None]:
    """Restore the process's state, convert errors of the system and of imports, refuse exits of user code."""
    with preserve_process_state(), system_errors_told(), framework_errors_told(), exits_refused():
        yield
