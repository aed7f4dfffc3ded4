"""Diagnosis: what is wrong with a model as its user wrote it: causes, their lines, and what to write."""

from __future__ import annotations

from .advice import add_advice, drop_repeated
from .diagnosing import cannot_run, diagnose, sort_findings
from .files import ModelName, names_in
from .findings import CODES as OF_MODELS
from .findings.unlike_reference import unlike
from .live_names import unique_names
from .plan import plan_edits, plan_renewal
from .porting import CODES as OF_PORTS
from .porting import find_traps
from .selecting import Wanted, files_of, find_silenced, lines_of
from .subject import Subject
from .versions import CODES as OF_VERSIONS
from .versions import Use, find_uses, release_of

CODES: dict[str, str] = {**OF_MODELS, **OF_PORTS, **OF_VERSIONS}
"""Code -> what a finding of the diagnosis means, in one line."""

__all__ = [
    "CODES",
    "ModelName",
    "Subject",
    "Use",
    "Wanted",
    "add_advice",
    "cannot_run",
    "diagnose",
    "drop_repeated",
    "files_of",
    "find_silenced",
    "find_traps",
    "find_uses",
    "lines_of",
    "names_in",
    "plan_edits",
    "plan_renewal",
    "release_of",
    "sort_findings",
    "unique_names",
    "unlike",
]
