"""Resolves the names in a suite: files by a pattern, functions by a pattern, cases by a function."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ...ir import UsageError

_WILD = re.compile(r"[*?\[]")
_SECONDS = 600.0
"""Time limit of an import, or of the function that names cases."""

_NAMES = """
import importlib, sys
found = vars(importlib.import_module(sys.argv[1]))
print(*(n for n, v in found.items() if callable(v) and not n.startswith("_")), file=sys.stderr)
"""

_CASES = """
import json, sys
from regraft.commands.sweeping.serving import function_of
with open(sys.argv[2], "w", encoding="utf-8") as file:
    for case in function_of(sys.argv[1])():
        file.write(json.dumps(case) + "\\n")
"""


Imported = dict[str, list[str]]
"""Module -> its public callables: patterns of one suite share an import, which takes seconds."""


def expanded(pattern: str, folder: Path, place: str, imported: Imported) -> list[str]:
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
        if each.endswith(".py"):
            names = _names_in_file(folder / each)
        elif each in imported:
            names = imported[each]
        else:
            names = imported[each] = _names_in_package(each, folder, place)
        models += [f"{each}:{n}" for n in names if fnmatchcase(n, name)]
    if not models:
        raise UsageError("E001", f"no file or function matches `{pattern}` from `{folder}`", place=place)
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
    lines = _run(code, [module], folder, module, place)
    return sorted(lines[-1].split())


def generated_cases(function: str, folder: Path, place: str) -> list[dict[str, Any]]:
    """Return the cases that a function of a file names, which another process calls.

    Args:
        function: "file.py:function" from `folder`; it gives mappings with `name` and `step`, and with
            `group`, `files`, `process` and anything else that JSON has if it likes.
        folder: the suite's.
        place: what errors name.

    Raises:
        UsageError: when it fails, or gives something else.
    """
    file, _, name = function.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="regraft-") as scratch:
        written = Path(scratch) / "cases.jsonl"
        _run(_CASES, [f"{folder / file}:{name}", str(written)], folder, function, place)
        cases: list[dict[str, Any]] = []
        for line in written.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            texts = isinstance(case, dict) and [case.get(k, "") for k in ("name", "step", "group", "process")]
            files: Any = case.get("files", []) if texts else None
            if not texts or not all(isinstance(t, str) for t in [*texts, *files]) or not all(texts[:2]):
                raise UsageError(
                    "E001",
                    f"expected cases with `name` and `step` of `{function}`, got {line[:80]}",
                    place=place,
                )
            cases.append(case)
    return cases


def _run(code: str, arguments: Sequence[str], folder: Path, what: str, place: str) -> list[str]:
    """Return the lines that Python code says to standard error, in a process of its own.

    Raises:
        UsageError: when it fails, or takes too long.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the suite names what it runs
            [sys.executable, "-P", "-c", code, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=folder,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError("E102", f"`{what}` took more than {_SECONDS:g} s", place=place) from None
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [""]
    if done.returncode:
        raise UsageError("E102", f"`{what}` cannot be imported or called: {lines[-1]}", place=place)
    return lines
