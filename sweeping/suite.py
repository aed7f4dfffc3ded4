"""Reads a suite: a TOML file of models, their targets, options and limits."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..ir import UsageError
from ..ir.outside.names import near_names
from .case import Case
from .named import expanded, generated_cases

Spell = Callable[[str, str, object], "Sequence[str]"]
"""(command, key, value) -> the arguments that say so, none where only another command has the option.

It raises LookupError with the names of all options for a key that is none, TypeError for a wrong value.
"""

_SECONDS, _GIB = 600.0, 16.0
_OWN = ("to", "check", "seconds", "memory", "group")
_OF_JUDGES = ("cases", "model", "to", "judge", "batch", "seconds", "memory")
_BATCH = 1000
_MEMORY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(MiB|MB|GiB|GB|M|G)?\s*\Z", re.IGNORECASE)
_UNIT = {"": 2**30, "g": 2**30, "gib": 2**30, "gb": 10**9, "m": 2**20, "mib": 2**20, "mb": 10**6}


def read_suite(path: Path, targets: Sequence[str], spell: Spell) -> list[Case]:
    """Return the cases of a suite, in its order: of each model the check, then every target.

    Args:
        path: the TOML file; what it names is found from its folder.
        targets: the targets that there are.
        spell: how a command says an option.

    Raises:
        UsageError: for a file, key, value or pattern that is not right.
    """
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
    cases: list[Case] = []
    if tables and all(map(_has_judge, tables)):  # else keys at the top may be the other tables'
        _require_keys_of_judges(document, str(path))
    for number, entry in enumerate(tables, 1):
        place = f"{path}: [[models]] number {number}"
        folder = path.absolute().parent
        if _has_judge(entry):
            cases += _judged_cases(entry, document, folder, place)
        else:
            places = {key: place if key in entry else str(path) for key in (*document, *entry)}
            cases += _cases({**document, **entry}, document, folder, places, place, targets, spell)
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
    entry: Mapping[str, Any], shared: Mapping[str, Any], folder: Path, place: str
) -> Iterator[Case]:
    """Yield the cases of a table with a judge: those that a function names, or its models."""
    _require_keys_of_judges(entry, place)
    both = {**shared, **entry}
    judge = _function(both.get("judge"), "judge", folder, place)
    seconds, memory = _limits(both, place)
    batch = both.get("batch", 1)
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= _BATCH:
        raise UsageError("E001", f"expected a number up to {_BATCH} as `batch`, got {batch!r}", place=place)
    if "model" in entry:
        steps = _words(both.get("to"), "to", place)
        models = _models(entry["model"], folder, place)
        given = [{"name": m, "step": s, "model": m} for m in models for s in steps]
    else:
        given = generated_cases(_function(entry.get("cases"), "cases", folder, place), folder, place)
    for case in given:
        yield Case(
            name=case["name"],
            step=case["step"],
            model=case["model"] if "model" in entry else "",
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


def _models(given: object, folder: Path, place: str) -> list[str]:
    """Return the models that a pattern, or a list of them, names."""
    return [m for pattern in _words(given, "model", place) for m in expanded(pattern, folder, place)]


def _function(name: object, key: str, folder: Path, place: str) -> str:
    """Return a "file.py:function" whose file is there."""
    file, _, function = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not file.endswith(".py") or not function.isidentifier() or not (folder / file).is_file():
        raise UsageError("E001", f'expected "file.py:function" as `{key}`, got {name!r}', place=place)
    return f"{file}:{function}"


def _cases(
    entry: dict[str, Any],
    shared: Mapping[str, Any],
    folder: Path,
    places: Mapping[str, str],
    place: str,
    targets: Sequence[str],
    spell: Spell,
) -> Iterator[Case]:
    """Yield the cases of one table."""
    models = _models(entry.pop("model", None), folder, place)
    name, group = entry.pop("name", ""), entry.get("group", "")
    if not isinstance(name, str) or not isinstance(group, str):
        raise UsageError("E001", f"expected texts as `name` and `group`, got {[name, group]!r}", place=place)
    steps, (seconds, memory) = _steps(entry, place, targets), _limits(entry, place)
    options = {key: value for key, value in entry.items() if key not in _OWN}
    for key, value in options.items():
        if isinstance(value, dict) and isinstance(shared.get(key), dict):
            options[key] = {**shared[key], **value}
    spelled = {step: _spelled(step, options, places, spell) for step in steps}
    for model in models:
        for step in steps:
            title = (f"{name} {model}" if len(models) > 1 else name) if name else model
            yield Case(title, step, model, spelled[step], str(folder), seconds, memory, group=group)


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


def _spelled(
    step: str, options: Mapping[str, Any], places: Mapping[str, str], spell: Spell
) -> tuple[str, ...]:
    """Return the arguments that say a table's options to the command of a step."""
    command = "check" if step == "check" else "rewrite"
    arguments: list[str] = []
    for key, value in options.items():
        try:
            arguments += spell(command, key, value)
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
    return tuple(arguments)


def _told_apart(cases: list[Case]) -> list[Case]:
    """Give cases of one name and step their arguments in the name.

    Raises:
        UsageError: for a case that stands there twice.
    """
    from dataclasses import replace

    met = Counter((case.name, case.step) for case in cases)
    found = [
        replace(case, name=f"{case.name} {' '.join(case.arguments)}".strip())
        if met[case.name, case.step] > 1
        else case
        for case in cases
    ]
    again = next((key for key, n in Counter((c.name, c.step) for c in found).items() if n > 1), None)
    if again is not None:
        raise UsageError("E001", f"expected every case once, got `{again[0]}` with `{again[1]}` twice")
    return found
