"""Chooses the inputs of a comparison in pieces: those of a whole one, the first of which is followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from ...ir import ModelError
from ...ir.outside.memory_limits import give_back_memory
from ..cases import Arrays, Cases
from ..compare import Yardstick, pick_exact
from ..conditioning import Rounding, UnitsAlone
from ..driving import drive, sharpen
from ..modules import ModuleComparison
from ..report import ModuleRow, OutputRow
from ..runners.runs import CallRecord, Run
from ..sensitivity.measuring import Measuring
from ..sides import OutputRounding, Sides
from .rounded_constants import WithMoves, WithRoundedConstants
from .targets import PiecesTarget
from .together import RunTogether
from .torch_pieces import TorchPieces

_FOLLOWED = (
    "each module of the source, run on the target's values of the modules before it, agreed with the "
    "target's module; the sum of all rounding over the model was not measured"
)


class PiecesSides(Sides):
    """Sides that run in pieces, of which the target may have rounded constants once for all."""

    target: PiecesTarget

    def outputs(self, case: str, source: Run, target: Run, rounding: OutputRounding) -> list[OutputRow]:
        """Return one row per output of the source, right after the run of the target."""
        if self.target.moved:
            rounding = WithMoves(rounding, [name for name, _ in target.outputs], dict(self.target.moved))
        return super().outputs(case, source, target, rounding)


class PiecesCases(Cases):
    """Runs both sides in pieces on one case after the other.

    On the first, the target computes from its own values, and each module of the source from the target's
    values of the modules before it: what they give must be the same up to the rounding of one module. Each
    innermost module is compared alone by it. On further cases both compute from their own values.

    Args:
        sides: what is run.
        together: their runs at one time.
        seed: seed of the inputs.
    """

    sides: PiecesSides

    def __init__(self, sides: PiecesSides, together: RunTogether, seed: int) -> None:
        super().__init__(sides, seed)
        self._together, self._followed = together, 0

    def rows(
        self, inputs: Arrays | None, modules: bool
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        """Return rows of outputs and module calls, and the call in which the target goes wrong."""
        outputs, rows, culprit = super().rows(inputs, modules)
        if self._followed == len(outputs):
            self.notes.append(_FOLLOWED)
        return outputs, rows, culprit

    def _run_first(
        self, case: str, inputs: Arrays, modules: bool, known: Run | None = None
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        del modules, known
        sides = self.sides
        runs = self._together.follow(inputs)
        outputs, compared = self._compare(case, inputs, runs, sides.units_alone())
        rows = compared(alone=False).rows(agree=_agree(outputs))
        if _is_right(outputs, rows):
            self._followed += len(outputs)
            rows = self._look_closer(rows, inputs, runs, outputs)
            culprit = next((row.call for row in rows if row.passed is False), None)
            self._differs = self._differs or culprit is not None
            for run in runs:
                run.forget()
            give_back_memory()  # which further runs need
            return outputs, rows, culprit
        runs = self._together.run(inputs)
        rounding = sides.rounding(inputs, runs[0], calls=True)
        outputs, compared = self._compare(case, inputs, runs, rounding)
        outputs = self._excuse_undefined(inputs, runs, rounding, outputs)
        agree = _agree(outputs)
        rows = compared(alone=False).rows(agree=agree)
        if _is_right(outputs, rows):
            return outputs, rows, None
        self._differs = self._differs or not agree
        found = compared()
        rows = found.rows(agree=agree)
        culprit = found.culprit(rows)
        if culprit is None and not agree and any(row.passed for row in rows):
            culprit = "#1"  # every module is right: it is the root's own code after the last of them
        return outputs, rows, culprit

    def _compare(
        self, case: str, inputs: Arrays, runs: tuple[Run, Run], rounding: Rounding
    ) -> tuple[list[OutputRow], Callable[..., ModuleComparison]]:
        """Return the rows of outputs, and what makes the comparison of the modules of the same runs."""
        sides = self.sides
        if sides.target.moved:
            names = [name for name, _ in runs[1].outputs]
            rounding = WithRoundedConstants(rounding, sides.target, names)
        runners = sides.source, sides.target
        modules = partial(ModuleComparison, self.graph.modules, inputs, runs, runners, rounding)
        return Sides.outputs(sides, case, *runs, rounding), modules

    def _look_closer(
        self,
        rows: list[ModuleRow],
        inputs: Arrays,
        runs: tuple[Run, Run],
        outputs: Sequence[OutputRow],
    ) -> list[ModuleRow]:
        """Return rows that include innermost modules on inputs that show what usual ones hide.

        The effect of changes of parameters is measured where nothing is wrong.
        """
        sides, source = self.sides, self.sides.source
        assert isinstance(source, TorchPieces)
        rounding: Rounding = _Alone(sides, source)
        if sides.target.moved:
            rounding = WithRoundedConstants(rounding, sides.target, [])
        agreeing = [
            replace(r, isolated_passed=True, isolated_tolerance=r.tolerance) if r.passed else r for r in rows
        ]
        inner = self._innermost()
        found = [new if row.call in inner else row for row, new in zip(rows, agreeing, strict=True)]
        if self._bending.unseen:
            found = drive(self._bending, found, sides, runs, rounding)
        found = sharpen(found, sides, runs, rounding)
        if not any(row.passed is False for row in found):
            measuring = Measuring(self.graph, source, inputs, runs[0], outputs, agreeing, alone=True)
            self.covered.sensitivity = measuring.sensitivity()
        return [new if new.driven else row for row, new in zip(rows, found, strict=True)]

    def _innermost(self) -> set[str]:
        """Return the names of the calls that call no other module."""
        tree = self.graph.modules
        names = tree.call_names()
        return set(names.values()) - {names[c.parent] for c in tree.calls() if c.parent is not None}


class _Alone(UnitsAlone):
    """The rounding of a module of the source that runs alone: its float64 result tells it.

    Args:
        sides: what is run.
        source: the source, after a run that recorded its modules.
    """

    def __init__(self, sides: Sides, source: TorchPieces) -> None:
        units = sides.units_alone()
        super().__init__(units._cost, units._types)
        self._cost_of = sides._cost_alone
        self._exact = TorchPieces(sides.graph, "float64")
        self._exact.take_calls(source)

    def alone(self, call: str, record: CallRecord) -> Callable[[int], Yardstick]:
        """Return the yardsticks, by index, of the outputs of a module call run alone on other inputs."""

        def outputs() -> list[np.ndarray] | None:
            try:
                return self._exact.run_module(call, record.inputs)
            except (ModelError, KeyError):
                return None

        units, cost = super().alone(call, record), self._cost_of(call)

        def yardstick(index: int) -> Yardstick:
            exact = pick_exact(cache(outputs), index, len(record.outputs))
            return replace(units(index), exact=exact, ulps=cost.ulps, inner=cost.inner)

        return yardstick


def _agree(outputs: Sequence[OutputRow]) -> bool:
    return all(row.passed for row in outputs)


def _is_right(outputs: Sequence[OutputRow], rows: Sequence[ModuleRow]) -> bool:
    """Whether everything that could be compared is within its tolerance."""
    return _agree(outputs) and not any(row.max_abs is not None and row.passed is not True for row in rows)
