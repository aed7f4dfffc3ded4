"""Parameters that layers share, or that were assigned to a layer, and are called by another place's path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...frontends.assigned_parameters import AssignedParameter, assigned_in, assigned_in_class
from ...frontends.class_source import is_library_class, object_name
from ...frontends.constructions import part_at
from ...frontends.mindspore_cell.prefixes import expected_name
from ...passes import Change
from ..subject import Subject, class_place

CODES = {
    "PN102": "a Parameter that was assigned to a layer has a name that is not of that layer",
    "PN103": "a checkpoint has a Parameter that layers share once, under the path of the first layer",
}


@dataclass(frozen=True, slots=True)
class _Assignment:
    """An assignment, with the paths of both sides in the model."""

    found: AssignedParameter
    path: str
    value: str
    place: str


def find(subject: Subject) -> list[Change]:
    """Return a finding for every Parameter not named by its first path, and a note for such ties."""
    if subject.framework != "mindspore":
        return []
    assignments = list(_assignments(subject))
    names = {path: parameter.name for path, parameter in subject.model.parameters_and_names()}
    held = _all_paths(subject)
    found: list[Change] = []
    for path, name in names.items():
        expected = expected_name(subject.model, path)
        others = [other for other in held.get(path, ()) if other != path]
        if name != expected:
            change = _named_otherwise(subject, path, expected, name, others, assignments)
            found += [] if change is None else [change]
        elif others and not _is_one_cell(subject, path, others):
            found.append(_tied(path, name, others, assignments))
    return found


def _named_otherwise(
    subject: Subject,
    path: str,
    expected: str,
    name: str,
    others: list[str],
    assignments: list[_Assignment],
) -> Change | None:
    """Return a finding of a Parameter not named by its path; None for a name that the user gave it."""
    decisive = [each for each in assignments if _is_decisive(subject, each)]
    here = next((each for each in decisive if each.path == path), None)
    if here is not None:
        return Change(
            "PN102",
            f"`{path}` is called `{name}`, because the Parameter assigned here keeps its own name: "
            f"a checkpoint must use that name, and a value stored as `{path}` is skipped without an error",
            place=here.place,
            severity="warning",
            fixed=False,
            modules=(path,),
            advice=f'`{here.found.text}.name = "{expected}"` after the assignment',
        )
    code = getattr(vars(type(subject.model)).get("__init__"), "__code__", None)
    own = "self" if code is None else object_name(code)
    statement = f'{_expression(path, own)}.name = "{expected}"'
    away = next((each for each in decisive if each.path == name), None)
    if away is not None:
        return Change(
            "PN102",
            f"`{path}` is still called `{name}`, and another Parameter is assigned to that path here: "
            f"a checkpoint must use that name, and a value stored as `{path}` is skipped without an error",
            place=away.place,
            severity="warning",
            fixed=False,
            modules=(path,),
            advice=f"`{statement}` after the assignment",
        )
    alias = next((other for other in others if expected_name(subject.model, other) == name), None)
    if alias is None or _is_one_cell(subject, path, [alias]):
        return None
    owner = part_at(subject.model, path.rpartition(".")[0])
    return Change(
        "PN102",
        f"`{path}` is called `{name}`, because it is one Parameter with `{alias}`: "
        f"a checkpoint must use that name, and a value stored as `{path}` is skipped without an error",
        place=class_place(type(subject.model), "__init__") or path,
        severity="warning" if owner is not None and is_library_class(type(owner)) else "note",
        fixed=False,
        modules=(path,),
        advice=f"`{statement}` at the end of `__init__`",
    )


def _tied(path: str, name: str, others: list[str], assignments: list[_Assignment]) -> Change:
    """Return a note of a Parameter that several layers share, and that is called by its first path."""
    both = {path, *others}
    tie = next((each for each in assignments if each.path in both and each.value in both), None)
    listed = ", ".join(f"`{other}`" for other in others)
    return Change(
        "PN103",
        f"{listed} and `{path}` are one Parameter: a checkpoint stores it once, as `{name}`, and a value "
        f"stored as {listed} is skipped without an error",
        place=path if tie is None else tie.place,
        severity="note",
        fixed=False,
        modules=(path, *others),
    )


def _is_decisive(subject: Subject, assignment: _Assignment) -> bool:
    """Whether names stay after an assignment: a Cell renames what is in a part when the part is inserted."""
    above, part = assignment.path.removesuffix(assignment.found.path).strip("."), subject.model
    for name in filter(None, above.split(".")):
        if getattr(part, "_auto_prefix", True):
            return False
        part = getattr(part, "_cells", {}).get(name)
    return True


def _all_paths(subject: Subject) -> dict[str, list[str]]:
    """Return first path of a parameter -> all of them, in the order of the Cells."""
    found: dict[int, list[str]] = {}
    stack: list[tuple[str, Any]] = [("", subject.model)]
    while stack:
        path, part = stack.pop()
        start = f"{path}." if path else ""
        for name, parameter in part._params.items():
            if parameter is not None:
                found.setdefault(id(parameter), []).append(f"{start}{name}")
        children = [(f"{start}{name}", child) for name, child in part._cells.items() if child is not None]
        stack += reversed(children)
    first = {id(parameter): path for path, parameter in subject.model.parameters_and_names()}
    return {first[key]: paths for key, paths in found.items() if key in first}


def _is_one_cell(subject: Subject, path: str, others: list[str]) -> bool:
    """Whether the paths are those of one Cell that is registered several times: other findings name it."""
    cells = {id(part_at(subject.model, each.rpartition(".")[0])) for each in (path, *others)}
    return len(cells) == 1 and len({each.rpartition(".")[0] for each in (path, *others)}) > 1


def _assignments(subject: Subject) -> Iterator[_Assignment]:
    """Yield the assignments to parts of parts, in the model's classes and after them in its file."""
    for above, part in subject.parts():
        start = f"{above}." if above else ""
        for found in assigned_in_class(type(part)):
            value = f"{start}{found.value}" if found.value else ""
            yield _Assignment(found, f"{start}{found.path}", value, f"{found.file}:{found.line}")
    for path, value, text, line in assigned_in(subject.syntax, own=False) if subject.syntax else ():
        found = AssignedParameter(path, value, text, "", line)
        yield _Assignment(found, path, value, subject.place(line))


def _expression(path: str, owner: str) -> str:
    steps = [f"[{step}]" if step.isdigit() else f".{step}" for step in path.split(".")]
    return f"{owner}{''.join(steps)}"
