"""Compares modules alone on inputs that the whole model never gives them: amplified, negative, small."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from ..ir import ModelError, ModuleTree, Operator
from .bending import Bending, multiply_floats
from .compare import Comparison, compare, kind_of
from .conditioning import Rounding
from .modules import match
from .report import ModuleRow
from .runners.runs import CallRecord, Run
from .sides import Sides

_SMALL = (1e-4, 1e-2)
"""Least and largest factor for the inputs of a normalisation, to bring their variance near its epsilon."""

_LEAST_SPREAD = 1e-3
"""Spread below which such inputs are not brought: their squares would be no numbers in float16."""


def drive(
    bending: Bending,
    rows: Sequence[ModuleRow],
    sides: Sides,
    runs: tuple[Run, Run],
    rounding: Rounding,
) -> list[ModuleRow]:
    """Return rows that include the innermost modules around unseen regions, compared on amplified inputs.

    A module is driven only if it agrees alone on the recorded inputs, because its values are known to pair
    then.

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
        for factor, inputs, regions in bending.amplify(row.call, numbers, record):
            given = CallRecord(record.class_name, inputs, record.outputs)
            worst = _compare_call(sides, row.call, given, pairs, rounding)
            if worst is None or (worst.passed and worst.unproven):
                bending.restore(regions)
            elif not worst.passed:
                found[row.call] = _make_failed_row(row, worst, f"x{factor:g}")
                break
    return [found[row.call] for row in rows]


def sharpen(
    rows: Sequence[ModuleRow], sides: Sides, runs: tuple[Run, Run], rounding: Rounding
) -> list[ModuleRow]:
    """Return rows that include modules compared alone on inputs that show what usual ones hide.

    Positive inputs hide the slope of a leaky activation, and a variance of 1 hides the epsilon of a
    normalisation.

    Args:
        rows: the comparison's.
        sides: both sides, right after `runs`.
        runs: what source and target recorded.
        rounding: what rounding does in the source's run.
    """
    found = {row.call: row for row in rows}
    names, done = sides.graph.modules.call_names(), set[tuple[str, str]]()
    for node in sides.graph.operators():
        sharp = _find_sharper_inputs(node)
        row = None if sharp is None or node.call is None else _innermost(sides, found, names[node.call])
        pairs = None if row is None else _pairs(runs, row.call)
        if sharp is None or row is None or pairs is None or (row.call, sharp[0]) in done:
            continue
        words, change = sharp
        done.add((row.call, words))
        record = runs[0].calls[row.call]
        inputs = [change(array) if kind_of(array) == "f" else array for array in record.inputs]
        given = CallRecord(record.class_name, inputs, record.outputs)
        worst = _compare_call(sides, row.call, given, pairs, rounding)
        if worst is not None and not worst.passed:
            found[row.call] = _make_failed_row(row, worst, words)
    return [found[row.call] for row in rows]


def _find_sharper_inputs(node: Operator) -> tuple[str, Callable[[np.ndarray], np.ndarray]] | None:
    """Return (words, function) for inputs that show more of an operator than usual ones; None without."""
    traits = node.traits
    if traits.activation and traits.bends == (0.0,) and node.qualified_name != "Relu":
        return "made negative", lambda array: -np.abs(array)
    if traits.normalisation and not traits.trains_differently:
        epsilon = node.attribute("epsilon") if "epsilon" in node.signature.attributes else None
        return "made small", partial(_make_small, float(cast("float", epsilon or 0.0)))
    return None


def _make_small(epsilon: float, array: np.ndarray) -> np.ndarray:
    """Return an array whose spread is ten times the root of epsilon, as far as the bounds allow."""
    with np.errstate(all="ignore"):
        spread = float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0
    least, largest = _SMALL
    wanted = max(10 * epsilon**0.5, _LEAST_SPREAD) / spread if 0 < spread < np.inf else largest
    return multiply_floats(array, min(max(wanted, least), largest))


def _innermost(sides: Sides, rows: Mapping[str, ModuleRow], call: str) -> ModuleRow | None:
    """Return the row of the innermost call, from this one outwards, that agrees alone."""
    return next((rows[c] for c in _around(sides.graph.modules, call) if _is_drivable(rows.get(c))), None)


def _pairs(runs: tuple[Run, Run], call: str) -> tuple[list[int], list[int]] | None:
    """Return the indices of the source's inputs and outputs of a call that the target has; None without."""
    record, other = runs[0].calls[call], runs[1].calls[call]
    entering = match(other.inputs, record.inputs) if other.inputs else []
    leaving = match(other.outputs, record.outputs)
    return None if not entering or leaving is None else (entering, leaving)


def _make_failed_row(row: ModuleRow, worst: Comparison, words: str) -> ModuleRow:
    """Return the row of a module that is wrong alone on its own inputs, changed as `words` say."""
    return replace(
        row,
        passed=False,
        isolated_passed=False,
        isolated_max_abs=worst.max_abs,
        tolerance=worst.tolerance,
        driven=True,
        reason=f"alone, on the source's own inputs {words}: {worst.reason}",
    )


def _is_drivable(row: ModuleRow | None) -> bool:
    return row is not None and row.isolated_passed is True


def _around(tree: ModuleTree, call: str) -> list[str]:
    """Return the names of a call and of the calls around it, the innermost first."""
    names = tree.call_names()
    key = next((key for key, name in names.items() if name == call), None)
    return [names[each] for each in tree.ancestors(key)]


def _compare_call(
    sides: Sides,
    call: str,
    record: CallRecord,
    pairs: tuple[Sequence[int], Sequence[int]],
    rounding: Rounding,
) -> Comparison | None:
    """Return the worst comparison of a call's outputs on other inputs; None if the source refuses them."""
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
