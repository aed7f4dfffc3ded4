"""Pauses Python's garbage collector while graphs are built."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Generator[None]:
    """Pause the search for cyclic garbage; also usable as a decorator.

    A graph consists of several small, long-lived objects per operator. The collector walks them all again
    each time their number has grown by a quarter, which takes a third of the time of building and rewriting.
    Objects outside of cycles are freed as usual.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
