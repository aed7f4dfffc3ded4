"""Findings for machines: annotations of GitHub Actions, and SARIF 2.1.0 for code scanning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..api.findings import Findings
    from ..passes.base import Change

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "note": "note"}
_ANNOTATIONS = {"error": "error", "warning": "warning", "note": "notice"}


class Row(NamedTuple):
    """A finding with where it is.

    Attributes:
        model: the model's name in its file; empty where one was named.
        change: the finding.
        places: (file, line) of what it names; the file and 0 where it names no line.
    """

    model: str
    change: Change
    places: list[tuple[str, int]]


def rows_of(found: Mapping[str, Findings], file: str) -> list[Row]:
    """Return the findings in the models of a file.

    Args:
        found: name of a model -> its findings.
        file: the file that was checked, for findings that name no line.
    """
    from ..diagnosis import lines_of

    rows: list[Row] = []
    for name, findings in found.items():
        for change in findings:
            lines = [(findings.files.get(named), int(line)) for named, line in lines_of(change)]
            places = [(_shown(path), line) for path, line in lines if path is not None]
            rows.append(Row(name, change, places or [(_shown(Path(file)), 0)]))
    return rows


def github_lines(rows: Iterable[Row]) -> list[str]:
    """Return one workflow command for each finding, which GitHub shows at its line."""
    lines: list[str] = []
    for name, change, places in rows:
        path, line = places[0]
        where = f"file={_property(path)}" + (f",line={line}" if line else "")
        text = "\n".join(filter(None, [_message(name, change), change.advice and f"write: {change.advice}"]))
        lines.append(f"::{_ANNOTATIONS[change.severity]} {where},title={change.code}::{_data(text)}")
    return lines


def sarif(rows: Sequence[Row], meanings: Mapping[str, str], version: str) -> object:
    """Return a SARIF log of one run.

    Args:
        rows: the findings.
        meanings: code -> what it means.
        version: of regraft.
    """
    codes = sorted({row.change.code for row in rows})
    results: list[dict[str, Any]] = []
    for name, change, places in rows:
        text = _message(name, change) + (f"\nwrite: {change.advice}" if change.advice else "")
        results.append(
            {
                "ruleId": change.code,
                "ruleIndex": codes.index(change.code),
                "level": _LEVELS[change.severity],
                "message": {"text": text},
                "locations": [_location(*places[0])],
                **({"relatedLocations": [_location(*p) for p in places[1:]]} if places[1:] else {}),
            }
        )
    rules = [{"id": code, "shortDescription": {"text": meanings.get(code, code)}} for code in codes]
    driver = {"name": "regraft", "version": version, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _message(name: str, change: Change) -> str:
    at = f" (at {change.place})" if change.place else ""
    return f"{name}: {change.message}{at}" if name else f"{change.message}{at}"


def _shown(path: Path) -> str:
    """Return a path as GitHub wants it: relative to the working directory, with forward slashes."""
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
    """Return text as a workflow command holds it: no line break ends it early."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
