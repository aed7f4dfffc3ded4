"""Compares modules alone on amplified inputs, where draws of the whole model did not lead into a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir import ModelError, ModuleTree
from .bending import Bending
from .compare import Comparison, compare
from .conditioning import Rounding
from .modules import match
from .report import ModuleRow
from .runners.runs import CallRecord, Run
from .sides import Sides


def drive(
    bending: Bending,
    rows: Sequence[ModuleRow],
    sides: Sides,
    runs: tuple[Run, Run],
    rounding: Rounding,
) -> list[ModuleRow]:
    """The rows, with what the innermost modules around unseen regions compute on amplified inputs.

    A module is driven only where it agrees alone on what was recorded: then its values are known to pair.

    Args:
        bending: the regions; those that were reached are crossed off.
        rows: the comparison's.
        sides: both sides, right after `runs`.
        runs: what source and target recorded.
        rounding: what rounding does in the source's run.
    """
    found = {row.call: row for row in rows}
    for call, numbers in bending.calls().items():
        row = next((found[c] for c in _around(sides.graph.modules, call) if _is_drivable(found.get(c))), None)
        if row is None:
            continue
        record, other = runs[0].calls[row.call], runs[1].calls[row.call]
        entering = match(other.inputs, record.inputs) if other.inputs else []
        leaving = match(other.outputs, record.outputs)
        if not entering or leaving is None:
            continue
        for factor, inputs, regions in bending.amplified(row.call, numbers, record):
            given = CallRecord(record.class_name, inputs, record.outputs)
            worst = _compared(sides, row.call, given, entering, leaving, rounding)
            if worst is None or (worst.passed and worst.unproven):
                bending.restore(regions)
            elif not worst.passed:
                reason = f"alone, on the source's own inputs x{factor:g}: {worst.reason}"
                found[row.call] = replace(
                    row,
                    passed=False,
                    isolated_passed=False,
                    isolated_max_abs=worst.max_abs,
                    tolerance=worst.tolerance,
                    reason=reason,
                )
                break
    return [found[row.call] for row in rows]


def _is_drivable(row: ModuleRow | None) -> bool:
    return row is not None and row.isolated_passed is True


def _around(tree: ModuleTree, call: str) -> list[str]:
    """Names of a call and of those around it, the innermost first."""
    names = tree.call_names()
    key = next((key for key, name in names.items() if name == call), None)
    return [names[each] for each in tree.ancestors(key)]


def _compared(
    sides: Sides,
    call: str,
    record: CallRecord,
    entering: Sequence[int],
    leaving: Sequence[int],
    rounding: Rounding,
) -> Comparison | None:
    """The furthest of a call's outputs on other inputs; None where the source itself does not run on them."""
    try:
        source = sides.source.run_module(call, record.inputs)
    except ModelError:
        return None
    if len(source) != len(record.outputs):
        return None
    try:
        target = sides.target.run_module(call, [record.inputs[i] for i in entering])
    except ModelError as error:
        nan = float("nan")
        return Comparison(tuple(source[0].shape), nan, nan, 0.0, False, error.message)
    by = rounding.alone(call, CallRecord(record.class_name, record.inputs, source))
    found = [compare(source[i], array, by(i)) for i, array in zip(leaving, target, strict=True)]
    return max(found, key=lambda c: (not c.passed, np.nan_to_num(c.max_rel, nan=np.inf)))
