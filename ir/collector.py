"""Spares Python's garbage collector what cannot be garbage while graphs are built and compared."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 100_000
"""Number of new objects that are worth a search of their own."""

_sparing = False
"""Whether a block of `spare_living` is open that has frozen what lived before it."""


@contextmanager
def pause_collector() -> Generator[None]:
    """Pause the search for cyclic garbage; also usable as a decorator.

    A graph consists of several small, long-lived objects per operator. The collector walks them all again
    each time their number has grown by a quarter, which takes a third of the time of building and rewriting.
    Objects outside of cycles are freed as usual. What has come to be is searched once at the end: left to
    itself the collector walks it a second time before it counts as old.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
            if gc.get_count()[0] > _MANY:
                gc.collect(1)


@contextmanager
def spare_living() -> Generator[None]:
    """Let the search for cyclic garbage leave out what is alive now; also usable as a decorator.

    A framework has hundreds of thousands of objects that live as long as the process. What comes to be inside
    is searched as usual, so that runs of a model do not pile up.
    """
    global _sparing
    # to count what somebody else has frozen, and `unfreeze` would thaw, is to walk it all
    if _sparing or gc.get_freeze_count():
        yield
        return
    _sparing = True
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        _sparing = False
