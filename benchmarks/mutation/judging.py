"""What becomes of one mutant: caught, survived, invalid, faint or equivalent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ...ir import ModelError, RegraftError
from ...verification import Report
from ...verification.runners.runs import Run
from ...verification.runners.select_runner import target_runner
from .equivalents import equivalence
from .mutants import Mutant, NotApplicableError, Target
from .samples import BATCH, VARIATIONS, Sample, varied

_UNITS = 4 * 2.0**-23
"""What a float32 output moves by when the runtime merely adds in another order."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mutant's row.

    Attributes:
        net: the net's label.
        target: the target's name.
        kind: of the fault.
        place: of the fault.
        verdict: "caught", "survived"; "invalid": the target does not load or run, which is an error of its
            own; "faint": it moves no value by more than the two runtimes' rounding does; "equivalent": listed
            by hand as the same function.
        why: the row that caught it, the error, or the reason for which it is equivalent.
        effect: of a survivor: largest difference from the right target, relative; None where not measured.
        at: of a survivor: inputs on which that was.
        noise: how far the right target is from the source, relative.
    """

    net: str
    target: str
    kind: str
    place: str
    verdict: str
    why: str = ""
    effect: float | None = None
    at: str = ""
    noise: float = 0.0

    @property
    def key(self) -> str:
        """What tells the mutant from all others."""
        return f"{self.net} | {self.target} | {self.kind} | {self.place}"

    def to_json(self) -> dict[str, object]:
        """The row as plain data."""
        return asdict(self)


class Judge:
    """Judges the mutants of one target of one net."""

    def __init__(self, sample: Sample, target: str, scratch: Path) -> None:
        self._sample, self._target, self._scratch = sample, target, scratch
        report = sample.verified(target, sample.written(target))
        if not report.passed:
            raise AssertionError(
                f"the right {target} of {sample.label} is called wrong:\n{report.render(brief=True)}"
            )
        self._noise = max((_finite(row.max_rel) for row in report.outputs), default=0.0)

    def outcome(self, mutant: Mutant) -> Outcome | None:
        """Plant the fault and verify; None where it cannot be planted."""
        row = Outcome(self._sample.label, self._target, mutant.kind, mutant.place, "", noise=self._noise)
        try:
            target = mutant.build(self._scratch)
        except NotApplicableError:
            return None
        except RegraftError as error:  # a symbol that cannot be read any more
            return _with(row, "invalid", f"{error.code} {error.message}")
        can_train = self._sample.trains and self._target == "mindspore"
        if mutant.train and not can_train:
            return None
        train = mutant.train
        try:
            report = self._sample.verified(self._target, target, train=train)
            if report.passed and can_train and not train:  # what only a training step shows
                report, train = self._sample.verified(self._target, target, train=True), True
        except RegraftError as error:
            return _with(row, "invalid", f"{error.code} {error.message}")
        except Exception as error:  # an internal error is told too, and is a fault of the verifier's
            return _with(row, "crashed", f"{type(error).__name__}: {error}")
        if not report.passed:
            return _with(row, "caught", _catcher(report))
        reason = equivalence(row.key)
        if reason:
            return _with(row, "equivalent", reason)
        if mutant.train:
            return _with(row, "survived", report.summary())
        return self._probed(row, target)

    def _probed(self, row: Outcome, target: Target) -> Outcome:
        """A survivor with how far it is from the right target on inputs of every sort."""
        effect, at = 0.0, ""
        for case, right, wrong in self._runs(target):
            for found, name in _distances(right, wrong):
                if found > effect:
                    effect, at = found, f"{case}, {name}"
        allowed = max(self._noise, _UNITS)
        verdict = "faint" if 0 < effect <= allowed else "survived"
        return Outcome(row.net, row.target, row.kind, row.place, verdict, "", effect, at, row.noise)

    def _runs(self, target: Target) -> Iterator[tuple[str, Run, Run]]:
        runners = [target_runner(self._sample.written(self._target)), target_runner(target)]
        names = [node.name for node in self._sample.graph.input_nodes()]
        try:
            for batch in self._sample.batches:
                for variation in VARIATIONS if batch == BATCH else ("as it is",):
                    arrays = varied(self._sample.inputs(batch), variation)
                    given = dict(zip(names, arrays, strict=True))
                    try:
                        right, wrong = (runner.run(given) for runner in runners)
                    except ModelError:
                        continue
                    yield f"inputs {variation}, batch {batch}", right, wrong
        finally:
            for runner in runners:
                runner.close()


def _with(row: Outcome, verdict: str, why: str) -> Outcome:
    text = " ".join(why.split())[:200]
    return Outcome(row.net, row.target, row.kind, row.place, verdict, text, None, "", row.noise)


def _distances(right: Run, wrong: Run) -> Iterator[tuple[float, str]]:
    pairs = [
        (a, b, f"output {name}") for (name, a), (_, b) in zip(right.outputs, wrong.outputs, strict=False)
    ]
    for call in right.calls.keys() & wrong.calls.keys():
        both = zip(right.calls[call].outputs, wrong.calls[call].outputs, strict=False)
        pairs += [(a, b, f"module {call}") for a, b in both]
    for a, b, name in pairs:
        if a.shape != b.shape or a.dtype != b.dtype:
            yield math.inf, name
        elif a.size and a.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                gap, scale = np.abs(a - b), np.abs(a)
            gap = np.where(np.isnan(a) & np.isnan(b) | (a == b), 0, gap)
            scale = float(np.nanmax(np.where(np.isfinite(scale), scale, 0), initial=0))
            worst = float(np.where(np.isnan(gap), np.inf, gap).max(initial=0))
            yield (worst / scale if scale else (math.inf if worst else 0.0)), name
        elif not np.array_equal(a, b):
            yield math.inf, name


def _catcher(report: Report) -> str:
    """The first row that failed."""
    for row in report.outputs:
        if not row.passed:
            return f"output {row.name} at {row.case}: {row.reason}"
    for module in report.modules:
        if module.passed is False:
            return f"module {module.call}: {module.reason}"
    for trained in report.training:
        if trained.passed is False:
            return f"training {trained.parameter}: {trained.reason}"
    return report.summary()


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
