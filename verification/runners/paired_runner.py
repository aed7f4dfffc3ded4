"""Runs a target under the source's module names, if its own modules have other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from ...frontends.training_script import RecipeFunction
from ...ir import Operator
from ...ir.recipe import UpdateRule
from ..recipes.trajectories import Batch, Learner, Reading, Trajectory
from ..training.step import Step, Trainer
from .runs import Coarse, KernelErrors, Replacing, Run, Runner

T = TypeVar("T")


def in_order(outputs: Sequence[T], order: Sequence[int]) -> list[T]:
    """Return a target's outputs in the source's order.

    Args:
        outputs: one item for each of them.
        order: as for `PairedRunner`.
    """
    return [outputs[at] for at in order] if len(order) == len(outputs) else list(outputs)


class PairedRunner:
    """A runner whose calls are named after the modules of the source.

    Args:
        runner: the target's.
        modules: path of a module in the source -> in the target.
        integers: type of each input that is an integer in the target, in order; None for any other.
        order: place in the target of each output of the source; none where they are in one order.

    Attributes:
        order: as given.
    """

    def __init__(
        self,
        runner: Runner,
        modules: Mapping[str, str],
        integers: Sequence[str | None] = (),
        order: Sequence[int] = (),
    ) -> None:
        self.order = list(order)
        self._runner = runner
        self._integers = list(integers)
        self._theirs = dict(modules)
        self._ours = {target: source for source, target in modules.items()}
        self.runtime = runner.runtime

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the target; calls of modules without a pair are left out."""
        return self._rename_calls(self._runner.run(self._cast(inputs), calls=calls))

    def _cast(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Cast integers to the types that the target takes."""
        if len(self._integers) != len(inputs):
            return inputs
        return {
            name: array if dtype is None or array.dtype.kind not in "iu" else array.astype(dtype)
            for (name, array), dtype in zip(inputs.items(), self._integers, strict=True)
        }

    def _rename_calls(self, run: Run) -> Run:
        return Run(
            in_order(run.outputs, self.order),
            {n: r for c, r in run.calls.items() if (n := _rename_call(c, self._ours))},
        )

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one call; see `Runner`."""
        return self._runner.run_module(_rename_call(call, self._theirs), inputs)

    def run_part(self, call: str, part: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run a layer in the place of that of one call; see `Replacing`."""
        return cast(Replacing, self._runner).run_part(_rename_call(call, self._theirs), part, inputs)

    def run_with(self, inputs: Mapping[str, np.ndarray], given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the target with other values in place of what some calls return; see `Runner`."""
        renamed = {_rename_call(call, self._theirs): outputs for call, outputs in given.items()}
        return self._rename_calls(self._runner.run_with(self._cast(inputs), renamed))

    def step(self, inputs: Mapping[str, np.ndarray], seed: int, ranks: Sequence[int] = ()) -> Step:
        """Make one training step, with the target's own names of parameters; see `Trainer`."""
        ranks = ranks or [self.order.index(at) for at in range(len(self.order))]
        step = cast(Trainer, self._runner).step(self._cast(inputs), seed, ranks)
        return replace(step, outputs=in_order(step.outputs, self.order))

    def read_recipe(
        self, function: RecipeFunction, reference: str, inputs: Mapping[str, np.ndarray], steps: int
    ) -> Reading:
        """Read a training script, with the target's own names of parameters; see `Learner`."""
        return cast(Learner, self._runner).read_recipe(function, reference, self._cast(inputs), steps)

    def follow(
        self,
        function: RecipeFunction,
        reference: str,
        batches: Sequence[Batch],
        record: frozenset[int],
        rules: Mapping[str, UpdateRule] | None = None,
        precision: str | None = None,
    ) -> Trajectory:
        """Train for some steps, with the target's own names of parameters; see `Learner`."""
        given = [(self._cast(inputs), labels) for inputs, labels in batches]
        return cast(Learner, self._runner).follow(function, reference, given, record, rules, precision)

    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> AbstractContextManager[None]:
        """See `Runner`."""
        return self._runner.altered(change, _rename_call(call, self._theirs) if call else "", only)

    @property
    def kernel_errors(self) -> KernelErrors:
        """See `Coarse`."""
        return self._runner.kernel_errors if isinstance(self._runner, Coarse) else {}

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:
        """See `Runner`."""
        return self._runner.ulp_tolerance(operators)

    def close(self) -> None:
        """See `Runner`."""
        self._runner.close()


def _rename_call(call: str, names: Mapping[str, str]) -> str:
    """Return ``path#n`` under another path; empty for a path without a pair."""
    path, _, number = call.rpartition("#")
    return f"{names[path]}#{number}" if path in names else ""
