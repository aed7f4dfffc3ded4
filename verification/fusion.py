"""Compares what a runtime computes with its fusions and without them: a fault at either level is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from ..ir import ModelError
from .jumps.equalities import Equalities
from .jumps.selections import Selections
from .report import OutputRow
from .runners.runs import Fusing, Run
from .sides import OutputRounding, Sides

_COARSELY = 0.05
"""Relative difference up to which fusions may round weights of 8 bits, which move outputs by 0.01.

There is no such bound where a net rounds its own values to 8 bits: its layers spread one that is rounded
otherwise.
"""


class Fusion:
    """The two levels at which ONNX Runtime runs a target: operators one by one, or fused as by default.

    A source in ONNX Runtime is compared at the level at which the target runs: a file equals itself.

    Args:
        sides: what is run; the target's level may change.
        selections: judges what rounding selects.
        equalities: judges what it decides where a net quantises.
    """

    def __init__(self, sides: Sides, selections: Selections, equalities: Equalities) -> None:
        self._sides, self._selections, self._equalities = sides, selections, equalities
        self._level, self._stopped = ExitStack(), False  # keeps the target without fusions

    @property
    def is_stopped(self) -> bool:
        """Whether the target runs without fusions from now on."""
        return self._stopped

    def find_faults_at_other_level(
        self, case: str, inputs: Mapping[str, np.ndarray], source: Run, rounding: OutputRounding
    ) -> list[OutputRow]:
        """Return the outputs that are wrong where the target's operators are fused, or where they are not.

        ONNX Runtime fuses a LayerNormalization behind an Add as one over the last axis, whatever its axis is:
        such a file may be wrong and look right in this runtime. And it fuses a DequantizeLinear with the
        MatMul behind it as one that rounds activations to 8 bits, of the source's file as of the target's.

        Args:
            case: name of a case in which outputs agree.
            inputs: its inputs.
            source: the source's run.
            rounding: what rounding does in it.
        """
        runner = self._sides.target
        if not isinstance(runner, Fusing):
            return []
        words = "operators one by one" if runner.fuses else "with the runtime's default fusions"
        try:
            with runner.fusing(not runner.fuses):
                target = runner.run(inputs, calls=False)
                rows = self._sides.outputs(f"{case}, {words}", source, target, rounding)
                rows = self._selections.judge(rows, inputs, source, target)  # runs the target again
        except ModelError as error:
            self._sides.notes.append(f"the target was not tried {words}: {error.message}")
            return []
        rows = self._equalities.excuse_rounded(inputs, source, target, rows)
        wrong = [row for row in rows if not row.passed]
        if not wrong or runner.fuses:
            return wrong
        return self._find_faults_of_fusion(wrong, inputs, target, rounding)

    def _find_faults_of_fusion(
        self,
        wrong: Sequence[OutputRow],
        inputs: Mapping[str, np.ndarray],
        target: Run,
        rounding: OutputRounding,
    ) -> list[OutputRow]:
        """Return the rows that are not what the runtime's fusions make of the source, too.

        Args:
            wrong: rows in which the fused target is not what the source gives operator by operator.
            inputs: inputs of the case.
            target: the fused target's run.
            rounding: what rounding does in the source's run.
        """
        source, runner = self._sides.source, self._sides.target
        assert isinstance(runner, Fusing)
        if isinstance(source, Fusing):
            with source.fusing(True):
                fused = source.run(inputs, calls=False)
            names = {row.name for row in wrong}
            rows = self._sides.outputs(wrong[0].case, fused, target, rounding)
            wrong = [row for row in rows if row.name in names and not row.passed]
        if not wrong or not self._may_be_coarse(runner, wrong):
            return list(wrong)
        if not self._stopped:
            self._sides.notes.append(_describe_coarse(wrong))
        return []

    def stop(
        self,
        case: str,
        inputs: Mapping[str, np.ndarray],
        runs: tuple[Run, Run],
        rows: list[OutputRow],
        rounding: OutputRounding,
        *,
        calls: bool = False,
    ) -> tuple[Run, list[OutputRow]]:
        """Return the target's run and its rows; without fusions from then on where those round too coarsely.

        Args:
            case: name of the case.
            inputs: its inputs.
            runs: what source and target gave.
            rows: their rows.
            rounding: what rounding does in the source's run.
            calls: whether modules were recorded.
        """
        runner, wrong = self._sides.target, [row for row in rows if not row.passed]
        if (
            not wrong
            or not isinstance(runner, Fusing)
            or not runner.fuses
            or not self._may_be_coarse(runner, wrong)
        ):
            return runs[1], self._equalities.excuse_rounded(inputs, *runs, rows)
        with ExitStack() as level:
            level.enter_context(runner.fusing(False))
            target = runner.run(inputs, calls=calls)
            again = self._sides.outputs(case, runs[0], target, rounding)
            again = self._equalities.excuse_rounded(inputs, runs[0], target, again)
            if not all(row.passed for row in again):
                return runs[1], self._equalities.excuse_rounded(inputs, *runs, rows)
            self._level, self._stopped = level.pop_all(), True
        self._sides.notes.append(_describe_coarse(wrong))
        return target, again

    def stop_for_calls(self) -> bool:
        """Run the target without fusions from now on, where those may be what makes its calls differ.

        Returns:
            Whether it was run with them, and they may round or saturate what the model quantises.
        """
        runner = self._sides.target
        if not isinstance(runner, Fusing) or not (runner.fuses and runner.rounds_coarsely):
            return False
        self._level.enter_context(runner.fusing(False))
        self._stopped = True
        self._sides.notes.append(
            "the runtime's default fusions round quantised values further inside, or saturate sums; "
            "the comparison runs operators one by one"
        )
        return True

    def _may_be_coarse(self, runner: Fusing, wrong: Sequence[OutputRow]) -> bool:
        """Whether fusions may round as much as failing rows are off."""
        spreads = self._equalities.has_quantised
        return runner.rounds_coarsely and (spreads or all(row.max_rel <= _COARSELY for row in wrong))


def _describe_coarse(wrong: Sequence[OutputRow]) -> str:
    most = max(row.max_rel for row in wrong)
    return (
        f"the runtime's default fusions round quantised values further and move `{wrong[0].name}` by "
        f"{most:.2g} of its largest value; the comparison runs operators one by one"
    )
