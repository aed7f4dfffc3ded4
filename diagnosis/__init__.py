"""Diagnosis: what is wrong with a model as its user wrote it: causes, their lines, and what to write."""

from __future__ import annotations

from .advice import advised, folded
from .diagnosing import cannot_run, diagnose, ordered
from .files import ModelName, names_in
from .findings import CODES
from .findings.unlike_reference import unlike
from .live_names import unique_names
from .plan import planned
from .subject import Subject

__all__ = [
    "CODES",
    "ModelName",
    "Subject",
    "advised",
    "cannot_run",
    "diagnose",
    "folded",
    "names_in",
    "ordered",
    "planned",
    "unique_names",
    "unlike",
]
