"""Compares module calls: at their boundaries in the whole model, and each alone on recorded inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..ir import ModelError, ModuleTree
from .compare import Comparison, Yardstick, compare, distance, kind_of
from .conditioning import Rounding
from .report import ModuleRow
from .rounded_values import RoundedValues
from .runners.runs import CallRecord, Run, Runner

_AT = " at its boundary"
_LEAVES = "other values leave it in the target, with which what comes behind it is right"


@dataclass(frozen=True, slots=True)
class _Finding:
    """The result of comparing one call.

    Attributes:
        row: its boundary compared; `passed` is None where it could not be.
        record: its values in the source.
        found: its values in the target; None where there are none to compare.
        pairs: index of the source's output for each of the target's.
        chosen: index of the source's input for each of the target's; None if they are not the source's.
        alone: the target's module alone on the source's inputs; None where it was not run.
        why: why it was not.
    """

    row: ModuleRow
    record: CallRecord
    found: CallRecord | None = None
    pairs: tuple[int, ...] = ()
    chosen: tuple[int, ...] | None = None
    alone: Comparison | None = None
    why: str = ""


class ModuleComparison:
    """The comparison of all module calls of one run.

    Outputs decide whether two models are equal. A module run alone on the source's inputs shows *where* they
    differ, and shows faults that no output shows: behind a gamma of zeros, for instance. That counts only if
    the values that enter and leave the module are the same in the target. A pass may have changed them: a
    transpose or a normalisation may be done in the next module instead.

    Args:
        tree: the source's module tree.
        inputs: inputs of the run.
        source: the source's run.
        target: the target's run.
        runners: the source's and the target's.
        rounding: what rounding does in the source's run.
        alone: whether modules run alone too, or are compared at their boundaries only.
    """

    def __init__(
        self,
        tree: ModuleTree,
        inputs: Mapping[str, np.ndarray],
        runs: tuple[Run, Run],
        runners: tuple[Runner, Runner],
        rounding: Rounding,
        *,
        alone: bool = True,
    ) -> None:
        self._alone = alone
        self._tree, self._inputs, self._rounding = tree, inputs, rounding
        self._source, self._target = runs
        self._source_runner, self._runner = runners
        self._around = set(self._parents().values())  # calls that hold others
        self._rounded = RoundedValues(self._source, self._source_runner, inputs)
        self._counts = [Counter(map(_path, run.calls)) for run in runs]

    def rows(self, *, agree: bool) -> list[ModuleRow]:
        """Return one row per call of the source, except the root's, in call order."""
        findings: dict[str, _Finding] = {}
        for name, record in self._source.calls.items():
            if _path(name):
                findings[name] = self._finding(name, record)
                self._source.release()
                self._target.release()
        parents, wrong = self._parents(), set[str]()
        rows: dict[str, ModuleRow] = {}
        for name in reversed(findings):  # what a module calls stands behind it, and is judged first
            finding = findings[name]
            doubt = ""
            if finding.alone is not None and not finding.alone.passed and name not in wrong:
                doubt = self._doubt(finding, findings, agree=agree)
            rows[name] = _judge(finding, doubt, agree=agree)
            if rows[name].isolated_passed is False and name in parents:
                wrong.add(parents[name])
        if agree:
            self._settle_rounded(findings, rows)
        while not agree:  # the first to be named is looked at as closely as where outputs agree
            name = self.culprit([rows[name] for name in findings])
            if name is None or rows[name].isolated_passed is not False:
                break
            if self._takes(findings[name], findings):
                break
            rows[name] = _judge(findings[name], _LEAVES, agree=False)
        return [rows[name] for name in findings]

    def _parents(self) -> dict[str, str]:
        names = self._tree.call_names()
        return {names[c.key]: names[c.parent] for c in self._tree.calls() if c.parent is not None}

    def _finding(self, name: str, record: CallRecord) -> _Finding:
        """Compare one call at its boundary, and alone."""
        row = ModuleRow(name, record.class_name)
        if not self._target.calls:
            row = replace(row, reason="the target does not record where its modules begin and end")
            return _Finding(row, record)
        own, other = (counts[_path(name)] for counts in self._counts)
        if own != other or name not in self._target.calls:
            times = f"called {own} times in the source, {other} times in the target"
            reason = times if other else "no module of that name computes anything in the target"
            return _Finding(replace(row, reason=reason), record)
        found = self._target.calls[name]
        pairs = match(found.outputs, record.outputs)
        if pairs is None:
            if len(found.outputs) == len(record.outputs) == 1:
                pairs = [0]  # one against one, of different shape or element type: that is the fault
            else:
                shapes = ", ".join(str(list(a.shape)) for a in found.outputs) or "none"
                reason = f"its values in the target ({shapes}) match none of its outputs"
                return _Finding(replace(row, reason=reason), record)
        worst = self._worst(record.outputs, found.outputs, pairs, partial(self._rounding.boundary, name))
        row = replace(
            row,
            max_abs=worst.max_abs,
            max_rel=worst.max_rel,
            tolerance=worst.tolerance,
            passed=worst.passed,
            noise=worst.noise,
            unproven=worst.unproven,
            reason=worst.reason,
        )
        finding = _Finding(row, record, found, tuple(pairs))
        return self._run_isolated(finding) if self._alone else finding

    def _run_isolated(self, finding: _Finding) -> _Finding:
        """Run the target's module alone on what entered the source's."""
        found, record, call = finding.found, finding.record, finding.row.call
        assert found is not None
        if not found.alone:
            return replace(finding, why="a pass has done before it what it begins with")
        chosen = match(found.inputs, record.inputs) if found.inputs else []
        if chosen is None:
            return replace(finding, why="its inputs in the target differ from its inputs in the source")
        try:
            outputs = self._runner.run_module(call, [record.inputs[i] for i in chosen])
        except ModelError as error:
            return replace(finding, why=f"it does not run alone: {error.message}")
        by = self._rounding.alone(call, record)
        worst = self._worst(record.outputs, outputs, finding.pairs, by, call if record.rounded else "")
        return replace(finding, chosen=tuple(chosen), alone=worst)

    def _doubt(self, finding: _Finding, findings: Mapping[str, _Finding], *, agree: bool) -> str:
        """Explain why a module that is wrong alone may still be right; empty if it is wrong."""
        found, record, call = finding.found, finding.record, finding.row.call
        assert found is not None
        for i, array in zip(finding.chosen or (), found.inputs, strict=True):
            if not compare(record.inputs[i], array, self._rounding.entering(call, i)).passed:
                return "other values enter it in the target"
        for side, runner, own in (("source", self._source_runner, record), ("target", self._runner, found)):
            if not _replays(runner, call, own):
                return f"alone it gives not what it gave in the whole {side}"
        given = [record.outputs[i] for i in finding.pairs]
        forms = zip(given, found.outputs, strict=True)
        if any((a.shape, kind_of(a)) != (b.shape, kind_of(b)) for a, b in forms):
            return "other values leave it in the target"
        if record.rounded and self._is_right_inside(call, findings):
            return "its layers are right alone, and rounding within it decides"
        return _LEAVES if agree and not self._takes(finding, findings) else ""

    def _is_right_inside(self, call: str, findings: Mapping[str, _Finding]) -> bool:
        """Whether there are calls in one, and all are right alone."""
        parents = self._parents()
        inside = [finding for name, finding in findings.items() if parents.get(name) == call]
        return bool(inside) and all(f.alone is not None and f.alone.passed for f in inside)

    def _takes(self, finding: _Finding, findings: Mapping[str, _Finding]) -> bool:
        """Whether the target stays right with the source's values of a call in place of its own.

        If something that was right goes wrong by it, the target needs other values there than the source has:
        part of the module's work is done behind it.
        """
        given = [finding.record.outputs[i] for i in finding.pairs]
        try:
            run = self._runner.run_with(self._inputs, {finding.row.call: given})
        except ModelError:
            return False
        outputs = zip(self._source.outputs, self._target.outputs, run.outputs, strict=False)
        for index, ((_, wanted), (_, before), (_, now)) in enumerate(outputs):
            if _is_worsened(wanted, before, now, self._rounding.output(index)):
                return False
        for name, other in findings.items():
            before, now = other.found, run.calls.get(name)
            if before is None or now is None or len(now.outputs) != len(before.outputs):
                continue
            for i, a, b in zip(other.pairs, before.outputs, now.outputs, strict=True):
                if _is_worsened(other.record.outputs[i], a, b, self._rounding.boundary(name, i)):
                    return False
            for i, a, b in zip(other.chosen or (), before.inputs, now.inputs, strict=False):
                if _is_worsened(other.record.inputs[i], a, b, self._rounding.entering(name, i)):
                    return False
        return True

    def _settle_rounded(self, findings: Mapping[str, _Finding], rows: dict[str, ModuleRow]) -> None:
        """Judge the edges of a quantised model that differ though all outputs agree.

        Coarse outputs hide a fault before them, and layers spread what rounding decides. Where every call
        gives the source's own values, what enters each is right if the code between the calls is; and a call
        is right if it makes of the source's values what the source makes of them.

        Args:
            findings: call -> what was found.
            rows: call -> its row, which may change.
        """
        calls = self._source.calls
        left = [name for name, row in rows.items() if row.passed is None and findings[name].alone is not None]
        if not left or not any(record.rounded for record in calls.values()):
            return
        given = {name: [f.record.outputs[i] for i in f.pairs] for name, f in findings.items() if _fits(f)}
        try:
            run = self._runner.run_with(self._inputs, given)
        except ModelError:
            return
        wrong = {name: off for name, f in findings.items() if (off := self._entering(f, run.calls.get(name)))}
        for name, off in wrong.items():
            reason = f"entered by other values, though all calls before it give the source's own: {off}"
            rows[name] = replace(rows[name], passed=False, reason=reason)
        if wrong or not self._ends_right(run):
            return
        for name in left:
            finding, alone = findings[name], findings[name].alone
            off = rows[name].reason.partition(_AT)[0]
            reason = f"{off} at its boundary; alone, and behind the source's own values, it is right"
            if alone is not None and not alone.passed and name in self._around:
                alone = self._without_calls_inside(finding, given)
                reason = f"{off} at its boundary; behind the source's own values of its calls, it is right"
            if alone is not None and alone.passed:
                rows[name] = replace(rows[name], passed=True, reason=reason)
            elif alone is not None:
                rows[name] = _judge(replace(finding, alone=alone), "", agree=True)

    def _ends_right(self, run: Run) -> bool:
        """Whether the model's outputs are right where all calls give the source's values."""
        outputs = zip(self._source.outputs, run.outputs, strict=False)
        return all(
            compare(a, b, self._rounding.output(i)).passed for i, ((_, a), (_, b)) in enumerate(outputs)
        )

    def _without_calls_inside(
        self, finding: _Finding, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Comparison | None:
        """Compare the code of a call around others, where all of these give the source's values."""
        call, parents = finding.row.call, self._parents()
        around = {call}
        while call in parents:
            call = parents[call]
            around.add(call)
        others = {name: values for name, values in given.items() if name not in around}
        try:
            found = self._runner.run_with(self._inputs, others).calls.get(finding.row.call)
        except ModelError:
            return None
        if found is None or len(found.outputs) != len(finding.pairs):
            return None
        record, by = finding.record, self._rounding.alone(finding.row.call, finding.record)
        return self._worst(record.outputs, found.outputs, finding.pairs, by, finding.row.call, spreads=False)

    def _entering(self, finding: _Finding, found: CallRecord | None) -> str:
        """Explain how what enters a call is more than a step off; empty if it is not."""
        record, call = finding.record, finding.row.call
        for i, array in zip(finding.chosen or (), () if found is None else found.inputs, strict=False):
            by = self._rounding.entering(call, i)
            if record.entered_rounded and record.entered_rounded[i]:
                close = self._rounded.compare(call, "inputs", i, array, by)
            else:
                close = compare(record.inputs[i], array, by)
            if not close.passed:
                return close.reason
        return ""

    def _worst(
        self,
        source: Sequence[np.ndarray],
        target: Sequence[np.ndarray],
        pairs: Sequence[int],
        by: Callable[[int], Yardstick],
        call: str = "",
        *,
        spreads: bool = True,
    ) -> Comparison:
        """Return the comparison that is furthest beyond its tolerance.

        Args:
            source: the source's arrays.
            target: the target's.
            pairs: the index of the source's array for each of the target's.
            by: index -> what is allowed.
            call: the call whose outputs they are, where some were rounded.
            spreads: whether calls inside it may have rounded to the other side.
        """
        rounded = self._source.calls[call].rounded if call else ()
        spreads = spreads and call in self._around
        found = [
            compare(source[i], array, by(i))
            if not rounded or not rounded[i]
            else self._rounded.compare(call, "outputs", i, array, by(i), spreads=spreads)
            for i, array in zip(pairs, target, strict=True)
        ]
        worst = max(found, key=lambda c: (not c.passed, np.nan_to_num(c.max_rel, nan=np.inf)))
        return replace(worst, unproven=next((c.unproven for c in found if c.unproven), ""))

    def culprit(self, rows: Sequence[ModuleRow]) -> str | None:
        """Return the call in which the target first goes wrong.

        That is the first call whose isolated run diverges, or the first such call inside it, and so on. If no
        isolated run diverges, it is the first call whose boundary does.
        """
        wrong = {row.call for row in rows if row.isolated_passed is False}
        parents = self._parents()

        def around(call: str) -> Iterator[str]:
            while call in parents:
                call = parents[call]
                yield call

        current = next((row.call for row in rows if row.call in wrong), None)
        while current is not None:
            deeper = next((r.call for r in rows if r.call in wrong and current in around(r.call)), None)
            if deeper is None:
                return current
            current = deeper
        failing = [row.call for row in rows if row.passed is False]
        inner = [call for call in failing if not any(parents.get(other) == call for other in failing)]
        return next(iter(inner), None)


def _judge(finding: _Finding, doubt: str, *, agree: bool) -> ModuleRow:
    """Return the row of a call, from what is known of it and what that proves."""
    row, alone = finding.row, finding.alone
    if row.passed is None:
        return row
    doubt = doubt or finding.why
    if alone is not None and (alone.passed or not doubt):
        row = replace(
            row,
            isolated_max_abs=alone.max_abs,
            isolated_passed=alone.passed,
            isolated_tolerance=alone.tolerance,
            isolated_unproven=alone.unproven,
        )
        if not alone.passed:
            return replace(row, passed=False, reason=f"alone, on the source's own inputs: {alone.reason}")
    if row.passed:
        return replace(row, reason=f"not run alone: {doubt}") if doubt and not row.reason else row
    if agree:
        right = "alone it is right" if alone is not None and alone.passed else doubt
        return replace(
            row, passed=None, reason=f"{row.reason} at its boundary, and no output shows it; {right}"
        )
    return replace(row, reason=f"at its boundary: {row.reason}")


def _fits(finding: _Finding) -> bool:
    """Whether the source's values can stand in the place of what a call gives in the target."""
    found = () if finding.found is None else finding.found.outputs
    given = [finding.record.outputs[i] for i in finding.pairs]
    return bool(given) and all(
        (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(given, found, strict=True)
    )


def _is_worsened(wanted: np.ndarray, before: np.ndarray, now: np.ndarray, by: Yardstick) -> bool:
    """Whether a value of the target was within its bound before and is not now."""
    return not compare(wanted, now, by).passed and compare(wanted, before, by).passed


def _replays(runner: Runner, call: str, record: CallRecord) -> bool:
    """Whether a module run alone returns what it returned in the whole run."""
    try:
        again = runner.run_module(call, record.inputs)
    except (ModelError, KeyError):
        return False
    return len(again) == len(record.outputs) and all(
        compare(a, b).passed for a, b in zip(record.outputs, again, strict=True)
    )


def match(wanted: Sequence[np.ndarray], offered: Sequence[np.ndarray]) -> list[int] | None:
    """Return, for every array of one side, the index of its counterpart on the other; None without one.

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
