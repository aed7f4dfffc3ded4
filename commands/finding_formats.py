"""Findings for machines: annotations of GitHub Actions, and SARIF 2.1.0 for code scanning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..api import Change, Findings

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "note": "note"}
_ANNOTATIONS = {"error": "error", "warning": "warning", "note": "notice"}


def github_lines(found: Mapping[str, Findings], file: str) -> list[str]:
    """One workflow command for each finding, which GitHub shows at its line.

    Args:
        found: name of a model -> its findings.
        file: the file that was checked, for findings that name no line.
    """
    lines: list[str] = []
    for name, change, places in _rows(found):
        path, line = places[0] if places else (file, 0)
        where = f"file={_property(path)}" + (f",line={line}" if line else "")
        text = "\n".join(filter(None, [_message(name, change), change.advice and f"write: {change.advice}"]))
        lines.append(f"::{_ANNOTATIONS[change.severity]} {where},title={change.code}::{_data(text)}")
    return lines


def sarif(found: Mapping[str, Findings], file: str, meanings: Mapping[str, str], version: str) -> object:
    """A SARIF log of one run.

    Args:
        found: name of a model -> its findings.
        file: the file that was checked, for findings that name no line.
        meanings: code -> what it means.
        version: of regraft.
    """
    rows = list(_rows(found))
    codes = sorted({change.code for _, change, _ in rows})
    results: list[dict[str, Any]] = []
    for name, change, places in rows:
        text = _message(name, change) + (f"\nwrite: {change.advice}" if change.advice else "")
        results.append(
            {
                "ruleId": change.code,
                "ruleIndex": codes.index(change.code),
                "level": _LEVELS[change.severity],
                "message": {"text": text},
                "locations": [_location(*place) for place in places[:1] or [(file, 0)]],
                **({"relatedLocations": [_location(*p) for p in places[1:]]} if places[1:] else {}),
            }
        )
    rules = [{"id": code, "shortDescription": {"text": meanings.get(code, code)}} for code in codes]
    driver = {"name": "regraft", "version": version, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rows(found: Mapping[str, Findings]) -> Iterable[tuple[str, Change, list[tuple[str, int]]]]:
    """(model, finding, (file, line) of the places that it names)."""
    from .. import api

    for name, findings in found.items():
        for change in findings:
            lines = [(findings.files.get(file), int(line)) for file, line in api.lines_of(change)]
            yield name, change, [(_shown(path), line) for path, line in lines if path is not None]


def _message(name: str, change: Change) -> str:
    at = f" (at {change.place})" if change.place else ""
    return f"{name}: {change.message}{at}" if name else f"{change.message}{at}"


def _shown(path: Path) -> str:
    """A path below the working directory as GitHub wants it: relative to that, with forward slashes."""
    absolute = path.resolve()
    try:
        return absolute.relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return absolute.as_posix()


def _location(path: str, line: int) -> dict[str, Any]:
    from urllib.parse import quote

    uri = f"file://{quote(path)}" if path.startswith("/") else quote(path)
    region = {"region": {"startLine": line}} if line else {}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}


def _data(text: str) -> str:
    """Text as a workflow command holds it: no line break ends it early."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
