"""Keeps Python's garbage collector off long-lived objects while graphs are built and compared."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 100_000
"""Least number of new objects that is worth a separate search."""

_frozen = False
"""Whether an open block of `freeze_live_objects` has frozen the older objects."""


@contextmanager
def pause_collector() -> Generator[None]:
    """Pause the search for cyclic garbage; also usable as a decorator.

    A graph consists of several small, long-lived objects per operator. The collector walks them all again
    each time their number has grown by a quarter, which takes a third of the time of building and rewriting.
    Objects outside of cycles are freed as usual. The new objects are searched once at the end: otherwise the
    collector would walk them a second time before they count as old.
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
def freeze_live_objects() -> Generator[None]:
    """Exclude the live objects from the search for cyclic garbage; also usable as a decorator.

    A framework has hundreds of thousands of objects that live as long as the process. Objects made inside
    the block are searched as usual, so that runs of a model do not pile up.
    """
    global _frozen
    # `unfreeze` would also thaw what other code has frozen; to count that would walk all objects
    if _frozen or gc.get_freeze_count():
        yield
        return
    _frozen = True
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        _frozen = False
