"""Runs a source and a target at once, and the source in float64, so that weights come from disk once."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..runners.runs import Run
from ..structure.values import ValueComparison
from .handover import Handover, ignore_outputs, keep_outputs
from .pace import Pace, ignore_pace, ignore_weight
from .targets import PiecesTarget
from .torch_pieces import TorchPieces

_APART = 1 << 28
"""Bytes of weights by which one run may be ahead of another: the system keeps as much of files in memory."""


class RunTogether:
    """Runs of a source and its target, in the first of which the target's weights are compared too.

    Args:
        source: the source.
        target: what was written from it, which runs in the caller's thread.
        exact: the source in float64, whose next run gives the result of one at the same time.
        values: compares weights, each when the target has first read it; None where nothing says which is
            which.
    """

    def __init__(
        self, source: TorchPieces, target: PiecesTarget, exact: TorchPieces, values: ValueComparison | None
    ) -> None:
        self._source, self.target, self._exact, self._values = source, target, exact, values

    def follow(self, inputs: Mapping[str, np.ndarray]) -> tuple[Run, Run]:
        """Return what source and target give where the source goes on with the target's values.

        The target runs from its own values; each module of the source computes from what the target's modules
        before it gave, and its own results are recorded.

        Raises:
            ModelError: when one of them cannot be run (E702).
        """
        pace = Pace(_APART)
        own, other = pace.join(), pace.join()
        handover = Handover(self.target.gives, lambda: pace.aside(own))
        self._source.take, self.target.give = handover.take, handover.give
        if self._values is not None:
            self.target.has_read = self._values.look_at
        try:
            with ThreadPoolExecutor(1) as thread:
                run = thread.submit(_run, pace, own, self._source, inputs)
                try:
                    found = _run(pace, other, self.target, inputs)
                finally:
                    handover.end()
            return run.result(), found
        finally:
            self._source.take, self.target.give = keep_outputs, ignore_outputs
            self.target.has_read = ignore_weight

    def run(self, inputs: Mapping[str, np.ndarray]) -> tuple[Run, Run]:
        """Return what source and target give, each from its own values.

        Raises:
            ModelError: when one of them cannot be run (E702).
        """
        pace = Pace(_APART)
        sides = [self._source, *([self._exact] if self._exact.separate() else [])]
        numbers = [pace.join() for _ in (*sides, self.target)]
        with ThreadPoolExecutor(len(sides)) as threads:
            own = zip(numbers, sides, strict=False)  # the last number is the target's
            runs = [threads.submit(_run, pace, n, side, inputs) for n, side in own]
            found = _run(pace, numbers[-1], self.target, inputs)
        for side, run in zip(sides[1:], runs[1:], strict=True):
            if run.exception() is None:
                side.keep(inputs, run.result())
        return runs[0].result(), found


def _run(pace: Pace, number: int, side: TorchPieces | PiecesTarget, inputs: Mapping[str, np.ndarray]) -> Run:
    """Run a side at the pace of others."""
    with pace.run(number) as read:
        side.read = read
        try:
            return side.run(inputs)
        finally:
            side.read = ignore_pace
