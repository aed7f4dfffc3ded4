"""Hands what a target's modules give to a source that runs at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Condition

import numpy as np

from ..modules import match

Give = Callable[[str, Sequence[np.ndarray]], None]
"""Gets a call of a module, and what it gave."""

Take = Callable[[str, Sequence[np.ndarray]], "Sequence[np.ndarray] | None"]
"""Returns what goes on in place of what a call gave, from its name and that; None for that itself."""


def ungiven(_call: str, _outputs: Sequence[np.ndarray]) -> None:
    """Give nobody what a call gave."""


def unhanded(_call: str, _own: Sequence[np.ndarray]) -> None:
    """Let go on what a call gave."""


class Handover:
    """What calls of a target's modules give, each taken once, by the source's call of the same name.

    Args:
        comes: whether a call will be given.
        aside: makes a with block in which others do not wait for the run that takes.
    """

    def __init__(
        self, comes: Callable[[str], bool], aside: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._comes, self._aside, self._changed = comes, aside, Condition()
        self._given: dict[str, Sequence[np.ndarray]] = {}
        self._ended = False

    def give(self, call: str, outputs: Sequence[np.ndarray]) -> None:
        """Have a call's results taken."""
        with self._changed:
            self._given[call] = outputs
            self._changed.notify_all()

    def end(self) -> None:
        """Give no more; nobody waits any longer."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def take(self, call: str, own: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """Wait for the target's results, and return them in place of the source's own.

        Those that have no counterpart are the source's; None where none has.
        """
        if not self._comes(call):
            return None
        with self._aside(), self._changed:
            self._changed.wait_for(lambda: self._ended or call in self._given)
            theirs = self._given.pop(call, ())
        values = list(own)
        pairs = match(theirs, values)
        for array, at in zip(theirs, pairs or (), strict=False):
            values[at] = array.astype(values[at].dtype, copy=False)
        return values if pairs else None
