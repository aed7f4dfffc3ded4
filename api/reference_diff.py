"""Differences from a reference, found by a comparison, as findings in a file and as edits of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..diagnosis import unlike
from ..diagnosis.editing import Edit
from ..passes.base import Change
from ..verification import Report
from ..verification.two_nets.attributes import AttributeRow
from ..verification.two_nets.training_only import STOPPED

OTHERWISE = "LK104"
"""Code of the finding of a difference that is in no setting, law or frozen parameter."""


def edits_of(report: Report, copy: Path) -> tuple[list[Edit], list[tuple[str, str]]]:
    """Return the edits that give the layers of a file the settings of the reference, and what these import.

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
    settings = [] if report.nets is None else report.nets.settings
    inside = [edit for row in settings for edit in _edits_in_methods(row, copy)]
    edits += [edit for edit in inside if not any(_holds(edit, other) for other in inside)]
    imports |= dict.fromkeys(name for edit in inside for name in _imported(edit.new))
    for draw in [] if report.nets is None else report.nets.draws:
        made = draw.call
        if Path(made.file) != copy:
            continue
        span = (made.line, made.column, made.end_line, made.end_column)
        edits.append(Edit("after" if draw.after else "draw", made.line, new=draw.remedy, span=span))
        imports |= dict.fromkeys(_imported(draw.remedy))
    for prefix in [] if report.nets is None else report.nets.prefixes:
        made = prefix.call
        if made is not None and Path(made.file) == copy:
            span = (made.line, made.column, made.end_line, made.end_column)
            edits.append(Edit("argument", made.line, "auto_prefix", "True", span, 0))
    freeze = None if report.nets is None else report.nets.freeze
    if freeze is not None and Path(freeze.file) == copy:
        edits += [Edit("delete", line) for line in freeze.unwanted]
        edits += [Edit("last", freeze.line, new=freeze.statement)] if freeze.statement else []
    return edits, list(imports)


def _edits_in_methods(row: AttributeRow, copy: Path) -> list[Edit]:
    """Return the edits of an expression in a method of the file; none for a setting written elsewhere."""
    made = row.rewrite
    if made is None or Path(made.file) != copy:
        return []
    if made.text or made.kind == "delete":
        before = [Edit("before", made.span[0], new=made.before)] if made.before else []
        return [*before, Edit(made.kind, made.span[0], new=made.text, span=made.span)]
    pairs = zip(made.arguments, made.places, strict=True)
    return [Edit("argument", made.span[0], n, text, made.span, place) for (n, text), place in pairs]


def _holds(edit: Edit, other: Edit) -> bool:
    """Whether an expression that is written anew holds another one that is edited."""
    (first, begin, last, end), (a, b, c, d) = edit.span, other.span
    around = (first, begin) <= (a, b) and (c, d) <= (last, end)
    return edit.kind == "expression" and around and edit.span != other.span


def differences(report: Report, copy: Path, file: Path) -> list[Change]:
    """Return the differences from the reference, as findings about the file.

    What is in no setting, law or frozen parameter is one finding, of what `verify` says of it.

    Args:
        report: of a comparison whose target is a copy of the file.
        copy: that copy.
        file: the file.
    """
    nets = report.nets
    if nets is None:
        return []
    trained = all(row.passed is not False for row in report.training)
    settings = [row for row in [*nets.settings, *nets.biases] if not row.structure]
    settings += [row for row in nets.settings if row.attribute == STOPPED and not trained]
    found = [unlike(str(row), row.target, place=row.place, advice=row.write) for row in settings]
    found += [
        unlike(
            f"{row.source_law or 'unknown'} against {row.target_law or 'unknown'}",
            row.layer,
            place=row.place,
            advice=row.remedy,
            code="LK102",
        )
        for row in nets.laws
        if row.passed is False
    ]
    layers: dict[tuple[str, str, bool], list[str]] = {}
    for row in nets.frozen:
        layer, _, name = row.target.rpartition(".")
        layers.setdefault((layer, row.place, row.in_source), []).append(name)
    for (layer, place, in_source), names in layers.items():
        what = f"requires_grad {not in_source} against {in_source}: {', '.join(names)}"
        found.append(
            unlike(
                what,
                layer,
                place=place,
                advice=f"requires_grad = {not in_source} for {'it' if len(names) == 1 else 'them'}",
                code="LK103",
            )
        )
    found += [
        unlike(
            f"`{prefix.parameter}` is called `{prefix.declared}`, because of auto_prefix=False",
            prefix.path,
            place=prefix.place,
            advice=prefix.write,
            code="LK105",
        )
        for prefix in nets.prefixes
    ]
    outputs = all(row.passed is not False for row in [*report.outputs, *report.modules])
    told = (outputs or any(not row.training for row in settings)) and (
        trained or bool(settings or nets.frozen)
    )
    if not report.passed and not (told and found):
        found.append(_otherwise(report))
    return [
        replace(
            change,
            place=change.place.replace(copy.name, file.name),
            message=change.message.replace(copy.name, file.name),
            advice=change.advice.replace(copy.name, file.name),
        )
        for change in found
    ]


def _otherwise(report: Report) -> Change:
    """Return a finding of what `verify` says of a difference that is in no setting."""
    lines = [line.strip() for line in report.causes() if line.strip()]
    writes = [line for line in lines if line.startswith(_WRITE)]
    what = "; ".join([report.summary(), *(line for line in lines[:1] if line not in writes)])
    advice, _, places = (writes or [""])[0].removeprefix(_WRITE).partition(" - at ")
    return unlike(what, "", place=places, advice=advice, code=OTHERWISE)


_WRITE = "write: "


_OPS = ("ops.stop_gradient", "ops.where")


def _imported(text: str) -> Iterator[tuple[str, str]]:
    """Return the imports of an argument's source code: (module, name), or (module, "") for a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id == "math":
            yield "math", ""
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in _OPS:
            yield "mindspore", "ops"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[:1].isupper():
            yield "mindspore.common.initializer", node.func.id
