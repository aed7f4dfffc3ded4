"""Looking for every finding of the table in one model."""

from __future__ import annotations

from collections.abc import Sequence

from ..passes import Change
from .findings import FINDINGS, raises_below
from .subject import Subject, live_parts

BLOCKING = ("FC101", "FC102")
"""Findings with which the model cannot run: its symptoms are not looked for."""


def diagnose(subject: Subject) -> list[Change]:
    """Every finding about a live model and the file that made it; none for one that was read as data."""
    if subject.framework not in ("mindspore", "torch") or not hasattr(subject.model, "__dict__"):
        return []
    if not {"_cells", "_modules"} & set(vars(subject.model)):  # an ExportedProgram has neither
        return []
    return [change for _, find in FINDINGS for change in find(subject)]


def ordered(subject: Subject, found: Sequence[Change]) -> list[Change]:
    """The findings, the worst first: what explains that the file raises, what it raises, then the others."""
    rank = {"error": 0, "warning": 1, "note": 2}
    told = raises_below.find(subject, found)
    cause = raises_below.cause_of(subject, found)
    others = sorted((c for c in found if c is not cause), key=lambda c: rank[c.severity])
    return [*([] if cause is None else [cause]), *told, *others]


def cannot_run(subject: Subject, found: Sequence[Change]) -> str:
    """The code of the finding with which a part of the model cannot run; empty where none is known."""
    classes = {type(part).__name__ for _, part in live_parts(subject.model)}
    for change in found:
        if change.code in BLOCKING and change.message.split("`")[1] in classes:
            return change.code
    return ""
