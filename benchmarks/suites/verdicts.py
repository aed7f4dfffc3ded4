"""What the judges of the corpora share: the answer to a sweep of what is wrong, and its rows read again."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LEFT_OUT = {"verdict": "not judged"}
"""The answer for a case that has no expectation to compare with."""


def corpora_folder(*marks: str) -> Path:
    """The checkout that CORPORA names.

    Args:
        marks: files that it has.

    Raises:
        SystemExit: when it has not.
    """
    place = os.environ.get("CORPORA", "")
    found = Path(place).expanduser().resolve()
    if not place or not all((found / mark).is_file() for mark in marks):
        raise SystemExit(
            f"expected CORPORA to name a checkout of the corpus (with {marks[0]}), got `{place}`"
        )
    return found


def imported(name: str, path: Path) -> Any:
    """A file as a module, which `sys.modules` holds under a name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def answer(run: Callable[[], list[str]]) -> dict[str, Any]:
    """The verdict on a case, by a function that returns what is wrong with it; MemoryError is the sweep's."""
    from regraft import RegraftError

    try:
        found = run()
    except MemoryError:
        raise
    except RegraftError as error:
        return {**told([f"{type(error).__name__}: {error}"], "refused"), "code": error.code}
    except Exception as error:  # whatever a case ends with is its result
        return told([f"{type(error).__name__}: {error}"], "fault")
    return told(found, "different" if found else "equal")


def told(found: list[str], verdict: str) -> dict[str, Any]:
    """The answer to a sweep: a verdict, and what was found."""
    return {"verdict": verdict, "detail": "; ".join(found), "data": {"found": found}}


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a sweep that were judged."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row["verdict"] != "not judged":
                yield row


def wrong(row: dict[str, Any]) -> list[str]:
    """What is wrong with a case; nothing when it is right."""
    if row["verdict"] == "equal":
        return []
    return row["data"].get("found") or [f"{row['verdict']}: {row['detail']}".removesuffix(": ")]


def print_failures(rows: list[dict[str, Any]]) -> None:
    """Print every case that is wrong, with the reason."""
    for row in rows:
        if row["verdict"] != "equal":
            print(f"{row['name']} {row['step']}: {' '.join('; '.join(wrong(row)).split())[:240]}")
