"""Likeness to a reference: what a comparison found of a file's layers, as findings and as edits of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .diagnosis import unlike
from .editing import Edit
from .passes.base import Change
from .verification import Report


def edits_of(report: Report, copy: Path) -> tuple[list[Edit], list[tuple[str, str]]]:
    """The edits that give the layers of a file the settings of the reference, and what these import.

    Args:
        report: of a comparison whose target is a copy of the file.
        copy: that copy.
    """
    edits: list[Edit] = []
    imports: dict[tuple[str, str], None] = {}
    calls = [] if report.nets is None else report.nets.calls
    for call in calls:
        made = call.construction
        if Path(made.file) != copy:
            continue
        span = (made.line, made.column, made.end_line, made.end_column)
        rows = zip(call.arguments, call.positions, call.instead, strict=True)
        for (name, text), position, instead in rows:
            edits.append(Edit("argument", made.line, name, text, span, position, instead))
            imports |= dict.fromkeys(_imported(text))
    for draw in [] if report.nets is None else report.nets.draws:
        made = draw.call
        if Path(made.file) != copy:
            continue
        span = (made.line, made.column, made.end_line, made.end_column)
        edits.append(Edit("after" if draw.after else "draw", made.line, new=draw.remedy, span=span))
        imports |= dict.fromkeys(_imported(draw.remedy))
    return edits, list(imports)


def differences(report: Report, copy: Path, file: Path) -> list[Change]:
    """What differs from the reference in settings and initial distributions, as findings about the file.

    Args:
        report: of a comparison whose target is a copy of the file.
        copy: that copy.
        file: the file.
    """
    nets = report.nets
    if nets is None:
        return []
    found = [
        unlike(str(row), row.target, place=row.place, advice=row.write)
        for row in [*nets.settings, *nets.biases]
        if not row.structure
    ]
    found += [
        unlike(
            f"{row.source_law or 'unknown'} against {row.target_law or 'unknown'}",
            row.layer,
            place=row.place,
            advice=row.remedy,
            law=True,
        )
        for row in nets.laws
        if row.passed is False
    ]
    return [replace(change, place=change.place.replace(copy.name, file.name)) for change in found]


def _imported(text: str) -> Iterator[tuple[str, str]]:
    """What an argument's source code needs: (module, name), or (module, "") for the module itself."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Name) and node.id == "math":
            yield "math", ""
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[:1].isupper():
            yield "mindspore.common.initializer", node.func.id
