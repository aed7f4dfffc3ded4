"""Reports an exception that the file raised after the model, and the finding that explains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...passes import Change
from ..subject import Subject

CODES = {
    "RF101": "the model's file raises after the model's definition; the model is checked as it was at "
    "that point"
}

EXPLAINS: dict[str, Callable[[str], bool]] = {
    "RP101": lambda text: "already exists" in text or "same name" in text,
    "DU104": lambda text: "already exists" in text or "same name" in text,
    "FC101": lambda text: "construct" in text or "NotImplementedError" in text,
    "FC102": lambda text: "forward" in text or "NotImplementedError" in text,
    "PL101": lambda text: "empty" in text,
    "PL102": lambda text: "empty" in text,
}
"""Code of a finding -> whether what was raised is a symptom of it."""


def cause_of(subject: Subject, found: Sequence[Change]) -> Change | None:
    """Return the finding that explains what the file raised."""
    text = "" if subject.raised is None else subject.raised.message
    return next((c for c in found if c.code in EXPLAINS and EXPLAINS[c.code](text)), None)


def find(subject: Subject, found: Sequence[Change]) -> list[Change]:
    """Return the finding for what was raised, a note where another finding explains it."""
    if subject.raised is None:
        return []
    text, cause = subject.raised.message, cause_of(subject, found)
    said = text.removeprefix("the model's code raised ")
    if cause is not None:
        message = f"symptom of {cause.code}: the file raises {said}"
    else:
        message = (
            f"the file raises after the definition of `{subject.name}`, which is checked as it was at that "
            f"point; no finding explains it: {said}"
        )
    return [
        Change(
            "RF101",
            message,
            place=subject.raised.place,
            severity="note" if cause is not None else "error",
            fixed=False,
        )
    ]
