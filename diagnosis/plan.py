"""Chooses the edits that resolve each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..frontends.mindspore_cell.prefixes import prefix_left_out
from ..frontends.mindspore_cell.registration import registrations
from ..passes import Change
from .editing import Edit
from .findings.plain_list import CONTAINERS
from .subject import Subject
from .versions import find_uses


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
        elif change.code == "PN101" and change.modules and _is_in(subject, change.place):
            edits += _names(change, change.modules[0].rpartition(".")[2], ())
        elif change.code == "PN102" and _is_in(subject, change.place):
            kind = "last" if change.advice.endswith("`__init__`") else "behind"
            edits.append(Edit(kind, _line(change.place), new=change.advice.split("`")[1]))
    return list(dict.fromkeys(edits))


def plan_renewal(
    path: Path, found: Sequence[Change], release: str, *, rerun: bool
) -> tuple[list[Edit], list[tuple[str, str]]]:
    """Return the edits of a file that renew its uses for a release of MindSpore, and the imports they need.

    Args:
        path: the file.
        found: the findings to solve.
        release: the release.
        rerun: whether the edited file is run in this process, which may call `set_device` no second time.
    """
    wanted = {(c.code, c.place, c.message) for c in found}
    uses = [
        use
        for use in find_uses([path], release)
        if (use.change.code, use.change.place, use.change.message) in wanted
        and not (rerun and any(".set_device(" in edit.new for edit in use.edits))
    ]
    edits = dict.fromkeys(edit for use in uses for edit in use.edits)
    return list(edits), list(dict.fromkeys(each for use in uses if use.edits for each in use.imports))


def _registrations(subject: Subject, change: Change, never: set[str]) -> Iterator[Edit]:
    parts = dict(subject.parts())
    for module in change.modules:
        path, _, name = module.rpartition(".")
        left_out = prefix_left_out(parts.get(path)) if change.code in ("RP101", "DU104") else None
        if left_out is not None and subject.file is not None and left_out[0].file == subject.file.name:
            call = left_out[1]
            span = (call.lineno, call.col_offset, call.end_lineno or 0, call.end_col_offset or 0)
            yield Edit("argument", call.lineno, "auto_prefix", "True", span, 0)
            continue
        how = registrations(parts.get(path)).get(name)
        own = how is not None and subject.file is not None and Path(how.file) == subject.file.resolve()
        if how is not None and own and how.method == "insert_child_to_cell":
            yield Edit("append" if module in never else "assign", how.line)


def _lists(subject: Subject, change: Change) -> Iterator[Edit]:
    path, _, attribute = change.modules[0].rpartition(".")
    value = vars(dict(subject.parts())[path]).get(attribute)
    if type(value) not in (list, tuple, dict):
        return  # a kind of its own does more than hold
    container = _container(subject, change.code, value)
    if container:
        if change.code == "PL102" and subject.framework == "mindspore":
            yield from _names(change, attribute, value)
        yield Edit("wrap", _line(change.place), attribute, container)


def _names(change: Change, attribute: str, value: Any) -> Iterator[Edit]:
    """Yield names for Parameters that share one, or have the number that MindSpore gives those without."""
    names = {parameter.name for parameter in value}
    if len(names) < len(value) or change.code == "PN101" or any(n.startswith("Parameter") for n in names):
        yield Edit("name", _line(change.place), attribute)


def _container(subject: Subject, code: str, value: Any) -> str:
    """Return the constructor to wrap a list or dict with, as the file can call it; empty where none fits."""
    space = vars(subject.module) if subject.module is not None else {}
    is_dict = isinstance(value, dict)
    if code == "PL102" and subject.framework == "mindspore":
        from mindspore import Parameter

        if is_dict or not all(isinstance(v, Parameter) for v in value):
            return ""
        own = next((n for n, v in space.items() if getattr(v, "__name__", "") == "ParameterTuple"), "")
        alias = next((n for n, v in space.items() if getattr(v, "__name__", "") == "mindspore"), "")
        return own or (alias and f"{alias}.ParameterTuple")
    name = CONTAINERS.get((subject.framework, code, is_dict))
    alias = next((n for n, v in space.items() if getattr(v, "__name__", "") == f"{subject.framework}.nn"), "")
    if not name or not alias:
        return ""
    kind = getattr(space[alias], name)
    if is_dict and not all(isinstance(k, str) and k.isidentifier() and not hasattr(kind, k) for k in value):
        return ""  # such a key is no name of a part
    return f"{alias}.{name}"


def _is_in(subject: Subject, place: str) -> bool:
    return subject.file is not None and place.rpartition(":")[0] == subject.file.name


def _line(place: str) -> int:
    return int(place.rpartition(":")[2])
