"""Says what a comparison found in the language of its page; names and numbers stay."""

from __future__ import annotations

import re
from typing import Any

from ...process.messages import say, say_lines

_REASONS = {"outputs": (1, 7), "modules": (8, 10), "nodes": (6,), "training": (7,)}
"""Table -> the cells of its rows that are messages."""


def said_in(data: dict[str, Any], lang: str) -> dict[str, Any]:
    """Return what was gathered, with its messages in a language."""
    if lang == "en":
        return data
    found = {**data, "notes": [say(note, lang) for note in data["notes"]]}
    report = data["report"]
    if report is not None:
        found["report"] = {
            **report,
            **{name: say_lines(report[name], lang) for name in ("line", "covered", "told", "yardstick")},
            **{name: _title(report[name], lang) for name in ("source", "target")},
            **{name: [say(each, lang) for each in report[name]] for name in ("unproven", "notes")},
            **{name: [_said(row, cells, lang) for row in report[name]] for name, cells in _REASONS.items()},
        }
    return found


_TITLE = re.compile(r"(.+) in ((?:ONNX )?\w+ [\w.+-]+(?: \(.*\))?)")
"""The name of a model, and a runtime with its version and what is said of it, which may hold an "in" too."""


def _title(title: str, lang: str) -> str:
    """Return the title of a side, the name of its model before its runtime if it has one."""
    found = _TITLE.fullmatch(title)
    return say(title, lang) if found is None else f"{found[1]} · {say(found[2], lang)}"


def _said(row: list[Any], cells: tuple[int, ...], lang: str) -> list[Any]:
    return [say(cell, lang) if at in cells and cell else cell for at, cell in enumerate(row)]
