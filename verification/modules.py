"""Compares module calls: at their boundaries in the whole model, and each alone on recorded inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..ir import ModelError, ModuleTree
from .compare import Comparison, Yardstick, compare, distance, kind_of
from .conditioning import Rounding
from .report import ModuleRow
from .runners.runs import CallRecord, Run, Runner

_MOVED = 1e-3
"""Inputs of a module that are this far apart, relative to the largest element, are not the same rounded."""


class ModuleComparison:
    """The comparison of all module calls of one run.

    Args:
        tree: the source's module tree.
        source: the source's run.
        target: the target's run.
        runner: the target's runner.
        rounding: what rounding does in the source's run.
    """

    def __init__(
        self, tree: ModuleTree, source: Run, target: Run, runner: Runner, rounding: Rounding
    ) -> None:
        self._tree, self._source, self._target = tree, source, target
        self._runner, self._rounding = runner, rounding
        self._runs = [source, target]
        self._counts = [Counter(map(_path, run.calls)) for run in (source, target)]

    def rows(self) -> list[ModuleRow]:
        """One row per call of the source but the root's own, in call order."""
        rows: list[ModuleRow] = []
        for name, record in self._source.calls.items():
            if _path(name):
                rows.append(self._row(name, record))
                for run in self._runs:
                    run.release()
        return rows

    def _row(self, name: str, record: CallRecord) -> ModuleRow:
        row = ModuleRow(name, record.class_name)
        if not self._target.calls:
            return replace(row, reason="the target does not say where its modules begin and end")
        own, other = (counts[_path(name)] for counts in self._counts)
        if not other:
            return replace(row, reason="no module of that name computes anything in the target")
        if own != other:
            return replace(row, reason=f"called {own} times in the source, {other} times in the target")
        found = self._target.calls[name]
        pairs = match(found.outputs, record.outputs)
        if pairs is None:
            if len(found.outputs) == len(record.outputs) == 1:
                pairs = [0]  # one against one, of different shape or element type: that is the fault
            else:
                shapes = ", ".join(str(list(a.shape)) for a in found.outputs) or "none"
                return replace(row, reason=f"its values in the target ({shapes}) match none of its outputs")

        worst = self._worst(
            record.outputs, found.outputs, pairs, lambda index: self._rounding.boundary(name, index)
        )
        row = replace(
            row,
            max_abs=worst.max_abs,
            max_rel=worst.max_rel,
            tolerance=worst.tolerance,
            passed=worst.passed,
            noise=worst.noise,
            unproven=worst.unproven,
        )
        row = replace(row, reason=worst.reason if worst.passed else f"at its boundary: {worst.reason}")
        return self._isolate(row, record, found, pairs)

    def _isolate(self, row: ModuleRow, record: CallRecord, found: CallRecord, pairs: list[int]) -> ModuleRow:
        """Run the target's module alone on what entered the source's."""
        chosen = match(found.inputs, record.inputs) if found.inputs else []
        if chosen is None:
            return row
        try:
            outputs = self._runner.run_module(row.call, [record.inputs[i] for i in chosen])
        except ModelError as error:
            return replace(row, passed=False, isolated_passed=False, reason=f"alone: {error.message}")
        worst = self._worst(record.outputs, outputs, pairs, self._rounding.alone(row.call, record))
        if not worst.passed and row.passed and chosen and self._moved(record, found, chosen):
            # a layer that another module holds too may be called before the target's module, not in it
            return replace(row, reason="not run alone: other values enter it in the target")
        row = replace(
            row,
            isolated_max_abs=worst.max_abs,
            isolated_passed=worst.passed,
            isolated_tolerance=worst.tolerance,
            isolated_unproven=worst.unproven,
        )
        if worst.passed:
            return row
        return replace(row, passed=False, reason=f"alone, on the source's own inputs: {worst.reason}")

    def _moved(self, record: CallRecord, found: CallRecord, chosen: list[int]) -> bool:
        """Whether what entered the target's module is not what entered the source's."""
        pairs = [(record.inputs[i], array) for i, array in zip(chosen, found.inputs, strict=True)]
        return any(distance(a, b) > _MOVED * np.abs(a).max(initial=0.0) for a, b in pairs)

    def _worst(
        self,
        source: Sequence[np.ndarray],
        target: Sequence[np.ndarray],
        pairs: Sequence[int],
        by: Callable[[int], Yardstick],
    ) -> Comparison:
        """The comparison that is furthest beyond its tolerance."""
        found = [compare(source[i], array, by(i)) for i, array in zip(pairs, target, strict=True)]
        worst = max(found, key=lambda c: (not c.passed, np.nan_to_num(c.max_rel, nan=np.inf)))
        return replace(worst, unproven=next((c.unproven for c in found if c.unproven), ""))

    def culprit(self, rows: Sequence[ModuleRow]) -> str | None:
        """The call in which the target first goes wrong.

        That is the first call whose isolated run diverges, followed down into the first of the calls made in
        it that does so too; where no isolated run diverges, the first call whose boundary does.
        """
        wrong = {row.call for row in rows if row.isolated_passed is False}
        names = self._tree.call_names()
        parents = {
            names[c.key]: names[c.parent] if c.parent is not None else None for c in self._tree.calls()
        }
        current = next((row.call for row in rows if row.call in wrong), None)
        while current is not None:
            deeper = next((r.call for r in rows if r.call in wrong and parents.get(r.call) == current), None)
            if deeper is None:
                return current
            current = deeper
        failing = [row.call for row in rows if row.passed is False]
        inner = [call for call in failing if not any(parents.get(other) == call for other in failing)]
        return next(iter(inner), None)


def match(wanted: Sequence[np.ndarray], offered: Sequence[np.ndarray]) -> list[int] | None:
    """For every array of one side the index of its counterpart on the other, or None.

    Arrays pair up by shape and kind of element; where several have one shape, the closest in value wins. None
    when there is nothing to pair or an array has no counterpart.
    """
    if not wanted or len(wanted) > len(offered):
        return None
    free = set(range(len(offered)))
    out: list[int] = []
    for array in wanted:
        form = array.shape, kind_of(array)
        fitting = [i for i in sorted(free) if (offered[i].shape, kind_of(offered[i])) == form]
        if not fitting:
            return None
        best = fitting[0] if len(fitting) == 1 else min(fitting, key=lambda i: distance(offered[i], array))
        free.discard(best)
        out.append(best)
    return out


def _path(call: str) -> str:
    return call.rpartition("#")[0]
