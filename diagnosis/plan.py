"""Which edits solve which findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..editing import Edit
from ..frontends.mindspore_cell.registration import registrations
from ..passes import Change
from .findings.plain_list import CONTAINERS
from .subject import Subject


def plan_edits(subject: Subject, found: Sequence[Change]) -> list[Edit]:
    """Return the edits that solve findings in the subject's own file; others are left to the user."""
    never = {path for change in found if change.code == "SI101" for path in change.modules}
    edits: list[Edit] = []
    for change in found:
        if change.code in ("FC101", "FC102") and _is_in(subject, change.place):
            names = ("forward", "construct") if change.code == "FC101" else ("construct", "forward")
            edits.append(Edit("rename", _line(change.place), *names))
        elif change.code in ("RP101", "DU104", "SI101", "NC101"):
            edits += _registrations(subject, change, never)
        elif change.code in ("PL101", "PL102") and _is_in(subject, change.place):
            edits += _lists(subject, change)
    return list(dict.fromkeys(edits))


def _registrations(subject: Subject, change: Change, never: set[str]) -> Iterator[Edit]:
    parts = dict(subject.parts())
    for module in change.modules:
        path, _, name = module.rpartition(".")
        how = registrations(parts.get(path)).get(name)
        own = how is not None and subject.file is not None and Path(how.file) == subject.file.resolve()
        if how is not None and own and how.method == "insert_child_to_cell":
            yield Edit("append" if module in never else "assign", how.line)


def _lists(subject: Subject, change: Change) -> Iterator[Edit]:
    path, _, attribute = change.modules[0].rpartition(".")
    value = vars(dict(subject.parts())[path]).get(attribute)
    is_dict = isinstance(value, dict)
    container = CONTAINERS.get((subject.framework, change.code, is_dict))
    if (is_dict and subject.framework == "mindspore") or type(value) not in (list, tuple, dict):
        container = None  # a CellDict takes fewer keys, and a kind of its own does more than hold
    package = f"{subject.framework}.nn"
    space = vars(subject.module) if subject.module is not None else {}
    alias = next((n for n, v in space.items() if getattr(v, "__name__", "") == package), None)
    if container is not None and alias is not None:
        yield Edit("wrap", _line(change.place), attribute, f"{alias}.{container}")


def _is_in(subject: Subject, place: str) -> bool:
    return subject.file is not None and place.rpartition(":")[0] == subject.file.name


def _line(place: str) -> int:
    return int(place.rpartition(":")[2])
