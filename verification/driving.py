"""Compares modules alone on inputs that no draw of the whole model makes: amplified, negative, small."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..ir import ModelError, ModuleTree, Operator
from .bending import Bending, multiplied
from .compare import Comparison, compare, kind_of
from .conditioning import Rounding
from .modules import match
from .report import ModuleRow
from .runners.runs import CallRecord, Run
from .sides import Sides

_SMALL = 1e-2
"""What the inputs of a normalisation are multiplied with: their variance comes near its epsilon."""


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
        row = _innermost(sides, found, call)
        pairs = None if row is None else _pairs(runs, row.call)
        if row is None or pairs is None:
            continue
        record = runs[0].calls[row.call]
        for factor, inputs, regions in bending.amplified(row.call, numbers, record):
            given = CallRecord(record.class_name, inputs, record.outputs)
            worst = _compared(sides, row.call, given, pairs, rounding)
            if worst is None or (worst.passed and worst.unproven):
                bending.restore(regions)
            elif not worst.passed:
                found[row.call] = _failed(row, worst, f"x{factor:g}")
                break
    return [found[row.call] for row in rows]


def sharpen(
    rows: Sequence[ModuleRow], sides: Sides, runs: tuple[Run, Run], rounding: Rounding
) -> list[ModuleRow]:
    """The rows, with what modules alone compute on inputs that show what larger values hide.

    The slope of a leaky activation is hidden by its positive side, the epsilon of a normalisation by a
    variance of 1.

    Args:
        rows: the comparison's.
        sides: both sides, right after `runs`.
        runs: what source and target recorded.
        rounding: what rounding does in the source's run.
    """
    found = {row.call: row for row in rows}
    names, done = sides.graph.modules.call_names(), set[tuple[str, str]]()
    for node in sides.graph.operators():
        sharp = _sharp(node)
        row = None if sharp is None or node.call is None else _innermost(sides, found, names[node.call])
        pairs = None if row is None else _pairs(runs, row.call)
        if sharp is None or row is None or pairs is None or (row.call, sharp[0]) in done:
            continue
        words, change = sharp
        done.add((row.call, words))
        record = runs[0].calls[row.call]
        inputs = [change(array) if kind_of(array) == "f" else array for array in record.inputs]
        given = CallRecord(record.class_name, inputs, record.outputs)
        worst = _compared(sides, row.call, given, pairs, rounding)
        if worst is not None and not worst.passed:
            found[row.call] = _failed(row, worst, words)
    return [found[row.call] for row in rows]


def _sharp(node: Operator) -> tuple[str, Callable[[np.ndarray], np.ndarray]] | None:
    """Words for inputs that show more of this operator than usual ones do, and what makes them of those."""
    traits = node.traits
    if traits.activation and traits.bends == (0.0,) and node.qualified_name != "Relu":
        return "made negative", lambda array: -np.abs(array)
    if traits.normalisation and not traits.trains_differently:
        return f"x{_SMALL:g}", lambda array: multiplied(array, _SMALL)
    return None


def _innermost(sides: Sides, rows: Mapping[str, ModuleRow], call: str) -> ModuleRow | None:
    """The row of the innermost call around one, itself included, that agrees alone."""
    return next((rows[c] for c in _around(sides.graph.modules, call) if _is_drivable(rows.get(c))), None)


def _pairs(runs: tuple[Run, Run], call: str) -> tuple[list[int], list[int]] | None:
    """Which of the source's values in a call are those that enter and leave it in the target."""
    record, other = runs[0].calls[call], runs[1].calls[call]
    entering = match(other.inputs, record.inputs) if other.inputs else []
    leaving = match(other.outputs, record.outputs)
    return None if not entering or leaving is None else (entering, leaving)


def _failed(row: ModuleRow, worst: Comparison, words: str) -> ModuleRow:
    """The row of a module that is wrong alone on its own inputs, changed as the words say."""
    return replace(
        row,
        passed=False,
        isolated_passed=False,
        isolated_max_abs=worst.max_abs,
        tolerance=worst.tolerance,
        reason=f"alone, on the source's own inputs {words}: {worst.reason}",
    )


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
    pairs: tuple[Sequence[int], Sequence[int]],
    rounding: Rounding,
) -> Comparison | None:
    """The furthest of a call's outputs on other inputs; None where the source itself does not run on them."""
    entering, leaving = pairs
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
