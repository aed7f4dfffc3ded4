"""Hands the results of a target's modules to a source that runs at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Condition

import numpy as np

from ..modules import match

Give = Callable[[str, Sequence[np.ndarray]], None]
"""Receives a call of a module and its results."""

Take = Callable[[str, Sequence[np.ndarray]], "Sequence[np.ndarray] | None"]
"""Returns the values that replace a call's results, from its name and results; None to keep them."""


def ignore_outputs(_call: str, _outputs: Sequence[np.ndarray]) -> None:
    """Do nothing with a call's results."""


def keep_outputs(_call: str, _own: Sequence[np.ndarray]) -> None:
    """Keep a call's own results."""


class Handover:
    """The results of a target's module calls, each taken once by the source's call of the same name.

    Args:
        comes: whether the results of a call will come.
        aside: makes a with block in which other runs do not wait for the taking run.
    """

    def __init__(
        self, comes: Callable[[str], bool], aside: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._comes, self._aside, self._changed = comes, aside, Condition()
        self._given: dict[str, Sequence[np.ndarray]] = {}
        self._ended = False

    def give(self, call: str, outputs: Sequence[np.ndarray]) -> None:
        """Offer a call's results."""
        with self._changed:
            self._given[call] = outputs
            self._changed.notify_all()

    def end(self) -> None:
        """End the handover; no run waits any longer."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def take(self, call: str, own: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """Wait for the target's results, and return them in place of the source's own.

        Results without a counterpart stay the source's; None if no result has one.
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
