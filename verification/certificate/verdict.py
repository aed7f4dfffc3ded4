"""Settles by a certificate what a comparison of numbers leaves open, and says how far that goes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...ir import Graph, RegraftError
from ...ir.validation import verifies_each
from ..report import ModuleRow, OutputRow, Report
from .making import certify_graphs
from .recheck import CertificateError, Unsupported

_MORE = 4
"""Multiple of a tolerance that was measured up to which a difference is one of rounding, where the two are
certified to be equal; faults of the readers, which no certificate shows, are rarely that small."""


_by_default: ContextVar[bool] = ContextVar("certifies_by_default", default=True)


def certifies_by_default() -> bool:
    """Whether verdicts use a certificate where nobody says whether they should."""
    return _by_default.get()


def certify_by_default(*, on: bool) -> Token[bool]:
    """Set `certifies_by_default` in this context."""
    return _by_default.set(on)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The result of a certificate that was made for a verdict.

    Attributes:
        grade: of the whole, as `recheck.GRADES` has them.
        why: what the grade rests on, or why there is no better one.
        constants: number of rounded constants.
        units: the most units in the last place by which one of them differs from its expression.
        axioms: the identities that were used, by name.
        seconds: of processor time that it took.
    """

    grade: str
    why: list[str]
    constants: int
    units: float
    axioms: list[str]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the target as read back equals the source as read."""
        return self.grade in ("identical", "algebraic", "folded", "axioms")

    def describe(self) -> str:
        """Return how the two are known to be equal, as the first line of a report has it."""
        but: list[str] = []
        if self.constants and self.grade in ("folded", "axioms"):
            but.append(f"{self.constants} rounded constant{'s' if self.constants > 1 else ''}")
        if self.axioms:
            but.append(f"the axiom{'s' if len(self.axioms) > 1 else ''} {', '.join(self.axioms)}")
        return f"exactly as read but for {' and '.join(but)}" if but else "exactly as read"

    def __str__(self) -> str:
        rounded = f", {self.constants} constants within {self.units:.2f} units" if self.constants else ""
        reasons = f": {'; '.join(self.why)}" if self.why and self.grade in ("axioms", "tested") else ""
        return f"{self.grade}{rounded}{reasons}"


def make_certificate(
    source: Graph,
    read_target: Callable[[], Graph | None],
    fold: Callable[[Graph], Graph | None],
    seconds: float,
) -> tuple[Certificate | None, str]:
    """Certify two graphs within some seconds, leaving no files.

    Args:
        source: the source as read.
        read_target: reads the target back; None where that cannot be compared.
        fold: returns a graph after the passes that fold normalisations.
        seconds: of processor time for all of it, as far as the reader ends in time.

    Returns:
        The certificate, None where there is none, and a note for the report, empty for none.
    """
    begin = time.process_time()
    try:
        target = read_target()
        if target is None or time.process_time() - begin > seconds:
            return None, ""
        with TemporaryDirectory(prefix="regraft") as folder:
            path = Path(folder) / "certificate.json"
            found = certify_graphs(source, target, path, folded=fold(source), deadline=begin + seconds).report
    except (RegraftError, CertificateError, Unsupported, TimeoutError, MemoryError, RecursionError):
        return None, ""
    except Exception as error:  # the verdict stands without it
        if verifies_each():
            raise
        at = traceback.extract_tb(error.__traceback__)[-1]
        name, place = type(error).__name__, f"{Path(at.filename).name}:{at.lineno}"
        return (
            None,
            f"the certificate ended by a fault of regraft, please report it: {name} at {place}: {error}",
        )
    took = round(time.process_time() - begin, 3)
    grade, axioms = str(found["grade"]), list(found["axioms"])
    if not found["equal"] and grade not in ("tested", "different"):
        grade = "different"
    return Certificate(grade, list(found["why"]), found["constants"], found["units"], axioms, took), ""


def is_open(report: Report) -> bool:
    """Whether a certificate could settle all that keeps a report from being equal."""
    return not report.passed and _settled(report).passed


def settle(report: Report, certificate: Certificate) -> Report:
    """Return a report with a certificate, and with what that settles.

    It settles that agreement proves nothing, and differences that rounding explains: those between numbers
    that are finite on both sides, beyond a bound that was measured, by no more than a few of it. It settles
    all that keeps the two from being equal, or nothing. Shapes, types, NaN, whole numbers, structure,
    training, settings stay as they were found.
    """
    report = replace(report, certificate=certificate)
    if not certificate.passed or report.passed:
        return report
    settled = _settled(report)
    return settled if settled.passed else report


def _settled(report: Report) -> Report:
    outputs = [_settle_output(row) for row in report.outputs]
    modules = [_settle_module(row) for row in report.modules]
    at = report.first_divergence
    still = any(row.passed is False for row in (*outputs, *modules))
    return replace(
        report,
        outputs=outputs,
        modules=modules,
        first_divergence=at if still else None,
        unproven={},
        unshown=dict(report.unproven),
    )


def _settle_output(row: OutputRow) -> OutputRow:
    rounding = row.noise is not None and _is_beyond(row.max_abs, row.tolerance)
    return replace(row, passed=True, reason=_settled_reason(row)) if not row.passed and rounding else row


def _settle_module(row: ModuleRow) -> ModuleRow:
    if row.passed is not False:
        return row
    alone = (row.isolated_max_abs, row.isolated_tolerance)
    if row.isolated_passed is False:
        within = row.max_abs is None or row.max_abs <= _MORE * (row.tolerance or 0.0)
        rounding = within and _is_beyond(*alone)
    else:
        rounding = row.noise is not None and _is_beyond(row.max_abs, row.tolerance)
    if not rounding:
        return row
    isolated = None if row.isolated_passed is None else True
    return replace(row, passed=True, isolated_passed=isolated, reason=_settled_reason(row))


def _settled_reason(row: OutputRow | ModuleRow) -> str:
    return f"{row.reason}; the certificate settles it"


def _is_beyond(apart: float | None, tolerance: float | None) -> bool:
    """Whether a difference is beyond its tolerance, by no more than rounding can make it."""
    return apart is not None and bool(tolerance) and (tolerance or 0.0) < apart <= _MORE * (tolerance or 0.0)
