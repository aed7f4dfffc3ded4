"""Keeps Python's garbage collector off long-lived objects while graphs are built and compared."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_YOUNG = 5_000
"""New objects after which the youngest are searched, while long-lived ones are built."""
_NEVER = 2**31 - 1

_frozen = False
"""Whether an open block of `freeze_live_objects` has frozen the older objects."""


@contextmanager
def pause_collector() -> Generator[None]:
    """Search only new objects for cyclic garbage; also usable as a decorator.

    A graph consists of several small, long-lived objects per operator. The collector walks them all again
    each time their number has grown by a quarter, which takes a third of the time of building and rewriting.
    What a trace throws away is freed soon, while it is in the processor's cache.
    """
    young, middle, old = gc.get_threshold()
    if young:  # 0: no search at all
        gc.set_threshold(max(young, _YOUNG), middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)


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
