"""Reads a suite: a TOML file of models, their targets, options and limits."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from ..ir import UsageError
from .case import Case

Spell = Callable[[str, str, object], "Sequence[str] | None"]
"""(command, key, value) -> the arguments that say so, None where the command has no such option."""

_SECONDS, _GIB = 600.0, 16.0
_OWN = ("to", "check", "seconds", "memory")
_WILD = re.compile(r"[*?\[]")
_MEMORY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(MiB|MB|GiB|GB|M|G)?\s*\Z", re.IGNORECASE)
_UNIT = {"": 2**30, "g": 2**30, "gib": 2**30, "gb": 10**9, "m": 2**20, "mib": 2**20, "mb": 10**6}

_NAMES = """
import importlib, sys
found = vars(importlib.import_module(sys.argv[1]))
print(*(n for n, v in found.items() if callable(v) and not n.startswith("_")), file=sys.stderr)
"""


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
            "expected tables [[models]], each with a `model`",
            place=str(path),
            hint='[[models]]\nmodel = "nets/*.py:Net"\ninput = "2x3x224x224"\nto = ["onnx"]',
        )
    cases: list[Case] = []
    for number, entry in enumerate(cast("list[dict[str, Any]]", models), 1):
        place = f"{path}: [[models]] number {number}"
        cases += _cases({**document, **entry}, document, path.absolute().parent, place, targets, spell)
    return _told_apart(cases)


def _cases(
    entry: dict[str, Any],
    shared: Mapping[str, Any],
    folder: Path,
    place: str,
    targets: Sequence[str],
    spell: Spell,
) -> Iterator[Case]:
    """Yield the cases of one table."""
    given = entry.pop("model", None)
    patterns = [given] if isinstance(given, str) else given
    if not isinstance(patterns, list) or not all(isinstance(p, str) for p in cast("list[object]", patterns)):
        raise UsageError("E001", f"expected a name or a list of names as `model`, got {given!r}", place=place)
    name = entry.pop("name", "")
    if not isinstance(name, str):
        raise UsageError("E001", f"expected a text as `name`, got {name!r}", place=place)
    steps, seconds, memory = _limits(entry, place, targets)
    options = {key: value for key, value in entry.items() if key not in _OWN}
    for key, value in options.items():
        if isinstance(value, dict) and isinstance(shared.get(key), dict):
            options[key] = {**shared[key], **value}
    spelled = {step: _spelled(step, options, place, spell) for step in steps}
    models = [model for pattern in cast("list[str]", patterns) for model in _expanded(pattern, folder, place)]
    for model in models:
        for step in steps:
            title = (f"{name} {model}" if len(models) > 1 else name) if name else model
            yield Case(title, step, model, spelled[step], str(folder), seconds, memory)


def _limits(entry: Mapping[str, Any], place: str, targets: Sequence[str]) -> tuple[list[str], float, int]:
    """Return (steps, seconds, bytes) of a table."""
    to = entry.get("to", [])
    steps: list[str] = ["check"] if entry.get("check", True) else []
    for target in [to] if isinstance(to, str) else to:
        if target not in targets:
            raise UsageError("E001", f"expected targets of {', '.join(targets)}, got {target!r}", place=place)
        steps.append(target)
    if not steps:
        raise UsageError("E001", "expected `to` to name a target, or `check` to be true", place=place)
    seconds = entry.get("seconds", _SECONDS)
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < 10**7:
        raise UsageError("E001", f"expected a number of seconds, got {seconds!r}", place=place)
    memory = str(entry.get("memory", _GIB))
    found = _MEMORY.match(memory)
    if found is None or not float(found[1]):
        raise UsageError("E001", f'expected `memory` such as "8 GiB", got `{memory}`', place=place)
    return steps, float(seconds), int(float(found[1]) * _UNIT[(found[2] or "").lower()])


def _spelled(step: str, options: Mapping[str, Any], place: str, spell: Spell) -> tuple[str, ...]:
    """Return the arguments that say a table's options to the command of a step."""
    command = "check" if step == "check" else "rewrite"
    arguments: list[str] = []
    for key, value in options.items():
        try:
            said = spell(command, key, value)
            if said is None and spell("rewrite" if step == "check" else "check", key, value) is None:
                raise UsageError("E001", f"no option of `check` or `rewrite` is called `{key}`", place=place)
        except TypeError as error:
            raise UsageError("E001", f"expected {error} as `{key}`, got {value!r}", place=place) from None
        arguments += said or ()
    return tuple(arguments)


def _expanded(pattern: str, folder: Path, place: str) -> list[str]:
    """Return the models that a pattern names, sorted: ``*`` in a file's name, or behind the colon."""
    where, colon, name = pattern.rpartition(":")
    if not colon:
        where, name = pattern, ""
    if not _WILD.search(pattern):
        return [pattern]
    places = [where]
    if _WILD.search(where):
        anchor = Path(where).anchor
        root = Path(anchor) if anchor else folder
        found = sorted(root.glob(where[len(anchor) :]))
        places = [str(p if anchor else p.relative_to(folder)) for p in found if p.is_file()]
    models: list[str] = []
    for each in places:
        if not _WILD.search(name):
            models.append(f"{each}:{name}" if name else each)
            continue
        names = (
            _names_in_file(folder / each) if each.endswith(".py") else _names_in_package(each, folder, place)
        )
        models += [f"{each}:{n}" for n in names if fnmatchcase(n, name)]
    if not models:
        raise UsageError("E001", f"nothing is named by `{pattern}` from `{folder}`", place=place)
    return models


def _names_in_file(path: Path) -> list[str]:
    """Return the public classes and functions of a file, which is read and not run."""
    import ast

    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError("E101", f"expected Python source, got {error}", place=str(path)) from error
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [n.name for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")]


def _names_in_package(module: str, folder: Path, place: str) -> list[str]:
    """Return the public callables of a module, which another process imports."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError("E001", f"expected file.py:Name or package.module:Name, got `{module}`", place=place)
    code = f"import sys; sys.path.insert(0, {str(folder)!r}){_NAMES}"
    done = subprocess.run(  # noqa: S603 - the suite names the module
        [sys.executable, "-P", "-c", code, module],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=folder,
        timeout=_SECONDS,
        check=False,
    )
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [""]
    if done.returncode:
        raise UsageError("E102", f"`{module}` cannot be imported: {lines[-1]}", place=place)
    return sorted(lines[-1].split())


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
