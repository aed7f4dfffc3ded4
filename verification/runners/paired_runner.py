"""A target whose modules bear other names than the source's, run under the source's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import cast

import numpy as np

from ...ir import Operator
from ..training.step import Step, Trainer
from .runs import Run, Runner


class PairedRunner:
    """A runner whose calls are named after the modules of the source.

    Args:
        runner: the target's.
        modules: path of a module in the source -> in the target.
    """

    def __init__(self, runner: Runner, modules: Mapping[str, str]) -> None:
        self._runner = runner
        self._theirs = dict(modules)
        self._ours = {target: source for source, target in modules.items()}
        self.runtime = runner.runtime

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the target; calls of modules without a pair are left out."""
        return self._named(self._runner.run(inputs, calls=calls))

    def _named(self, run: Run) -> Run:
        return Run(run.outputs, {n: r for c, r in run.calls.items() if (n := _renamed(c, self._ours))})

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one call; see `Runner`."""
        return self._runner.run_module(_renamed(call, self._theirs), inputs)

    def run_with(self, inputs: Mapping[str, np.ndarray], call: str, outputs: Sequence[np.ndarray]) -> Run:
        """Run the target with other values in place of what one call gives; see `Runner`."""
        return self._named(self._runner.run_with(inputs, _renamed(call, self._theirs), outputs))

    def step(self, inputs: Mapping[str, np.ndarray], seed: int) -> Step:
        """One training step, with the target's own names of parameters."""
        return cast(Trainer, self._runner).step(inputs, seed)

    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> AbstractContextManager[None]:
        """See `Runner`."""
        return self._runner.altered(change, _renamed(call, self._theirs) if call else "", only)

    def slack(self, operators: Sequence[Operator]) -> int:
        """See `Runner`."""
        return self._runner.slack(operators)

    def close(self) -> None:
        """See `Runner`."""
        self._runner.close()


def _renamed(call: str, names: Mapping[str, str]) -> str:
    """``path#n`` under another path; empty for a path without a pair."""
    path, _, number = call.rpartition("#")
    return f"{names[path]}#{number}" if path in names else ""
