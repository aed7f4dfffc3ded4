"""Which inputs are compared: the first with all modules, then outputs on further draws and at other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..ir import ModelError
from .branches import branches
from .inputs import KINDS, bindings, make_inputs, other_sizes, resized
from .modules import ModuleComparison
from .report import ModuleRow, OutputRow
from .sides import Sides


class Cases:
    """Runs both sides on one case after the other.

    Args:
        sides: what is run.
        seed: of the inputs.
    """

    def __init__(self, sides: Sides, seed: int) -> None:
        self.sides, self.graph, self.notes, self.seed = sides, sides.graph, sides.notes, seed

    def rows(
        self, inputs: Mapping[str, np.ndarray] | None, modules: bool
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        """Rows of outputs and module calls, and the call in which the target goes wrong.

        Args:
            inputs: arrays by input name; None makes seeded ones.
            modules: whether to compare modules too.
        """
        sizes, seed = bindings(self.graph, inputs), self.seed
        first = make_inputs(self.graph, sizes, seed) if inputs is None else dict(inputs)
        outputs, rows, culprit = self._first(case_of(sizes), first, modules)
        outputs += self._branches(first, sizes, seed, drawn=inputs is None)
        if self.graph.origin.assumed and inputs is None:
            outputs += self._contradicting(sizes, seed)
        for further in other_sizes(self.graph, sizes):
            again = (
                make_inputs(self.graph, further, seed + 1)
                if inputs is None
                else resized(self.graph, inputs, further)
            )
            outputs += self._another(case_of(further), again)
        return outputs, rows, culprit

    def _first(
        self, case: str, inputs: Mapping[str, np.ndarray], modules: bool
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        source = self.sides.source.run(inputs, calls=modules)
        target = self.sides.target.run(inputs, calls=modules)
        rounding = self.sides.rounding(inputs, source, calls=modules)
        outputs = self.sides.outputs(case, source, target, rounding)
        if not modules:
            return outputs, [], None
        runners = self.sides.source, self.sides.target
        comparison = ModuleComparison(self.graph.modules, inputs, (source, target), runners, rounding)
        rows = comparison.rows(agree=all(row.passed for row in outputs))
        culprit = comparison.culprit(rows)
        if culprit is None and any(row.passed for row in rows) and not all(row.passed for row in outputs):
            culprit = "#1"  # every module is right: it is the root's own code after the last of them
        return outputs, rows, culprit

    def _branches(
        self, first: Mapping[str, np.ndarray], sizes: dict[str, int], seed: int, *, drawn: bool
    ) -> list[OutputRow]:
        """The outputs on further inputs, until every branch of the graph was taken; what was not is noted."""
        found = branches(self.graph)
        if found is None:
            return []
        found.note(first)
        rows = self._draws(found.further(sizes, seed) if drawn else (), sizes)
        remark = found.remark(drawn)
        self.notes += [remark] if remark else []
        return rows

    def _contradicting(self, sizes: dict[str, int], seed: int) -> list[OutputRow]:
        """The outputs on inputs of several kinds, for one of which what was assumed may not hold."""
        draws = ((draw, make_inputs(self.graph, sizes, seed + draw, draw)) for draw in range(1, KINDS))
        rows = self._draws(draws, sizes)
        if not all(row.passed for row in rows):
            self.notes += self.graph.origin.assumed
        return rows

    def _draws(
        self, draws: Iterable[tuple[int, Mapping[str, np.ndarray]]], sizes: dict[str, int]
    ) -> list[OutputRow]:
        """The outputs on further inputs of the same sizes, each with its number."""
        return [row for n, given in draws for row in self._another(f"{case_of(sizes)}, draw {n}", given)]

    def _another(self, case: str, inputs: Mapping[str, np.ndarray]) -> list[OutputRow]:
        """The outputs at other sizes, where the source itself runs with them."""
        try:
            source = self.sides.source.run(inputs, calls=False)
        except ModelError as error:
            self.notes.append(
                f"the source does not run with {case}, so that the target was not tried: {error.message}"
            )
            return []
        try:
            target = self.sides.target.run(inputs, calls=False)
        except ModelError as error:
            nan = float("nan")
            return [
                OutputRow(
                    name,
                    case,
                    tuple(a.shape),
                    nan,
                    nan,
                    0.0,
                    False,
                    f"the target does not run: {error.message}",
                )
                for name, a in source.outputs
            ]
        return self.sides.outputs(case, source, target, self.sides.rounding(inputs, source))


def case_of(sizes: dict[str, int]) -> str:
    """``N=2``; "static" for a graph without symbols."""
    return ", ".join(f"{name}={size}" for name, size in sorted(sizes.items())) or "static"
