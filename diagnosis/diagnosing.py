"""Looking for every finding of the table in one model."""

from __future__ import annotations

from collections.abc import Sequence

from ..passes import Change
from .findings import FINDINGS, forward_without_construct, raises_below
from .subject import Subject


def diagnose(subject: Subject) -> list[Change]:
    """Return every finding about a live model and its file; none for a model that was read as data."""
    return [change for _, find in FINDINGS for change in find(subject)] if _is_live(subject) else []


def sort_findings(subject: Subject, found: Sequence[Change]) -> list[Change]:
    """Return the findings, the worst first: the cause of an exception, the exception, then the others."""
    rank = {"error": 0, "warning": 1, "note": 2}
    told = raises_below.find(subject, found)
    cause = raises_below.cause_of(subject, found)
    others = sorted((c for c in found if c is not cause), key=lambda c: rank[c.severity])
    return [*([] if cause is None else [cause]), *told, *others]


def cannot_run(subject: Subject) -> str:
    """Return the code of the finding with which a part of the model cannot run; empty where none is known."""
    return forward_without_construct.code_of_parts(subject) if _is_live(subject) else ""


def _is_live(subject: Subject) -> bool:
    """Whether the model is a live Cell or Module; an ExportedProgram has neither kind of parts."""
    if subject.framework not in ("mindspore", "torch") or not hasattr(subject.model, "__dict__"):
        return False
    return bool({"_cells", "_modules"} & set(vars(subject.model)))
