"""Reads a suite: a TOML file of models, their targets, options and limits."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ...ir import UsageError, missing_file
from ...ir.outside.names import near_names
from .case import Case
from .named import Imported, expanded, generated_cases

Spell = Callable[[str, str, object], "Sequence[str]"]
"""(step, key, value) -> the arguments that say so, none where only another step takes the option.

It raises LookupError with the names of all options for a key that is none, TypeError for a wrong value.
"""

_SECONDS, _GIB = 600.0, 16.0
_OWN = ("to", "check", "seconds", "memory", "group", "tolerance")
_OF_JUDGES = ("cases", "model", "to", "judge", "batch", "seconds", "memory")
_BATCH = 1000
_MEMORY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(MiB|MB|GiB|GB|M|G)?\s*\Z", re.IGNORECASE)
_UNIT = {"": 2**30, "g": 2**30, "gib": 2**30, "gb": 10**9, "m": 2**20, "mib": 2**20, "mb": 10**6}


def read_suite(path: Path, targets: Sequence[str], spell: Spell) -> list[Case]:
    """Return the cases of a suite, in its order: of each model the check, then every target.

    Args:
        path: the TOML file; what it names is found from its folder.
        targets: the targets that there are.
        spell: how the command of a step says an option.

    Raises:
        UsageError: for a file, key, value or pattern that is not right.
    """
    if not path.exists():
        raise missing_file(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise UsageError("E101", f"expected a suite in TOML, got {said}", place=str(path)) from error
    models = document.pop("models", None)
    if not isinstance(models, list) or not all(isinstance(m, dict) for m in cast("list[object]", models)):
        raise UsageError(
            "E001",
            "expected tables [[models]], each with a `model`, or with `cases` and a `judge`",
            place=str(path),
            hint='[[models]]\nmodel = "nets/*.py:Net"\ninput = "2x3x224x224"\nto = ["onnx"]',
        )
    tables = cast("list[dict[str, Any]]", models)
    cases: list[tuple[Case, str]] = []
    imported: Imported = {}
    if tables and all(map(_has_judge, tables)):  # else keys at the top may be the other tables'
        _require_keys_of_judges(document, str(path))
    for number, entry in enumerate(tables, 1):
        place = f"{path}: [[models]] number {number}"
        folder = path.absolute().parent
        judged = _has_judge(entry)
        named = "model" in entry or not judged
        models = _models(entry.pop("model", None), folder, place, imported) if named else None
        if judged:
            cases += ((case, "") for case in _judged_cases(entry, models, document, folder, place))
        else:
            places = {key: place if key in entry else str(path) for key in (*document, *entry)}
            cases += _cases(
                {**document, **entry}, models or [], document, folder, places, place, targets, spell
            )
    if not cases:
        raise UsageError("E001", "expected a case, got none", place=str(path))
    return _told_apart(cases)


def _has_judge(entry: Mapping[str, Any]) -> bool:
    return "cases" in entry or "judge" in entry


def _require_keys_of_judges(table: Mapping[str, Any], place: str) -> None:
    for key in table:
        if key not in _OF_JUDGES:
            raise UsageError(
                "E001",
                f"expected a table's keys to be of {', '.join(_OF_JUDGES)} beside a judge, got `{key}`",
                place=place,
                hint=_meant(key, _OF_JUDGES),
            )


def _meant(key: str, known: Sequence[str]) -> str:
    """Return the hint that names the known key nearest to one that is unknown; empty where none is near."""
    near = near_names(key, known, 1)
    return f"did you mean `{near[0]}`?" if near else ""


def _judged_cases(
    entry: Mapping[str, Any],
    models: Sequence[str] | None,
    shared: Mapping[str, Any],
    folder: Path,
    place: str,
) -> Iterator[Case]:
    """Yield the cases of a table with a judge: those that a function names, or its models."""
    _require_keys_of_judges(entry, place)
    both = {**shared, **entry}
    judge = _function(both.get("judge"), "judge", folder, place)
    seconds, memory = _limits(both, place)
    batch = both.get("batch", 1)
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= _BATCH:
        raise UsageError("E001", f"expected a number up to {_BATCH} as `batch`, got {batch!r}", place=place)
    if models is not None:
        steps = _words(both.get("to"), "to", place)
        given = [{"name": m, "step": s, "model": m} for m in models for s in steps]
    else:
        given = generated_cases(_function(entry.get("cases"), "cases", folder, place), folder, place)
    for case in given:
        yield Case(
            name=case["name"],
            step=case["step"],
            model=case["model"] if models is not None else "",
            arguments=(),
            folder=str(folder),
            seconds=seconds,
            memory=memory,
            judge=judge,
            given=json.dumps({**case, "folder": str(folder)}, sort_keys=True),
            files=tuple(case.get("files", ())),
            group=case.get("group", ""),
            batch=batch,
            process=case.get("process", ""),
        )


def _words(given: object, key: str, place: str) -> list[str]:
    """Return a text, or a list of texts, as a list that is not empty."""
    found = [given] if isinstance(given, str) else given
    if (
        not isinstance(found, list)
        or not found
        or not all(isinstance(f, str) for f in cast("list[object]", found))
    ):
        raise UsageError("E001", f"expected a name or a list of names as `{key}`, got {given!r}", place=place)
    return cast("list[str]", found)


def _models(given: object, folder: Path, place: str, imported: Imported) -> list[str]:
    """Return the models that a pattern, or a list of them, names."""
    return [
        m for pattern in _words(given, "model", place) for m in expanded(pattern, folder, place, imported)
    ]


def _function(name: object, key: str, folder: Path, place: str) -> str:
    """Return a "file.py:function" whose file is there."""
    file, _, function = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not file.endswith(".py") or not function.isidentifier() or not (folder / file).is_file():
        raise UsageError("E001", f'expected "file.py:function" as `{key}`, got {name!r}', place=place)
    return f"{file}:{function}"


def _cases(
    entry: dict[str, Any],
    models: Sequence[str],
    shared: Mapping[str, Any],
    folder: Path,
    places: Mapping[str, str],
    place: str,
    targets: Sequence[str],
    spell: Spell,
) -> Iterator[tuple[Case, str]]:
    """Yield the cases of one table, each with the arguments that the table itself gives."""
    name, group = entry.pop("name", ""), entry.get("group", "")
    if not isinstance(name, str) or not isinstance(group, str):
        raise UsageError("E001", f"expected texts as `name` and `group`, got {[name, group]!r}", place=place)
    steps, (seconds, memory) = _steps(entry, place, targets), _limits(entry, place)
    tolerance = _tolerance(entry, place)
    options = {key: value for key, value in entry.items() if key not in _OWN}
    for key, value in options.items():
        if isinstance(value, dict) and isinstance(shared.get(key), dict):
            options[key] = {**shared[key], **value}
    said = _said(steps, options, places, place, spell)
    arguments = {step: tuple(word for key in options for word in said[key][step]) for step in steps}
    own = (word for key in options if places[key] == place for words in said[key].values() for word in words)
    words = " ".join(dict.fromkeys(own))
    for model in models:
        for step in steps:
            title = (f"{name} {model}" if len(models) > 1 else name) if name else model
            held_to = 0.0 if step == "check" else tolerance
            case = Case(title, step, model, arguments[step], str(folder), seconds, memory, group=group)
            yield replace(case, tolerance=held_to), words


def _steps(entry: Mapping[str, Any], place: str, targets: Sequence[str]) -> list[str]:
    """Return what is done with the models of a table."""
    to, check = entry.get("to", []), entry.get("check", True)
    if not isinstance(check, bool):
        raise UsageError("E001", f"expected true or false as `check`, got {check!r}", place=place)
    steps: list[str] = ["check"] if check else []
    for target in [] if to == [] else _words(to, "to", place):
        if target not in targets:
            raise UsageError(
                "E001",
                f"expected targets of {', '.join(targets)}, got {target!r}",
                place=place,
                hint=_meant(target, targets),
            )
        steps.append(target)
    if not steps:
        raise UsageError("E001", "expected `to` to name a target, or `check` to be true", place=place)
    return steps


def _limits(entry: Mapping[str, Any], place: str) -> tuple[float, int]:
    """Return (seconds, bytes) that each case of a table may take."""
    seconds = entry.get("seconds", _SECONDS)
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < 10**7:
        raise UsageError("E001", f"expected a number of seconds, got {seconds!r}", place=place)
    memory = str(entry.get("memory", _GIB))
    found = _MEMORY.match(memory)
    if found is None or not float(found[1]):
        raise UsageError("E001", f'expected `memory` such as "8 GiB", got `{memory}`', place=place)
    return float(seconds), int(float(found[1]) * _UNIT[(found[2] or "").lower()])


def _tolerance(entry: Mapping[str, Any], place: str) -> float:
    """Return how far apart outputs may be, relative; 0 where a table does not say."""
    tolerance = entry.get("tolerance", 0.0)
    if not isinstance(tolerance, (int, float)) or isinstance(tolerance, bool) or not 0 <= tolerance < 1:
        raise UsageError("E001", f"expected a `tolerance` such as 1e-5, got {tolerance!r}", place=place)
    return float(tolerance)


def _said(
    steps: Sequence[str], options: Mapping[str, Any], places: Mapping[str, str], place: str, spell: Spell
) -> dict[str, dict[str, Sequence[str]]]:
    """Return, of each option of a table, the arguments that say it to the command of each step.

    Args:
        steps: of the table.
        options: of the table, and those at the top.
        places: where each stands.
        place: where the table stands: its own options are for a step of its own.
        spell: as in `read_suite`.
    """
    found: dict[str, dict[str, Sequence[str]]] = {}
    for key, value in options.items():
        try:
            found[key] = {step: spell(step, key, value) for step in steps}
        except LookupError as error:
            raise UsageError(
                "E001",
                f"no option of `check` or `rewrite` is called `{key}`",
                place=places[key],
                hint=_meant(key, ["model", "models", "name", *_OWN, *error.args]),
            ) from None
        except TypeError as error:
            raise UsageError(
                "E001", f"expected {error} as `{key}`, got {value!r}", place=places[key]
            ) from None
        if places[key] == place and value and not any(found[key].values()):
            raise UsageError(
                "E001", f"expected a step that takes `{key}`, got {', '.join(steps)} alone", place=place
            )
    return found


def _told_apart(cases: Sequence[tuple[Case, str]]) -> list[Case]:
    """Give the cases of a name that several tables have at one step their tables' arguments in it.

    All of them, so that a model has one name at all of its steps.

    Args:
        cases: each with the arguments that its table gives, those at the top left out.

    Raises:
        UsageError: for a case that stands there twice.
    """
    met = Counter((case.name, case.step) for case, _ in cases)
    again = {name for (name, _), count in met.items() if count > 1}
    found = [
        replace(case, name=f"{case.name} {words}".strip()) if case.name in again else case
        for case, words in cases
    ]
    twice = next((key for key, n in Counter((c.name, c.step) for c in found).items() if n > 1), None)
    if twice is not None:
        raise UsageError("E001", f"expected every case once, got `{twice[0]}` with `{twice[1]}` twice")
    return found
